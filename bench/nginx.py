#!/usr/bin/env python3
"""The nginx module beside nginx's own limit_req, in one nginx worker, in one run.

The worker is pinned to one core; wrk and the upstream to the other. Cases take turns over several rounds; what
is compared is the CPU time of the worker per request (schedstat), less that of the same request without any
limit, and requests/s. Prints one JSON line a case. Throughput moves with the neighbours; medians of
the rounds' ratios do not."""
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
import time

from servers import cpu_ns, free_ports, wait_for

POLICY = """version: 1
arena: {path: %(dir)s/arena, size: 16MiB}
identity:
  api_key: {header: X-Api-Key}
limits:
  - {name: one, match: {path: /one/**}, by: [api_key], rate: 100000/second, algorithm: token-bucket}
  - {name: four-a, match: {path: /four/**}, by: [api_key], rate: 100000/second, algorithm: token-bucket}
  - {name: four-b, match: {path: /four/**}, by: [api_key, route], rate: 200000/second, algorithm: token-bucket}
  - {name: four-c, match: {path: /four/**}, by: [api_key, method], rate: 300000/second, algorithm: token-bucket}
  - {name: four-d, match: {path: /four/**}, by: [ip], rate: 10000000/second, algorithm: token-bucket}
  - {name: deny, match: {path: /deny/**}, by: [api_key], rate: 1/hour, algorithm: token-bucket}
"""

# The same limit twice: counted here, and leased from a Redis through weir serve. Few keys, as hot keys lease.
SHARED = """version: 1
arena: {path: %(dir)s/arena-shared, size: 16MiB}
store: {redis: {url: "redis://127.0.0.1:%(redis)d/0"}, mode: leased, agent: "unix:%(dir)s/agent.sock", deadline: 100ms}
identity:
  api_key: {header: X-Api-Key}
limits:
  - {name: one, match: {path: /one/**}, by: [api_key], rate: 100000000/day, algorithm: fixed-window}
  - {name: leased, match: {path: /leased/**}, by: [api_key], rate: 100000000/day, algorithm: fixed-window, shared: true}
"""

CONF = """load_module %(module)s;
worker_processes 1; worker_cpu_affinity %(affinity)s; daemon off; master_process on;
pid %(dir)s/nginx.pid; error_log %(dir)s/error.log warn;
events { worker_connections 1024; }
http {
    access_log off; keepalive_requests 100000000; open_file_cache max=100; root %(dir)s/www; etag off;
    client_body_temp_path %(dir)s/t1; proxy_temp_path %(dir)s/t2; fastcgi_temp_path %(dir)s/t3;
    uwsgi_temp_path %(dir)s/t4; scgi_temp_path %(dir)s/t5;
    weir_policy %(dir)s/policy.yaml;
    weir off;
    limit_req_zone $http_x_api_key zone=z1:8m rate=100000r/s;
    limit_req_zone $http_x_api_key$uri zone=z2:8m rate=200000r/s;
    limit_req_zone $http_x_api_key$request_method zone=z3:8m rate=300000r/s;
    limit_req_zone $binary_remote_addr zone=z4:8m rate=10000000r/s;
    limit_req_zone $http_x_api_key zone=zd:8m rate=1r/m;
    limit_req_status 429;
    upstream app { server 127.0.0.1:%(app)d; keepalive 64; }
    server {
        listen 127.0.0.1:%(port)d;
        location /plain/ { }
        location /one-peer/ { limit_req zone=z1 burst=100000 nodelay; }
        location /one/ { weir on; weir_headers off; }
        location /four-peer/ { limit_req zone=z1 burst=100000 nodelay; limit_req zone=z2 burst=100000 nodelay;
                               limit_req zone=z3 burst=100000 nodelay; limit_req zone=z4 burst=100000 nodelay; }
        location /four/ { weir on; weir_headers x-ratelimit draft-11; }
        location /leased/ { weir on; weir_headers off; }
        location /deny-peer/ { limit_req zone=zd; }
        location /deny/ { weir on; weir_headers off; }
        location /proxy-plain/ { proxy_pass http://app/; proxy_http_version 1.1; proxy_set_header Connection ""; }
        location /proxy-peer/ { limit_req zone=z1 burst=100000 nodelay; limit_req zone=z2 burst=100000 nodelay;
                                limit_req zone=z3 burst=100000 nodelay; limit_req zone=z4 burst=100000 nodelay;
                                proxy_pass http://app/; proxy_http_version 1.1; proxy_set_header Connection ""; }
        location /four/proxy/ { weir on; weir_headers x-ratelimit draft-11;
                                proxy_pass http://app/; proxy_http_version 1.1; proxy_set_header Connection ""; }
    }
}
"""

APP = """worker_processes 1; worker_cpu_affinity %(other)s; daemon off; pid %(dir)s/app.pid; error_log %(dir)s/app.log warn;
events { worker_connections 1024; }
http {
    access_log off; keepalive_requests 100000000; open_file_cache max=100; root %(dir)s/www/plain; etag off;
    client_body_temp_path %(dir)s/u1; proxy_temp_path %(dir)s/u2; fastcgi_temp_path %(dir)s/u3;
    uwsgi_temp_path %(dir)s/u4; scgi_temp_path %(dir)s/u5;
    server { listen 127.0.0.1:%(app)d; }
}
"""

LUA = """local keys = {}
for i = 1, %(keys)d do keys[i] = string.format("key-%%04d-%%08x", i, i * 2654435761 %% 4294967296) end
local n = 0
request = function()
    n = n + 1
    return wrk.format("GET", nil, { ["X-Api-Key"] = keys[n * 1103 %% %(keys)d + 1] })
end
"""

# name, our location, the peer's, the base without limits, most added CPU, least requests/s, refusing
CASES = [
    ("1 limit, no headers, static", "/one/f", "/one-peer/f", "/plain/f", 1.5, 0.95, False),
    ("4 limits, all headers, static", "/four/f", "/four-peer/f", "/plain/f", 1.5, 0.92, False),
    ("4 limits, all headers, proxied", "/four/proxy/f", "/proxy-peer/f", "/proxy-plain/f", 1.5, 0.92, False),
    ("1 limit, no headers, refusing", "/deny/f", "/deny-peer/f", "/plain/f", None, 0.90, True),
]


# Beside the local limit, not limit_req: "ours" is leased.
SHARED_CASES = [("1 leased limit beside a local one", "/leased/f", "/one/f", "/plain/f", None, 0.90, False)]
HOT_KEYS = 64


def worker_of(master):
    return int(subprocess.check_output(["pgrep", "-P", str(master)]).split()[0])


class Bench:
    def __init__(self, build, directory, seconds, policy=POLICY, keys=4096):
        self.dir, self.seconds = directory, seconds
        self.port, self.app_port, redis = free_ports(3)
        self.cores = sorted(os.sched_getaffinity(0))
        server, load = self.cores[0], self.cores[-1]
        self.load_core = load
        values = dict(dir=directory, module=build / "ngx_http_weir_module.so", port=self.port,
                      app=self.app_port, redis=redis, keys=keys, affinity=format(1 << server, "b"), other=format(1 << load, "b"))
        for name in ("plain", "one", "one-peer", "four", "four-peer", "deny", "deny-peer", "leased"):
            folder = directory / "www" / name
            folder.mkdir(parents=True)
            (folder / "f").write_text("x" * 199 + "\n")
        (directory / "policy.yaml").write_text(policy % values)
        (directory / "nginx.conf").write_text(CONF % values)
        (directory / "app.conf").write_text(APP % values)
        (directory / "keys.lua").write_text(LUA % values)
        self.servers = [self.start("app.conf")]
        if policy is SHARED:
            self.start_store(build, redis)
        self.servers.append(self.start("nginx.conf"))
        wait_for(self.app_port)
        wait_for(self.port)
        self.worker = worker_of(self.servers[-1].pid)

    def start_store(self, build, redis):
        """Redis, and the daemon that leases from it."""
        other = ["taskset", "-c", str(self.load_core)]
        self.servers.append(subprocess.Popen([*other, "redis-server", "--port", str(redis), "--save", "", "--dir", self.dir],
                                             stdout=subprocess.DEVNULL))
        wait_for(redis)
        self.servers.append(subprocess.Popen([*other, build / "weir", "serve", "-c", self.dir / "policy.yaml"],
                                             stderr=subprocess.DEVNULL))
        agent = self.dir / "agent.sock"
        for _ in range(200):
            if agent.exists():
                break
            time.sleep(0.05)
        agent.chmod(0o666)

    def start(self, conf):
        return subprocess.Popen(["nginx", "-p", str(self.dir), "-c", str(self.dir / conf), "-e",
                                 str(self.dir / "start.log")], stderr=subprocess.DEVNULL)

    def stop(self):
        for server in reversed(self.servers):
            server.send_signal(signal.SIGTERM)
            server.wait()

    def load(self, path):
        """Requests/s and the worker's CPU microseconds a request."""
        before = cpu_ns(self.worker)
        out = subprocess.check_output(
            ["taskset", "-c", str(self.load_core), "wrk", "-t1", "-c32", f"-d{self.seconds}s", "-s",
             str(self.dir / "keys.lua"), f"http://127.0.0.1:{self.port}{path}"], text=True)
        spent = cpu_ns(self.worker) - before
        requests = int(re.search(r"(\d+) requests in", out).group(1))
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))
        refused = int((re.search(r"Non-2xx or 3xx responses: (\d+)", out) or [0, 0])[1])
        return rate, spent / requests / 1000, refused / requests


def measure(bench, rounds, cases):
    for name, ours, peer, base, most, least, refusing in cases:
        rows = []
        for _ in range(rounds):
            rows.append([bench.load(path) for path in (base, peer, ours)])
        share = statistics.median(row[2][2] for row in rows)
        if refusing and share < 0.9 or not refusing and share > 0:
            sys.exit(f"{name}: {share:.1%} of the requests were refused: this is not the case meant")
        plain, theirs, our = (statistics.median(row[i][1] for row in rows) for i in range(3))
        added = statistics.median((row[2][1] - row[0][1]) / (row[1][1] - row[0][1]) for row in rows)
        rate = statistics.median(row[2][0] / row[1][0] for row in rows)
        if most is not None:
            print(json.dumps(dict(bench="nginx", case=name, unit="added CPU us a request", ours=round(our - plain, 2),
                                  peer=round(theirs - plain, 2), ratio=round(added, 2), target=f"<= {most}",
                                  met=added <= most)), flush=True)
        print(json.dumps(dict(bench="nginx", case=name, unit="requests/s", ours=round(statistics.median(
            row[2][0] for row in rows)), peer=round(statistics.median(row[1][0] for row in rows)),
            ratio=round(rate, 2), target=f">= {least}", met=rate >= least)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    for policy, keys, cases in ((POLICY, 4096, CASES), (SHARED, HOT_KEYS, SHARED_CASES)):
        with tempfile.TemporaryDirectory(prefix="weir-bench-", dir="/dev/shm") as directory:
            os.chmod(directory, 0o755)
            bench = Bench(options.build.resolve(), pathlib.Path(directory), options.seconds, policy, keys)
            try:
                measure(bench, options.rounds, cases)
            finally:
                bench.stop()


if __name__ == "__main__":
    main()
