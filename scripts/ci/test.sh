#!/bin/sh
# Everything that must pass on this machine. The development tools run on Linux; elsewhere the tests of the crates do.
set -eu
cd "$(dirname "$0")/../.."
case $(uname -s) in
  Linux) cargo xtask test "$@" ;;
  *) cargo test --workspace --exclude xtask --locked --no-fail-fast "$@" ;;
esac
