#!/bin/bash
# Wine from its unpacked packages. WINEPREFIX is the caller's.
usr=@USR@
export LD_LIBRARY_PATH=$usr/lib/x86_64-linux-gnu WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
exec "$usr/lib/wine/wine64" "$@"
