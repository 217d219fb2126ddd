#!/bin/bash
# The archiver of zig. The libraries of Debian's compiler are not for it.
exec env -u LD_LIBRARY_PATH "@PYTHON@" -m ziglang ar "$@"
