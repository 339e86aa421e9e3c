#!/usr/bin/env bash
# Every comparison, each beside its peer in one run: JSON lines as they come, then a table. bench.sh BUILD;
# BENCH_QUICK=1 for a look (fewer rounds, smaller tables).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
quick=${BENCH_QUICK:+--quick}
few=${BENCH_QUICK:+--rounds 3 --seconds 1}
{
    # shellcheck disable=SC2086 # words or nothing
    "$build/bench/bench_check" $quick
    "$build/bench/bench_match" $quick
    "$build/bench/bench_quota"
    python3 bench/replay.py "$build" ${BENCH_QUICK:+--lines 200000}
    python3 bench/nginx.py "$build" $few
    python3 bench/grpc.py "$build" ${BENCH_QUICK:+--rounds 3 --requests 50000}
    # shellcheck disable=SC2086
    python3 bench/http.py "$build" $few
    python3 bench/strict.py "$build" ${BENCH_QUICK:+--rounds 3 --share 0.2}
    python3 bench/leased.py "$build" ${BENCH_QUICK:+--rounds 3 --share 0.2}
    python3 bench/stores.py "$build" ${BENCH_QUICK:+--rounds 3 --share 0.2}
    python3 bench/resp.py "$build" ${BENCH_QUICK:+--rounds 3 --share 0.2}
    python3 bench/redis_script.py ${BENCH_QUICK:+--rounds 3}
} | tee "$rows"
echo
python3 bench/table.py <"$rows"
