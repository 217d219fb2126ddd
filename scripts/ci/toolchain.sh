#!/bin/sh
# Installs the toolchain that Cargo.toml names, unless it is there, and makes it this checkout's.
# Usage: scripts/ci/toolchain.sh [TARGET]
set -eu
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
case $version in
  *.*.*) ;;
  *) version=$version.0 ;;
esac
if ! rustup run "$version" cargo --version; then
  rustup toolchain install "$version" --profile minimal --component clippy --component rustfmt
fi
rustup override set "$version"
if [ $# -gt 0 ] && ! rustup target list --installed --toolchain "$version" | grep -qx "$1"; then
  rustup target add --toolchain "$version" "$1"
fi
