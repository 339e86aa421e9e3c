"""A real Envoy in front of an API, asking weir over gRPC."""
import http.client
import json
import re
import signal
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from conftest import ROOT
from serving import DEADLINE, Daemon, free_port, wait_for

SHOP = """domain: shop
descriptors:
  - {key: api_key, rate_limit: {name: per-key, unit: day, requests_per_unit: 5}}
  - {key: flood, rate_limit: {name: flood, unit: day, requests_per_unit: 1000}}
  - {key: costly, rate_limit: {name: costly, unit: day, requests_per_unit: 10}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - key: path
    value: "/reports*"
    rate_limit: {name: reports, unit: day, requests_per_unit: 2}
"""
POLICY = """version: 1
arena: {path: "%(dir)s/arena", size: 4MiB}
listen: {grpc: 127.0.0.1:%(port)d}
envoy_ratelimit: [shop.yaml]
limits:
  - {name: per-ip, by: [ip], rate: 3/day, algorithm: fixed-window}
"""
API = "type.googleapis.com/envoy.extensions."


def header_action(header, key):
    return {"request_headers": {"header_name": header, "descriptor_key": key, "skip_if_absent": False}}


RATE_LIMITS = [
    {"actions": [header_action("x-api-key", "api_key")]},
    {"actions": [header_action("x-flood", "flood")]},
    {"actions": [header_action("x-costly", "costly")], "hits_addend": {"number": 4}},
    {"actions": [header_action("x-trial", "trial")]},
    {"actions": [header_action(":path", "path")]},
]


def listener(port, domain, timeout, deny, rate_limits):
    ratelimit = {"@type": API + "filters.http.ratelimit.v3.RateLimit", "domain": domain, "timeout": timeout,
                 "failure_mode_deny": deny, "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
                 "rate_limit_service": {"transport_api_version": "V3",
                                        "grpc_service": {"envoy_grpc": {"cluster_name": "weir"}}}}
    manager = {"@type": API + "filters.network.http_connection_manager.v3.HttpConnectionManager",
               "stat_prefix": f"in{port}", "use_remote_address": True,
               "http_filters": [{"name": "ratelimit", "typed_config": ratelimit},
                                {"name": "router", "typed_config": {"@type": API + "filters.http.router.v3.Router"}}],
               "route_config": {"virtual_hosts": [{
                   "name": "api", "domains": ["*"],
                   "typed_per_filter_config": {"ratelimit": {  # where alone hits_addend is looked at
                       "@type": API + "filters.http.ratelimit.v3.RateLimitPerRoute", "rate_limits": rate_limits}},
                   "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "api"}}]}]}}
    return {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
            "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}]}


def cluster(name, port, **more):
    endpoint = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}
    return {"name": name, "load_assignment": {"cluster_name": name,
                                              "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}]}, **more}


HTTP2 = {"typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
    "@type": API + "upstreams.http.v3.HttpProtocolOptions",
    "explicit_http_config": {"http2_protocol_options": {}}}}}


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


class Envoy:
    def __init__(self, binary, folder, arguments):
        self.log = open(folder / "envoy.log", "w+")
        self.process = subprocess.Popen([binary, "--concurrency", "1", "--disable-hot-restart", "-l", "warn",
                                         *arguments], stdout=self.log, stderr=self.log)

    def wait_for(self, port):
        def open_now():
            assert self.process.poll() is None, self.text()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return True
            except OSError:
                return False
        wait_for(f"Envoy on port {port}", open_now)

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def close(self):
        self.process.kill()
        self.process.wait(DEADLINE)
        self.log.close()


def get(port, path="/", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


@pytest.fixture(scope="module")
def binary(build):
    path = build / "venv/bin/envoy"
    if not path.exists():
        pytest.skip("no Envoy: scripts/venv.sh has not run")
    return path


@pytest.fixture(scope="module")
def api():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()


class Stack:
    """weir, Envoy with four listeners: domain shop; weir's own limits; refusing, and passing, in its absence."""

    def __init__(self, weir, binary, api, folder):
        self.weir, self.folder = weir, folder
        self.port, self.shop, self.own, self.strict, self.lax = (free_port() for _ in range(5))
        (folder / "shop.yaml").write_text(SHOP)
        (folder / "policy.yaml").write_text(POLICY % {"dir": folder, "port": self.port})
        own = [{"actions": [{"remote_address": {}}]}, {"actions": [header_action(":path", "path")]}]
        config = {"static_resources": {
            "listeners": [listener(self.shop, "shop", "10s", False, RATE_LIMITS),
                          listener(self.own, "api", "10s", False, own),
                          listener(self.strict, "shop", "0.25s", True, RATE_LIMITS[:1]),
                          listener(self.lax, "shop", "0.25s", False, RATE_LIMITS[:1])],
            "clusters": [cluster("weir", self.port, **HTTP2), cluster("api", api)]}}
        (folder / "envoy.json").write_text(json.dumps(config))
        self.start_weir()
        self.envoy = Envoy(binary, folder, ["-c", folder / "envoy.json"])
        for port in (self.shop, self.own, self.strict, self.lax):
            self.envoy.wait_for(port)

    def start_weir(self):
        self.daemon = Daemon([self.weir, "serve", "-c", self.folder / "policy.yaml", "--log-format", "json"]).ready()

    def close(self):
        self.envoy.close()
        self.daemon.close()


@pytest.fixture(scope="module")
def stack(weir, binary, api, tmp_path_factory):
    s = Stack(weir, binary, api, tmp_path_factory.mktemp("envoy"))
    yield s
    s.close()


def test_429_with_headers(stack):
    for left in range(4, -1, -1):
        response, body = get(stack.shop, x_api_key="a")
        assert (response.status, body) == (200, b"ok")
        assert response.getheader("x-ratelimit-limit") == '5, 5;w=86400;name="per-key"'
        assert response.getheader("x-ratelimit-remaining") == str(left)
    response, body = get(stack.shop, x_api_key="a")
    assert (response.status, body) == (429, b"")
    assert response.getheader("x-envoy-ratelimited") == "true"
    assert response.getheader("x-ratelimit-remaining") == "0"
    assert 1 <= int(response.getheader("x-ratelimit-reset")) <= 86400
    assert get(stack.shop, x_api_key="b")[0].status == 200


def test_weirs_own_limits_answer_with_a_problem(stack):
    for left in (2, 1, 0):
        response, _ = get(stack.own)
        assert (response.status, response.getheader("x-ratelimit-remaining")) == (200, str(left))
    response, body = get(stack.own)
    assert response.status == 429
    assert response.getheader("content-type") == "application/problem+json"
    assert 1 <= int(response.getheader("retry-after")) <= 86400
    assert json.loads(body)["violated-policies"] == ["per-ip"]


def test_shadow_never_refuses(stack):
    for _ in range(4):
        assert get(stack.shop, x_trial="t")[0].status == 200


def test_several_descriptors_refuse_together_and_consume_nothing(stack):
    for _ in range(2):
        assert get(stack.shop, "/reports/1", x_api_key="c")[0].status == 200
    for _ in range(5):  # the path is used up: the key keeps what it has
        assert get(stack.shop, "/reports/1", x_api_key="c")[0].status == 429
    assert get(stack.shop, "/reports/2", x_api_key="c")[0].status == 200  # a counter for each full path
    response, _ = get(stack.shop, "/other", x_api_key="c")
    assert (response.status, response.getheader("x-ratelimit-remaining")) == (200, "1")


def test_hits_addend(stack):
    assert [get(stack.shop, x_costly="c")[0].status for _ in range(3)] == [200, 200, 429]  # 4 of 10 each


def test_ten_thousand_under_load_admit_exactly_the_limit(stack):
    out = subprocess.run(["h2load", "--h1", "-n", "10000", "-c", "16", "-t", "1", "-H", "x-flood: f",
                          f"http://127.0.0.1:{stack.shop}/"], capture_output=True, text=True, timeout=300).stdout
    counts = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", out)
    assert counts is not None, out
    assert [int(n) for n in counts.groups()] == [1000, 0, 9000, 0]


def test_weir_stopped_or_gone(stack):
    assert get(stack.strict, x_api_key="d")[0].status == 200
    stack.daemon.signal(signal.SIGSTOP)  # it accepts and never answers: the deadline
    assert get(stack.strict, x_api_key="d")[0].status == 500
    assert get(stack.lax, x_api_key="d")[0].status == 200
    stack.daemon.signal(signal.SIGCONT)
    wait_for("answers again", lambda: get(stack.strict, x_api_key="e1")[0].status == 200)
    assert stack.daemon.end() == 0  # drains: GOAWAY
    stack.daemon.close()
    assert get(stack.strict, x_api_key="d")[0].status == 500
    assert get(stack.lax, x_api_key="d")[0].status == 200
    stack.start_weir()
    wait_for("connected again", lambda: get(stack.strict, x_api_key="e2")[0].status == 200)
    codes = [get(stack.strict, x_api_key="a")[0].status for _ in range(2)]
    assert codes == [429, 429]  # what was counted before is counted still


def test_the_example(weir, binary, api, tmp_path):
    """examples/envoy as it stands but for ports and the arena's place."""
    front, grpc = free_port(), free_port()
    folder = ROOT / "examples/envoy"
    policy = (folder / "policy.yaml").read_text().replace("127.0.0.1:8081", f"127.0.0.1:{grpc}")
    policy = policy.replace("/dev/shm/weir-envoy.arena", str(tmp_path / "arena"))
    policy = policy.replace("[limits]", f"[{folder}/limits]")
    (tmp_path / "policy.yaml").write_text(policy)
    envoy = (folder / "envoy.yaml").read_text()
    for old, new in ((10000, front), (8081, grpc), (8080, api)):
        assert f"port_value: {old}" in envoy
        envoy = envoy.replace(f"port_value: {old}", f"port_value: {new}")
    (tmp_path / "envoy.yaml").write_text(envoy)
    daemon = Daemon([weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"]).ready()
    proxy = Envoy(binary, tmp_path, ["-c", tmp_path / "envoy.yaml"])
    try:
        proxy.wait_for(front)
        codes = [get(front, "/hello", x_api_key="k1")[0].status for _ in range(6)]
        assert codes == [200] * 5 + [429]
        codes = [get(front, "/search/x", x_api_key="k2")[0].status for _ in range(4)]
        assert codes == [200] * 3 + [429]
    finally:
        proxy.close()
        daemon.close()
