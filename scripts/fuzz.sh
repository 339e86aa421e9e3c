#!/usr/bin/env bash
# Every fuzz target with libFuzzer, ASan and UBSan, for FUZZ_SECONDS (20) each. New inputs stay in
# build-fuzz/found; a crash is written there and ends the run.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build-fuzz
seconds=${FUZZ_SECONDS:-20}
[ -f "$build/build.ninja" ] ||
    CC=clang-14 meson setup "$build" --buildtype=debugoptimized -Dfuzzer=true -Dnginx=disabled \
        -Db_lundef=false -Db_sanitize=address,undefined \
        -Dc_args=-fsanitize=fuzzer-no-link >/dev/null
ninja -C "$build" >/dev/null
for program in "$build"/fuzz/fuzz_*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    name=$(basename "$program"); name=${name#fuzz_}
    found=$build/found/$name
    mkdir -p "$found"
    echo "== $name"
    "$program" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=65536 \
        -artifact_prefix="$found/" "$found" "fuzz/corpus/$name" 2>&1 | tail -n 2
done
