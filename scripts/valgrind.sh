#!/usr/bin/env bash
# The unit tests under valgrind's memcheck: no error, no leak.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build-valgrind
[ -f "$build/build.ninja" ] ||
    meson setup "$build" --buildtype=debugoptimized -Dnginx=disabled >/dev/null
ninja -C "$build" >/dev/null
meson test -C "$build" --no-rebuild --print-errorlogs --suite unit --suite golden --timeout-multiplier 20 \
    --wrap 'valgrind --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite -q'
