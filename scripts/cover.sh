#!/usr/bin/env bash
# Line coverage of the tests in C, by gcov alone: a table of files, worst first.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build-cover
[ -f "$build/build.ninja" ] || meson setup "$build" --buildtype=debug -Db_coverage=true -Dnginx=disabled >/dev/null
ninja -C "$build" >/dev/null
meson test -C "$build" --no-rebuild --print-errorlogs >/dev/null
find "$build" -path '*lib*.a.p*' -name '*.gcda' -print0 |
    (cd "$build" && sed -z "s|^$build/||" | xargs -0 gcov -n 2>/dev/null) |
    awk -F"'" '/^File/ {f=$2} /^Lines executed/ && f ~ /src\// {split($0,a,/[:% ]+/); print a[3] "% " f; f=""}' |
    sort -n
