#!/bin/sh
# The built program starts, if it is one for this machine, and a musl build needs no library.
# Usage: scripts/release/check.sh TARGET
set -eu
cd "$(dirname "$0")/../.."
target=$1
set -- target/dist/programs/"$target"/tollgate*
program=$1
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
case $target in
  *-musl)
    if ldd "$program" 2>&1 | grep -q '=>'; then
      echo "$program needs libraries:" >&2
      ldd "$program" >&2
      exit 1
    fi
    ;;
esac
machine=$(uname -m)
case $target in
  x86_64-*) fits=x86_64 ;;
  *) fits='arm64 aarch64' ;;
esac
case " $fits " in
  *" $machine "*)
    said=$("$program" --version | tr -d '\r')
    if [ "$said" != "tollgate $version" ]; then
      echo "$program says '$said', not 'tollgate $version'" >&2
      exit 1
    fi
    ;;
esac
echo "$program: $(wc -c < "$program") bytes"
