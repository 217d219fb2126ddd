#!/bin/sh
# Builds the program for one target into target/dist/programs/TARGET.
# Usage: scripts/release/build.sh TARGET [PROFILE]
set -eu
cd "$(dirname "$0")/../.."
target=$1
profile=${2:-release}
case $profile in
  dev) folder=debug ;;
  *) folder=$profile ;;
esac
case $target in
  *-musl)
    # C code is compiled against musl, not against this machine's library.
    if ! command -v musl-gcc; then
      echo "no musl-gcc; install the package musl-tools" >&2
      exit 1
    fi
    ;;
esac
cargo build --profile "$profile" --locked --package tollgate --target "$target"
program=tollgate
case $target in
  *-windows-*) program=tollgate.exe ;;
esac
mkdir -p "target/dist/programs/$target"
cp "target/$target/$folder/$program" "target/dist/programs/$target/$program"
scripts/release/check.sh "$target"
