#!/usr/bin/env python3
"""The script that decides in Redis (src/remote/decide.lua) beside the smallest GCRA script one can write, on one
server in turns: CPU time of the server per EVALSHA, 50 in a pipeline. Prints one JSON line a case; medians of
the rounds' ratios."""
import argparse
import hashlib
import json
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from servers import cpu_ns

DECIDE = (pathlib.Path(__file__).resolve().parent.parent / "src/remote/decide.lua").read_bytes()
# No checks, no leases, one key, one algorithm.
SMALL = b"""local emission, tolerance, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or 0)
if tat < now then tat = now end
local new = tat + cost * emission
if new - now > tolerance then
  return {0, math.floor((tolerance - (tat - now)) / emission), new - now - tolerance}
end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return {1, math.floor((tolerance - (new - now)) / emission), 0}
"""
KEYS, PIPELINE, WINDOW_US = 2000, 50, 3600000000
HEAD = struct.pack("<Bddd", 0, 0, 1, 1000)


def key(i):
    return b"weir:{%032x}:per-key" % (i * 7919 % KEYS)


def record(algorithm, *numbers):
    return struct.pack("<BB6d", algorithm, 0, 1, 0, *numbers)


def small(tolerance):
    return lambda i: (SMALL, 1, key(i), 3600000, tolerance, 1)


def ours(*records):
    return lambda i: (DECIDE, len(records), *(key(i) + b"%d" % n for n in range(len(records))), HEAD + b"".join(records))


BUCKET = record(1, 3600000, 1, WINDOW_US, WINDOW_US)
ONE = record(1, 3600000, 1, 3600000, 3600000)
# name, ours, peer, at most
CASES = [
    ("token-bucket, admitted", ours(BUCKET), small(WINDOW_US), 1.2),
    ("token-bucket, refused", ours(ONE), small(3600000), 1.35),  # asks for the TTL, which the small one does not
    ("leaky-bucket", ours(record(2, 3600000, 1, WINDOW_US, WINDOW_US)), small(WINDOW_US), 1.3),
    ("fixed-window", ours(record(3, 1e6, WINDOW_US, 2**24 - 1, 0)), small(WINDOW_US), 1.3),
    ("sliding-window", ours(record(4, 1e6, WINDOW_US, 2**24 - 1, 0)), small(WINDOW_US), 1.3),
    ("three token buckets", ours(BUCKET, BUCKET, BUCKET), small(WINDOW_US), 2.6),
]


class Redis:
    def __init__(self, directory):
        path = f"{directory}/redis.sock"
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", directory],
                                        stdout=subprocess.DEVNULL)
        self.socket = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + 30
        while self.socket.connect_ex(path) != 0:
            if time.monotonic() > deadline:
                sys.exit("redis-server does not answer")
            time.sleep(0.05)
        self.file = self.socket.makefile("rb")

    @staticmethod
    def encode(*words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)

    def read(self):
        line = self.file.readline()
        if line[:1] == b"-":
            sys.exit(line.decode())
        if line[:1] == b"*":
            return [self.read() for _ in range(int(line[1:]))]
        return self.file.read(int(line[1:]) + 2) if line[:1] == b"$" else line

    def run(self, case, calls):
        """CPU us of the server a call."""
        script = case(0)[0]
        self.socket.sendall(self.encode("SCRIPT", "LOAD", script) + self.encode("FLUSHALL"))
        self.read(), self.read()
        digest = hashlib.sha1(script).hexdigest()
        before = cpu_ns(self.process.pid)
        for first in range(0, calls, PIPELINE):
            self.socket.sendall(b"".join(self.encode("EVALSHA", digest, *case(i)[1:]) for i in range(first, first + PIPELINE)))
            for _ in range(PIPELINE):
                self.read()
        return (cpu_ns(self.process.pid) - before) / calls / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=20000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as directory:
        redis = Redis(directory)
        try:
            rounds = [[(redis.run(mine, options.calls), redis.run(peer, options.calls)) for _, mine, peer, _ in CASES]
                      for _ in range(options.rounds)]
        finally:
            redis.process.kill()
            redis.process.wait()
    for (name, _, _, most), pairs in zip(CASES, zip(*rounds)):
        ratio = round(statistics.median(a / b for a, b in pairs), 2)
        print(json.dumps(dict(bench="redis script", case=name, unit="CPU us a call", ours=round(statistics.median(a for a, _ in pairs), 2),
                              peer=round(statistics.median(b for _, b in pairs), 2), ratio=ratio, target=f"<= {most}", met=ratio <= most)))


if __name__ == "__main__":
    main()
