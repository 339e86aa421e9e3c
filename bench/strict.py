#!/usr/bin/env python3
"""Strict decisions in a Redis: through weir's backend, and through a daemon's RESP door by redis-benchmark, beside a bare
hiredis client on libuv that sends the same commands. The server on one core, the clients in turn on the other, the daemon with
its client; medians of the rounds' ratios. Prints a JSON line a case."""
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

POLICY = """version: 1
arena: {path: %(dir)s/arena, size: 16MiB}
listen: {resp: "127.0.0.1:%(port)d", threads: 1}
store: {redis: {url: "redis://127.0.0.1:%(redis)d/0"}, deadline: 1s}
limits:
  - {name: any, by: [ip], rate: 10000000/second, shared: true}
"""
DOOR = (4, 16)  # clients, commands in a pipeline: 64 in flight
KEYS = 100_000


class Daemon:
    def __init__(self, build, core, directory, redis):
        self.core, (self.port,) = core, free_ports(1)
        path = pathlib.Path(directory) / "policy.yaml"
        path.write_text(POLICY % dict(dir=directory, port=self.port, redis=redis))
        self.process = subprocess.Popen(["taskset", "-c", core, str(build / "weir"), "serve", "-c", str(path), "--log-level", "error"])
        wait_for(self.port)

    def rate(self, calls):
        out = subprocess.check_output(
            ["taskset", "-c", self.core, "redis-benchmark", "-p", str(self.port), "-c", str(DOOR[0]), "-P", str(DOOR[1]), "-n",
             str(calls), "-r", str(KEYS), "--csv", "WEIR.CHECK", "any", "key-__rand_int__"], text=True, stderr=subprocess.DEVNULL)
        return float(out.strip().split("\n")[-1].split('","')[1].strip('"'))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def report(case, rows, target):
    """|rows|: ours and the bare client's decisions/s of each round."""
    ratio = round(statistics.median(ours / raw for ours, raw in rows), 2)
    print(json.dumps(dict(bench="strict", case=case, unit="decisions/s", ours=round(statistics.median(r[0] for r in rows)),
                          peer=round(statistics.median(r[1] for r in rows)), ratio=ratio, target=f">= {target}",
                          met=ratio >= target)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1, help="of the decisions of a round")
    options = parser.parse_args()
    for tool in ("redis-server", "redis-benchmark"):
        if shutil.which(tool) is None:
            sys.exit(f"strict.py: no {tool}: scripts/setup.sh bench")
    cores = sorted(os.sched_getaffinity(0))
    port, = free_ports(1)

    def rate(who, in_flight, limits, calls):
        out = subprocess.check_output(["taskset", "-c", str(cores[-1]), str(options.build / "bench/bench_strict"), who,
                                       "127.0.0.1", str(port), str(calls), str(in_flight), str(limits)], text=True)
        return float(out)

    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir="/dev/shm") as directory:
        redis = subprocess.Popen(["taskset", "-c", str(cores[0]), "redis-server", "--port", str(port), "--bind", "127.0.0.1",
                                  "--save", "", "--appendonly", "no", "--dir", directory], stdout=subprocess.DEVNULL)
        try:
            wait_for(port)
            for in_flight, limits, calls, target in CASES:
                calls = int(calls * options.share)
                rate("raw", in_flight, limits, calls)  # the keys are there from here on
                rows = [(rate("ours", in_flight, limits, calls), rate("raw", in_flight, limits, calls))
                        for _ in range(options.rounds)]
                report(f"{in_flight} in flight, {limits} limit{'s' if limits > 1 else ''}", rows, target)
            daemon = Daemon(options.build, str(cores[-1]), directory, port)
            try:
                calls = int(CASES[0][2] * options.share)
                rows = [(daemon.rate(calls), rate("raw", 64, 1, calls)) for _ in range(options.rounds)]
                report(f"WEIR.CHECK, {DOOR[0]} x {DOOR[1]}, beside its client", rows, CASES[0][3])
            finally:
                daemon.stop()
        finally:
            redis.terminate()
            redis.wait()


if __name__ == "__main__":
    main()
