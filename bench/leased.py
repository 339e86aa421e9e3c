#!/usr/bin/env python3
"""Leased decisions over a few hot keys beside local ones: two daemons of one policy, one of them with a store, under the
same load in turns, and the commands that its Redis saw for each decision.

WEIR.CHECK, pipelined, by redis-benchmark; POST /v1/check with 16 requests in an array by wrk, where there is one. Daemons
are pinned to one core, load and Redis to the other. Prints a JSON line a comparison; medians of the rounds' ratios."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

from servers import cpu_ns, free_ports, wait_for

POLICY = """version: 1
arena: {path: %(dir)s/%(name)s.arena, size: 64MiB}
listen: {resp: "127.0.0.1:%(resp)d", http: "127.0.0.1:%(http)d", admin: "127.0.0.1:%(admin)d", threads: 1}
identity:
  api_key: {header: X-Api-Key}
%(store)slimits:
  - {name: any, by: [api_key], rate: 10000000/second, algorithm: %(algorithm)s%(shared)s}
"""
STORE = """store: {redis: {url: "redis://127.0.0.1:%d/0"}, mode: leased, deadline: 500ms}
"""
KEYS = 4
ARRAY = 16
LUA = """local n = 0
request = function()
    local all = {}
    for i = 1, %d do
        n = n + 1
        all[i] = '{"ip":"192.0.2.7","method":"GET","path":"/x","headers":{"X-Api-Key":"key-' .. n %% %d .. '"}}'
    end
    return wrk.format("POST", "/v1/check", nil, "[" .. table.concat(all, ",") .. "]")
end
"""
RATE, COMMANDS = 0.9, 0.02


class Daemon:
    def __init__(self, bench, name, store="", shared="", core=None, algorithm="token-bucket"):
        self.resp, self.http, self.admin = free_ports(3)
        path = bench.dir / f"{name}.yaml"
        path.write_text(POLICY % dict(dir=bench.dir, name=name, resp=self.resp, http=self.http, admin=self.admin, store=store,
                                      shared=shared, algorithm=algorithm))
        self.process = bench.start(core or bench.server_core, bench.build / "weir", "serve", "-c", path, "--log-level", "error")
        wait_for(self.resp)

    def commands(self):
        """That the store has been sent."""
        with socket.create_connection(("127.0.0.1", self.admin), 10) as wire:  # http.client is hidden by http.py here
            wire.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            text = b"".join(iter(lambda: wire.recv(65536), b"")).decode()
        found = re.search(r"^weir_store_commands_total (\d+)", text, re.M)
        return int(found.group(1)) if found else 0


class Machine:
    """Daemons on one core, load and stores on the other."""

    def __init__(self, build, directory):
        self.build, self.dir, self.processes = build, directory, []
        cores = sorted(os.sched_getaffinity(0))
        self.server_core, self.load_core = str(cores[0]), str(cores[-1])

    def start(self, core, *argv):
        self.processes.append(subprocess.Popen(["taskset", "-c", core, *map(str, argv)], stdout=subprocess.DEVNULL))
        return self.processes[-1]

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            process.wait()

    def run(self, *argv):
        return subprocess.check_output(["taskset", "-c", self.load_core, *map(str, argv)], text=True, stderr=subprocess.DEVNULL)

    def resp(self, daemon, share, clients, pipeline, requests):
        """Decisions, and how many a second."""
        requests = int(requests * share)
        out = self.run("redis-benchmark", "-p", daemon.resp, "-c", clients, "-P", pipeline, "-n", requests, "-r", KEYS, "--csv",
                       "WEIR.CHECK", "any", "key-__rand_int__")
        return requests, float(out.strip().split("\n")[-1].split('","')[1].strip('"'))


class Bench(Machine):
    def __init__(self, build, directory):
        super().__init__(build, directory)
        port, = free_ports(1)
        (directory / "array.lua").write_text(LUA % (ARRAY, KEYS))
        self.start(self.load_core, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                   "--dir", directory)
        wait_for(port)
        self.local = Daemon(self, "local")
        self.leased = Daemon(self, "leased", STORE % port, ", shared: true")

    def array(self, daemon, share):
        out = self.run("wrk", "-t1", "-c16", f"-d{max(1, round(3 * share))}s", "-s", self.dir / "array.lua",
                       f"http://127.0.0.1:{daemon.http}")
        if "Non-2xx" in out or "Socket errors" in out:
            sys.exit(f"leased.py: not every request was answered 200:\n{out}")
        return (ARRAY * int(re.search(r"(\d+) requests in", out).group(1)),
                ARRAY * float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)))


def measured(daemon, load):
    """(CPU us, store commands) of a decision, and decisions a second."""
    cpu, commands = cpu_ns(daemon.process.pid), daemon.commands()
    decisions, rate = load(daemon)
    return (cpu_ns(daemon.process.pid) - cpu) / decisions / 1000, (daemon.commands() - commands) / decisions, rate


def row(case, unit, ours, peer, ratio, target, met):
    print(json.dumps(dict(bench="leased", case=case, unit=unit, ours=ours, peer=peer, ratio=ratio, target=target, met=met)),
          flush=True)


def compare(bench, case, rounds, load):
    load(bench.leased)  # its keys are known to be hot from here on
    rows = [(measured(bench.local, load), measured(bench.leased, load)) for _ in range(rounds)]
    local, leased = ([statistics.median(r[i][k] for r in rows) for k in range(3)] for i in (0, 1))
    ratio = round(statistics.median(ours[2] / peer[2] for peer, ours in rows), 3)
    row(case, "decisions/s", round(leased[2]), round(local[2]), ratio, f">= {RATE}", ratio >= RATE)
    ratio = round(statistics.median(ours[0] / peer[0] for peer, ours in rows), 3)
    row(case, "CPU us a decision", round(leased[0], 3), round(local[0], 3), ratio, f"<= {1 / RATE:.2f}", ratio <= round(1 / RATE, 2))
    row(case, "store commands a decision", round(leased[1], 6), 0, round(leased[1], 6), f"<= {COMMANDS}", leased[1] <= COMMANDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--share", type=float, default=1, help="of the load of a round")
    options = parser.parse_args()
    for tool in ("redis-server", "redis-benchmark"):
        if shutil.which(tool) is None:
            sys.exit(f"leased.py: no {tool}: scripts/setup.sh bench")
    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir="/dev/shm") as directory:
        bench = Bench(options.build.resolve(), pathlib.Path(directory))
        try:
            for clients, pipeline, requests in ((16, 64, 1_500_000), (16, 16, 800_000), (64, 1, 100_000)):
                compare(bench, f"WEIR.CHECK, {clients} x {pipeline}", options.rounds,
                        lambda daemon: bench.resp(daemon, options.share, clients, pipeline, requests))
            if shutil.which("wrk") is not None:
                compare(bench, f"POST /v1/check, arrays of {ARRAY}", options.rounds,
                        lambda daemon: bench.array(daemon, options.share))
        finally:
            bench.stop()


if __name__ == "__main__":
    main()
