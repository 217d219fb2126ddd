#!/bin/sh
# Makes the packages of every program below target/dist/programs, then checksums, installers and manifests.
# Usage: scripts/release/package.sh [DOWNLOADS-URL [HOME-URL]]
set -eu
cd "$(dirname "$0")/../.."
downloads=${1:-}
home=${2:-}
for folder in target/dist/programs/*/; do
  target=$(basename "$folder")
  set -- "$folder"tollgate*
  chmod +x "$1"
  cargo xtask package --target "$target" --program "$1" --out target/dist/packages
done
set --
[ -z "$downloads" ] || set -- --downloads "$downloads"
[ -z "$home" ] || set -- "$@" --home "$home"
cargo xtask package release --out target/dist/packages "$@"
