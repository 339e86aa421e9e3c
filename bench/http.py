#!/usr/bin/env python3
"""The HTTP door of `weir serve` beside nginx that serves a file of 200 bytes, in one run.

Each server is one thread pinned to one core; wrk with 64 connections has the other. Cases take turns over
several rounds; what is compared is the CPU time of the server per request (schedstat). Prints one JSON line
a case."""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile

from servers import cpu_ns, free_ports, wait_for


POLICY = """version: 1
arena: {path: %(dir)s/arena, size: 16MiB}
listen: {http: "127.0.0.1:%(weir)d", threads: 1}
identity:
  ip: {from: x-forwarded-for, trusted: [127.0.0.1]}
  api_key: {header: X-Api-Key}
limits:
  - {name: per-key, by: [api_key], rate: 100000/second, algorithm: token-bucket}
"""

CONF = """worker_processes 1; daemon off; master_process off; pid %(dir)s/nginx.pid; error_log %(dir)s/error.log warn;
events { worker_connections 1024; }
http {
    access_log off; keepalive_requests 100000000; open_file_cache max=100; etag off;
    client_body_temp_path %(dir)s/t1; proxy_temp_path %(dir)s/t2; fastcgi_temp_path %(dir)s/t3;
    uwsgi_temp_path %(dir)s/t4; scgi_temp_path %(dir)s/t5;
    server { listen 127.0.0.1:%(nginx)d; root %(dir)s/www; }
}
"""

LUA = """local keys = {}
for i = 1, 4096 do keys[i] = string.format("key-%%04d-%%08x", i, i * 2654435761 %% 4294967296) end
local n = 0
request = function()
    n = n + 1
    local key = keys[n * 1103 %% 4096 + 1]
    return %s
end
"""
REQUESTS = {
    "file": 'wrk.format("GET", "/f", { ["X-Api-Key"] = key })',
    "check": 'wrk.format("POST", "/v1/check", nil, \'{"ip":"192.0.2.7","method":"GET","path":"/x",'
             '"headers":{"X-Api-Key":"\' .. key .. \'"}}\')',
    "auth": 'wrk.format("GET", "/v1/auth", { ["X-Api-Key"] = key, ["X-Original-URI"] = "/x", '
            '["X-Original-Method"] = "GET", ["X-Forwarded-For"] = "192.0.2.7" })',
}
TARGET = 0.95


class Bench:
    def __init__(self, build, directory, seconds):
        self.dir, self.seconds = directory, seconds
        self.ports = dict(zip(("weir", "nginx"), free_ports(2)))
        cores = sorted(os.sched_getaffinity(0))
        self.server_core, self.load_core = cores[0], cores[-1]
        values = dict(dir=directory, **self.ports)
        (directory / "www").mkdir()
        (directory / "www" / "f").write_text("x" * 199 + "\n")
        (directory / "policy.yaml").write_text(POLICY % values)
        (directory / "nginx.conf").write_text(CONF % values)
        for name, request in REQUESTS.items():
            (directory / f"{name}.lua").write_text(LUA % request)
        self.servers = {
            "nginx": self.start("nginx", "-p", directory, "-c", directory / "nginx.conf", "-e", directory / "start.log"),
            "weir": self.start(build / "weir", "serve", "-c", directory / "policy.yaml"),
        }
        for port in self.ports.values():
            wait_for(port)

    def start(self, *argv):
        return subprocess.Popen(["taskset", "-c", str(self.server_core), *map(str, argv)], stderr=subprocess.DEVNULL)

    def stop(self):
        for server in self.servers.values():
            server.send_signal(signal.SIGTERM)
            server.wait()

    def load(self, server, name):
        """The server's CPU microseconds a request, and requests/s."""
        before = cpu_ns(self.servers[server].pid)
        out = subprocess.check_output(
            ["taskset", "-c", str(self.load_core), "wrk", "-t1", "-c64", f"-d{self.seconds}s", "-s",
             str(self.dir / f"{name}.lua"), f"http://127.0.0.1:{self.ports[server]}"], text=True)
        spent = cpu_ns(self.servers[server].pid) - before
        if "Non-2xx" in out or "Socket errors" in out:
            sys.exit(f"{name}: not every request was answered 200:\n{out}")
        requests = int(re.search(r"(\d+) requests in", out).group(1))
        return spent / requests / 1000, float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))


def measure(bench, rounds):
    rows = []
    for _ in range(rounds):
        rows.append({"file": bench.load("nginx", "file"), "check": bench.load("weir", "check"),
                     "auth": bench.load("weir", "auth")})
    for name, case in (("check", "POST /v1/check"), ("auth", "GET /v1/auth")):
        ours, peer = (statistics.median(row[k][0] for row in rows) for k in (name, "file"))
        ratio = statistics.median(row[name][0] / row["file"][0] for row in rows)
        print(json.dumps(dict(bench="http", case=f"{case}, 64 connections", unit="CPU us a request", ours=round(ours, 2),
                              peer=round(peer, 2), ratio=round(ratio, 2), target=f"<= {TARGET}", met=ratio <= TARGET,
                              requests_per_s=round(statistics.median(row[name][1] for row in rows)))), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir="/dev/shm") as directory:
        os.chmod(directory, 0o755)
        bench = Bench(options.build.resolve(), pathlib.Path(directory), options.seconds)
        try:
            measure(bench, options.rounds)
        finally:
            bench.stop()


if __name__ == "__main__":
    main()
