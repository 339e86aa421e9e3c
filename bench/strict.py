#!/usr/bin/env python3
"""Strict decisions in a Redis: through weir's backend, beside a bare hiredis client on libuv that sends the same
commands. The server on one core, the clients in turn on the other; medians of the rounds' ratios. Prints a JSON line a
case."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from servers import free_ports, wait_for

# in flight, limits of a decision, decisions a round, decisions/s against the bare client at least
CASES = [(64, 1, 150_000, 0.9), (64, 4, 60_000, 0.9), (1, 1, 15_000, 0.9)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1, help="of the decisions of a round")
    options = parser.parse_args()
    if shutil.which("redis-server") is None:
        sys.exit("strict.py: no redis-server: scripts/setup.sh bench")
    cores = sorted(os.sched_getaffinity(0))
    port, = free_ports(1)

    def rate(who, in_flight, limits, calls):
        out = subprocess.check_output(["taskset", "-c", str(cores[-1]), str(options.build / "bench/bench_strict"), who,
                                       "127.0.0.1", str(port), str(calls), str(in_flight), str(limits)], text=True)
        return float(out)

    with tempfile.TemporaryDirectory(prefix="weir-bench-") as directory:
        redis = subprocess.Popen(["taskset", "-c", str(cores[0]), "redis-server", "--port", str(port), "--bind", "127.0.0.1",
                                  "--save", "", "--appendonly", "no", "--dir", directory], stdout=subprocess.DEVNULL)
        try:
            wait_for(port)
            for in_flight, limits, calls, target in CASES:
                calls = int(calls * options.share)
                rate("raw", in_flight, limits, calls)  # the keys are there from here on
                rows = [(rate("ours", in_flight, limits, calls), rate("raw", in_flight, limits, calls))
                        for _ in range(options.rounds)]
                ratio = round(statistics.median(ours / raw for ours, raw in rows), 2)
                case = f"{in_flight} in flight, {limits} limit{'s' if limits > 1 else ''}"
                row = dict(bench="strict", case=case, unit="decisions/s", ours=round(statistics.median(r[0] for r in rows)),
                           peer=round(statistics.median(r[1] for r in rows)), ratio=ratio, target=f">= {target}",
                           met=ratio >= target)
                print(json.dumps(row), flush=True)
        finally:
            redis.terminate()
            redis.wait()


if __name__ == "__main__":
    main()
