#!/bin/sh
# What a machine needs to build a target apart from the toolchain.
# Usage: scripts/release/machine.sh TARGET
set -eu
case $1 in
  *-musl)
    if ! command -v musl-gcc; then
      sudo apt-get update
      sudo apt-get install --yes --no-install-recommends musl-tools
    fi
    ;;
esac
