#!/usr/bin/env python3
"""Decisions by memcached, and in a ring of two nodes, beside local ones: daemons of one policy under the same load in
turns. Of the ring: keys that the node asked owns, and keys that the other one does; strict and leased.

WEIR.CHECK of one hot key (memcached, strict: of a thousand), pipelined, by redis-benchmark. Daemons that are asked are pinned to one core; load, memcached
and the other node to the other. CPU is that of the node asked; of forwarded keys also that of both nodes together.
Prints a JSON line a comparison; medians of the rounds' ratios."""
import argparse
import json
import pathlib
import re
import shutil
import socket
import statistics
import sys
import tempfile
import time

from leased import Daemon, Machine
from servers import cpu_ns, free_ports, wait_for

MEMCACHED = 'store: {memcached: {servers: ["127.0.0.1:%d"]}, mode: %s, deadline: 500ms}\n'
RING = 'store: {ring: {self: "127.0.0.1:%d", peers: ["127.0.0.1:%d", "127.0.0.1:%d"]}, mode: %s, deadline: 500ms}\n'
SHARED = ", shared: true"
CLIENTS, PIPELINE, REQUESTS = 16, 64, 200_000
KEYS = 1000  # of strict memcached; one hot key of a bucket there loses most of its races


class Wire:
    """A connection that asks one question at a time."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)

    def ask(self, key):
        self.socket.sendall(b"*3\r\n$10\r\nWEIR.CHECK\r\n$3\r\nany\r\n$%d\r\n%s\r\n" % (len(key), key.encode()))
        data = b""
        while data.count(b"\n") < 6:
            data += self.socket.recv(4096)
            if data.startswith(b"-"):
                sys.exit(f"stores.py: {data!r}")


def metric(daemon, name):
    with socket.create_connection(("127.0.0.1", daemon.admin), 10) as wire:
        wire.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: wire.recv(65536), b"")).decode()
    return sum(int(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\d+)", text, re.M))


def until(what, condition):
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)
    sys.exit(f"stores.py: {what} did not come")


class Ring:
    """Two nodes; |first| is asked."""

    def __init__(self, machine, mode):
        ports = free_ports(2)
        cores = machine.server_core, machine.load_core
        self.first, self.second = (Daemon(machine, f"ring-{mode}-{i}", RING % (ports[i], *ports, mode), SHARED, cores[i])
                                   for i in range(2))
        until("a ring", lambda: metric(self.first, "weir_ring_peer_up") == metric(self.second, "weir_ring_peer_up") == 1)
        wire = Wire(self.first.resp)
        # While one alone is ready everything goes there: until twice the same is said.
        self.keys = None
        until("owners", lambda: self._look(wire))

    def _look(self, wire):
        owned, forwarded = [], []
        for i in range(16):
            before = metric(self.first, "weir_ring_forwarded_total")
            wire.ask(f"key{i}")
            (forwarded if metric(self.first, "weir_ring_forwarded_total") > before else owned).append(f"key{i}")
        last, self.keys = self.keys, (owned, forwarded)
        return owned and forwarded and last == self.keys


def run(machine, daemon, key, share):
    """(CPU us, store commands) of a decision, and decisions a second."""
    requests = int(REQUESTS * share)
    cpu, commands = cpu_ns(daemon.process.pid), daemon.commands()
    out = machine.run("redis-benchmark", "-p", daemon.resp, "-c", CLIENTS, "-P", PIPELINE, "-n", requests, "-r", KEYS, "--csv",
                      "WEIR.CHECK", "any", key)
    rate = float(out.strip().split("\n")[-1].split('","')[1].strip('"'))
    return (cpu_ns(daemon.process.pid) - cpu) / requests / 1000, (daemon.commands() - commands) / requests, rate


def row(case, unit, ours, peer, ratio, target, met):
    print(json.dumps(dict(bench="stores", case=case, unit=unit, ours=ours, peer=peer, ratio=ratio, target=target, met=met)),
          flush=True)


def compare(case, rounds, target, local, ours, other=None):
    """|target|: of CPU, at most."""
    ours()
    rows = []
    for _ in range(rounds):
        peer, before = local(), cpu_ns(other.process.pid) if other else 0
        mine = ours()
        rows.append((peer, mine, (cpu_ns(other.process.pid) - before) / 1000 if other else 0))
    local, mine = ([statistics.median(r[i][k] for r in rows) for k in range(3)] for i in (0, 1))
    ratio = round(statistics.median(r[1][0] / r[0][0] for r in rows), 2)
    row(case, "CPU us a decision", round(mine[0], 3), round(local[0], 3), ratio, f"<= {target}", ratio <= target)
    ratio = round(statistics.median(r[1][2] / r[0][2] for r in rows), 2)
    row(case, "decisions/s", round(mine[2]), round(local[2]), ratio, "told", True)
    row(case, "store commands a decision", round(mine[1], 4), 0, round(mine[1], 4), "told", True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1, help="of the load of a round")
    options = parser.parse_args()
    memcached = shutil.which("memcached") or "/usr/bin/memcached"
    for tool in (memcached, "redis-benchmark"):
        if shutil.which(tool) is None:
            sys.exit(f"stores.py: no {tool}: scripts/setup.sh bench")
    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir="/dev/shm") as directory:
        machine = Machine(options.build.resolve(), pathlib.Path(directory))
        try:
            bench(machine, memcached, options)
        finally:
            machine.stop()


def bench(machine, memcached, options):
    port, = free_ports(1)
    machine.start(machine.load_core, memcached, "-l", "127.0.0.1", "-p", port, "-U", 0, "-u", "root", "-m", 64)
    wait_for(port)
    alone = Daemon(machine, "local")

    def local():
        return run(machine, alone, "key0", options.share)

    for mode, algorithm, key, target in (("strict", "sliding-window", "key-__rand_int__", 30),
                                         ("strict", "token-bucket", "key-__rand_int__", 40), ("leased", "sliding-window", "key0", 1.5)):
        daemon = Daemon(machine, f"memcached-{mode}-{algorithm}", MEMCACHED % (port, mode), SHARED, algorithm=algorithm)
        compare(f"memcached, {mode}, {algorithm}", options.rounds, target, local,
                lambda d=daemon, k=key: run(machine, d, k, options.share))
    for mode, targets in (("strict", (4, 12)), ("leased", (1.5, 1.5))):
        ring = Ring(machine, mode)
        for i, case in enumerate((f"ring, {mode}, own key", f"ring, {mode}, other's key")):
            rows = compare(case, options.rounds, targets[i], local,
                           lambda k=ring.keys[i][0]: run(machine, ring.first, k, options.share), ring.second)
            if i == 1:
                requests = int(REQUESTS * options.share)
                both = [(r[1][0] + r[2] / requests, r[0][0]) for r in rows]
                row(f"{case}, both nodes", "CPU us a decision", round(statistics.median(b for b, _ in both), 3),
                    round(statistics.median(p for _, p in both), 3), round(statistics.median(b / p for b, p in both), 2), "told", True)


if __name__ == "__main__":
    main()
