#!/bin/bash
# `zig cc` for the target in this script's name, without the options of other compilers.
target=${0##*/zigcc-}
arguments=()
skip=
for argument in "$@"; do
  if [ -n "$skip" ]; then
    skip=
    continue
  fi
  case "$argument" in
    --target=* | -mmacosx-version-min=* | -mmacos-version-min=* | -liconv) ;;
    -target | -arch | -isysroot) skip=1 ;;
    *) arguments+=("$argument") ;;
  esac
done
exec env -u LD_LIBRARY_PATH "@PYTHON@" -m ziglang cc -target "$target" "${arguments[@]}"
