#!/usr/bin/env python3
"""CL.THROTTLE on the RESP door beside Redis: its GET, and a GCRA limiter as a script by EVALSHA, in one run.

Both servers are pinned to one core, redis-benchmark to the other, and take turns. Compared is the CPU time of the
server per request (schedstat): unpipelined, a faster server sleeps and wakes more, and requests/s say more of the
client. Where requests are pipelined, requests/s are compared as well. Prints one JSON line a comparison; medians
of the rounds' ratios."""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

from servers import cpu_ns, free_ports, wait_for

# The usual limiter in Lua: one key, the store's clock, what redis-cell replies.
SCRIPT = """local burst, count, period = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local interval = period / count
local span = interval * (burst + 1)
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + interval
if now < new - span then
    return {1, burst + 1, 0, math.ceil(new - span - now), math.ceil(tat - now)}
end
redis.call('SET', KEYS[1], string.format('%.6f', new), 'EX', math.ceil(new - now))
return {0, burst + 1, math.floor((span - new + now) / interval), -1, math.ceil(new - now)}
"""

POLICY = """version: 1
arena: {path: %(dir)s/arena, size: 64MiB}
listen: {resp: "127.0.0.1:%(port)d", threads: 1}
limits:
  - {name: any, by: [ip], rate: 100/minute}
"""

KEYS = 100000
# clients, commands in a pipeline, requests a round (GET and CL.THROTTLE, EVALSHA), then the targets:
# CPU against GET at most, CPU against EVALSHA at most, requests/s against GET and EVALSHA at least. Without pipelining
# a server that decides nothing takes 0.83 to 0.88 of GET: docs/decisions/0014-one-read-one-write-a-request.md.
CASES = [
    (16, 1, 100000, 60000, 0.95, 0.5, None, None),
    (64, 1, 100000, 60000, 0.95, 0.5, None, None),
    (16, 16, 600000, 80000, 0.9, 0.2, None, None),
    (16, 64, 1500000, 100000, 0.77, 0.1, 1.3, 10),
]


class Bench:
    def __init__(self, build, directory):
        cores = sorted(os.sched_getaffinity(0))
        self.server_core, self.load_core = str(cores[0]), str(cores[-1])
        self.redis_port, self.weir_port = free_ports(2)
        (directory / "policy.yaml").write_text(POLICY % dict(dir=directory, port=self.weir_port))
        self.redis = self.start("redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", "",
                                "--appendonly", "no", "--dir", str(directory))
        self.weir = self.start(str(build / "weir"), "serve", "-c", str(directory / "policy.yaml"), "--log-level", "error")
        wait_for(self.redis_port)
        wait_for(self.weir_port)
        self.sha = subprocess.check_output(["redis-cli", "-p", str(self.redis_port), "SCRIPT", "LOAD", SCRIPT],
                                           text=True).strip()
        self.load(self.redis, self.redis_port, 16, 64, 4 * KEYS, "SET", "key:__rand_int__", "0123456789abcdef")

    def start(self, *argv):
        return subprocess.Popen(["taskset", "-c", self.server_core, *argv], stdout=subprocess.DEVNULL)

    def stop(self):
        for server in (self.weir, self.redis):
            server.send_signal(signal.SIGTERM)
            server.wait()

    def load(self, server, port, clients, pipeline, requests, *command):
        """Requests/s and the server's CPU microseconds a request."""
        before = cpu_ns(server.pid)
        out = subprocess.check_output(
            ["taskset", "-c", self.load_core, "redis-benchmark", "-p", str(port), "-c", str(clients), "-P", str(pipeline),
             "-n", str(requests), "-r", str(KEYS), "--csv", *command], text=True, stderr=subprocess.DEVNULL)
        spent = cpu_ns(server.pid) - before
        return float(out.strip().split("\n")[-1].split('","')[1].strip('"')), spent / requests / 1000

    def round(self, clients, pipeline, requests, few):
        return (self.load(self.redis, self.redis_port, clients, pipeline, requests, "GET", "key:__rand_int__"),
                self.load(self.redis, self.redis_port, clients, pipeline, few, "EVALSHA", self.sha, "1",
                          "gcra:__rand_int__", "100", "100", "60"),
                self.load(self.weir, self.weir_port, clients, pipeline, requests, "CL.THROTTLE", "key:__rand_int__",
                          "100", "100", "60"))


def report(case, unit, rows, peer, value, target, at_most):
    ours, theirs = (statistics.median(row[i][value] for row in rows) for i in (2, peer))
    ratio = round(statistics.median(row[2][value] / row[peer][value] for row in rows), 2)
    digits = 2 if at_most else 0
    print(json.dumps(dict(bench="resp", case=case, unit=unit, ours=round(ours, digits), peer=round(theirs, digits), ratio=ratio,
                          target=f"{'<=' if at_most else '>='} {target}", met=ratio <= target if at_most else ratio >= target)),
          flush=True)


def measure(bench, rounds, share):
    for clients, pipeline, requests, few, get_cpu, script_cpu, get_rate, script_rate in CASES:
        rows = [bench.round(clients, pipeline, int(requests * share), int(few * share)) for _ in range(rounds)]
        for name, peer, cpu, rate in (("GET", 0, get_cpu, get_rate), ("EVALSHA", 1, script_cpu, script_rate)):
            case = f"CL.THROTTLE / {name}, {clients} x {pipeline}"
            report(case, "CPU us a request", rows, peer, 1, cpu, True)
            if rate is not None:
                report(case, "requests/s", rows, peer, 0, rate, False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1, help="of the requests of a round")
    options = parser.parse_args()
    for tool in ("redis-server", "redis-benchmark", "redis-cli"):
        if shutil.which(tool) is None:
            sys.exit(f"resp.py: no {tool}: scripts/setup.sh bench")
    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir="/dev/shm") as directory:
        bench = Bench(options.build.resolve(), pathlib.Path(directory))
        try:
            measure(bench, options.rounds, options.share)
        finally:
            bench.stop()


if __name__ == "__main__":
    main()
