#!/usr/bin/env python3
"""The gRPC door beside a bare nghttp2 echo, in one run: h2load, 16 connections of 32 streams.

Each server has one core to itself and h2load the other; the two take turns over several rounds. What is compared is the
CPU time of the server per request, and requests/s as a second look. A question is two descriptors of three
entries, as Envoy sends them; both are counted and answered with statuses. Prints JSON lines."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from servers import cpu_ns, free_ports, wait_for

POLICY = """version: 1
arena: {path: %(dir)s/arena, size: 16MiB}
listen: {grpc: 127.0.0.1:%(port)d, threads: 1}
envoy_ratelimit: [shop.yaml]
"""
SHOP = """domain: bench
descriptors:
  - {key: remote_address, rate_limit: {unit: second, requests_per_unit: 1000000000}}
  - key: api_key
    descriptors:
      - {key: path, rate_limit: {unit: minute, requests_per_unit: 4000000000}}
"""


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def question():
    def descriptor(*entries):
        return field(2, b"".join(field(1, field(1, k) + field(2, v)) for k, v in entries))
    message = field(1, b"bench") + descriptor((b"remote_address", b"192.0.2.117")) + \
        descriptor((b"api_key", b"k_live_1234567"), (b"path", b"/search/of/things"))
    return bytes([0]) + len(message).to_bytes(4, "big") + message


class Server:
    def __init__(self, argv, port, core):
        self.port = port
        self.process = subprocess.Popen(["taskset", "-c", str(core), *map(str, argv)], stderr=subprocess.DEVNULL)
        wait_for(port)

    def load(self, core, body, requests, clients, streams):
        """Requests/s, and CPU microseconds of the server a request."""
        before = cpu_ns(self.process.pid)
        out = subprocess.check_output(
            ["taskset", "-c", str(core), "h2load", "-t1", "-n", str(requests), "-c", str(clients), "-m", str(streams),
             "-d", str(body), "-H", "content-type: application/grpc", "-H", "te: trailers",
             f"http://127.0.0.1:{self.port}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"], text=True)
        spent = cpu_ns(self.process.pid) - before
        good = int(re.search(r"(\d+) succeeded", out).group(1))
        if good != requests or f"{requests} 2xx" not in out:
            sys.exit(f"not every request was answered:\n{out}")
        return float(re.search(r"([\d.]+) req/s", out).group(1)), spent / requests / 1000

    def stop(self):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=200000)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir="/dev/shm") as name:
        folder = pathlib.Path(name)
        ports = free_ports(2)
        (folder / "shop.yaml").write_text(SHOP)
        (folder / "policy.yaml").write_text(POLICY % {"dir": folder, "port": ports[0]})
        (folder / "question").write_bytes(question())
        servers = [Server([options.build / "weir", "serve", "-c", folder / "policy.yaml"], ports[0], cores[0]),
                   Server([options.build / "bench/bench_grpc_echo", ports[1]], ports[1], cores[0])]
        try:
            for clients, streams, most in ((16, 32, 1.5), (1, 32, 1.5)):
                rows = [[s.load(cores[-1], folder / "question", options.requests, clients, streams) for s in servers]
                        for _ in range(options.rounds)]
                case = f"two descriptors, {clients} x {streams}"
                ours, peer = (statistics.median(row[i][1] for row in rows) for i in (0, 1))
                ratio = statistics.median(row[0][1] / row[1][1] for row in rows)
                print(json.dumps(dict(bench="grpc", case=case, unit="CPU us a request", ours=round(ours, 2),
                                      peer=round(peer, 2), ratio=round(ratio, 2), target=f"<= {most}",
                                      met=ratio <= most)), flush=True)
                rate = statistics.median(row[0][0] / row[1][0] for row in rows)
                print(json.dumps(dict(bench="grpc", case=case, unit="requests/s",
                                      ours=round(statistics.median(row[0][0] for row in rows)),
                                      peer=round(statistics.median(row[1][0] for row in rows)), ratio=round(rate, 2),
                                      target=">= 0.6", met=rate >= 0.6)), flush=True)
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    main()
