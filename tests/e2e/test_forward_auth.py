"""examples/forward-auth: real proxies in front of a demo API, asking a real weir."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gateway import BUILD
from http_door import Reply
from serving import DEADLINE, Daemon, free_port, wait_for
from together import Together

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/forward-auth"
COMMANDS = {
    "nginx": ["/usr/sbin/nginx", "-p", "{dir}", "-c", "{dir}/nginx.conf", "-e", "{dir}/error.log", "-g",
              "daemon off; pid {dir}/nginx.pid;"],
    "haproxy": ["/usr/sbin/haproxy", "-f", "{dir}/haproxy.cfg"],
    "envoy": [str(BUILD / "venv/bin/envoy"), "-c", "{dir}/envoy.yaml", "--concurrency", "1", "--disable-hot-restart", "-l", "warn"],
    "caddy": ["/usr/bin/caddy", "run", "--config", "{dir}/Caddyfile", "--adapter", "caddyfile"],
}


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"api")

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # a proxy that ends resets its connections


class Stage:
    """The API, weir and a proxy, on ports of their own, by the files of the example."""

    def __init__(self, weir, proxy, more=""):
        self.name = proxy
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="weir-auth-"))
        self.dir.chmod(0o755)
        self.api = Server(("127.0.0.1", 0), Api)
        self.api.seen = []
        threading.Thread(target=self.api.serve_forever, args=(0.02,), daemon=True).start()
        self.ports = {3000: self.api.server_port, 8080: free_port(), 8000: free_port(), 8081: free_port()}
        for path in EXAMPLES.iterdir():
            (self.dir / path.name).write_text(self.on_our_ports(path.read_text()))
        with open(self.dir / "policy.yaml", "a") as policy:
            policy.write(more)
        self.weir = Daemon([weir, "serve", "-c", self.dir / "policy.yaml", "--log-format", "json"]).ready()
        command = [word.format(dir=self.dir) for word in COMMANDS[proxy]]
        self.log = open(self.dir / "proxy.log", "w+")
        self.proxy = subprocess.Popen(command, cwd=self.dir, stdout=self.log, stderr=self.log,
                                      env={**os.environ, "HOME": str(self.dir), "XDG_DATA_HOME": str(self.dir)})
        wait_for(f"{proxy} on its port", self.is_up)

    def on_our_ports(self, text):
        for port, ours in self.ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{ours}").replace(f"port_value: {port}", f"port_value: {ours}")
        return text.replace("\nhttp {\n", "\nhttp {\n    access_log off; " + "".join(
            f"{name}_temp_path {self.dir}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")) + "\n")

    def is_up(self):
        assert self.proxy.poll() is None, (self.dir / "proxy.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.ports[8000]), 1).close()
            return True
        except OSError:
            return False

    def ask(self, path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[8000], timeout=DEADLINE)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return Reply(response, response.read())
        finally:
            connection.close()

    def close(self):
        self.proxy.terminate()
        try:
            self.proxy.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.proxy.kill()
            self.proxy.wait()
        self.weir.close()
        self.api.shutdown()
        self.api.server_close()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def installed(proxy):
    if not pathlib.Path(COMMANDS[proxy][0]).exists():
        pytest.skip(f"{proxy} is not installed")
    return proxy


@pytest.fixture(params=COMMANDS)
def stage_of(request, weir):
    """A stage whose policy has `more` at its end."""
    stages = []

    def make(more=""):
        stages.append(Stage(weir, installed(request.param), more))
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()


@pytest.fixture
def stage(stage_of):
    return stage_of()


def test_a_proxy_that_asks(stage):
    # Three searches an hour, then a real 429 with its fields; the API does not see the fourth.
    found = [stage.ask(f"/search/{i}?q=x") for i in range(4)]
    assert [reply.status for reply in found] == [200, 200, 200, 429]
    assert stage.api.seen == [f"GET /search/{i}?q=x" for i in range(3)]
    refused = found[3]
    assert 1100 <= int(refused.one("Retry-After")) <= 1200
    assert refused.one("RateLimit").startswith('"search";r=0;t=')
    assert refused.one("Cache-Control") == "no-store"
    if stage.name == "envoy":  # asks behind the caller's path and query, and so cannot ask for a body
        assert refused.body == b"" and '"search";r=2;t=' in found[0].one("RateLimit")
    else:
        assert refused.one("Content-Type").startswith("application/problem+json")
        body = json.loads(refused.body)
        assert body["status"] == 429
        if stage.name == "nginx":  # its own body, with weir's number
            assert body["retry_after"] == int(refused.one("Retry-After"))
    # Method and path are the caller's; another path, and another caller, are other counters.
    assert stage.ask("/search/1", method="POST", body="x" * 10000).status == 200
    assert stage.ask("/other").status == 200
    # What the caller says of the original request is not believed.
    for name in ("X-Original-URI", "X-Original-URL", "X-Forwarded-Uri"):
        assert stage.ask("/search/5", **{name.replace("-", "_"): "/other"}).status == 429, name
    for name in ("X-Original-Method", "X-Forwarded-Method"):
        assert stage.ask("/search/5", **{name.replace("-", "_"): "POST"}).status == 429, name
    assert stage.ask("/search/6", X_Api_Key="k").status == 429  # still the same address
    # Caddy drops the field where it does not trust the caller; Envoy appends its own address in place of a loopback one.
    if stage.name not in ("caddy", "envoy"):
        assert stage.ask("/search/7", X_Forwarded_For="192.0.2.7").status == 200


# What weir refuses with 417, 431, 400, and what is too large to be asked about at all.
ODD_FIELDS = {
    "expect": {"Expect": "foo"},
    "many": {f"A{i}": "1" for i in range(95)},
    "large": {"A": "x" * 7300, "B": "x" * 7900},
    "larger": {"A": "x" * 7500, "B": "x" * 7500, "C": "x" * 7500},
    "control": {"X_Api_Key": "a\x01b"},
}


def test_whatever_is_not_2xx_is_refused(stage):
    """Fields that make weir, or the one that asks it, give up let nobody pass who has used up what there is."""
    assert [stage.ask("/search/1").status for _ in range(4)] == [200, 200, 200, 429]
    for name, fields in ODD_FIELDS.items():
        assert stage.ask("/search/1", **fields).status in (400, 417, 429, 431), name
    assert len(stage.api.seen) == 3


def test_a_ban_with_a_status_of_its_own(stage_of):
    stage = stage_of("bans: [{api_key: evil}]\nanswers: {ban_status: 410}\n")
    assert stage.ask("/other", X_Api_Key="evil").status == {"nginx": 403}.get(stage.name, 410)
    assert stage.ask("/other", X_Api_Key="good").status == 200
    assert stage.api.seen == ["GET /other"]


def test_a_key_that_is_given_twice(stage_of):
    """It would be a new key to weir, and the banned one to an API that looks at the first line, or the last."""
    stage = stage_of("bans: [{api_key: bad}]\n")
    for first, second in (("bad", "x"), ("x", "bad")):
        connection = http.client.HTTPConnection("127.0.0.1", stage.ports[8000], timeout=DEADLINE)
        connection.putrequest("GET", "/other")
        connection.putheader("X-Api-Key", first)
        connection.putheader("x-api-key", second)
        connection.endheaders()
        assert connection.getresponse().status == (200 if stage.name == "envoy" else 400)  # Envoy asks about "bad,x"
        connection.close()
    assert len(stage.api.seen) == (2 if stage.name == "envoy" else 0)


def test_a_status_that_means_failure(stage_of):
    """Envoy lets pass what is answered 5xx, HAProxy what its own proxy says of a weir that is gone."""
    stage = stage_of("bans: [{api_key: evil}]\nanswers: {status: 503, ban_status: 502}\n")
    refused = {"nginx": 403}.get(stage.name, 429)
    assert [stage.ask("/search/1").status for _ in range(4)] == [200, 200, 200, refused]
    assert stage.ask("/other", X_Api_Key="evil").status == refused
    assert len(stage.api.seen) == 3


def test_exactly_the_allowance_under_load(stage):
    """Sixty a minute for a key, of 300 requests from eight threads at once; a minute is not over by then."""
    statuses = []

    def some():
        for _ in range(40):
            statuses.append(stage.ask("/x", X_Api_Key="k").status)

    start = time.monotonic()
    threads = [threading.Thread(target=some) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    came_back = int(time.monotonic() - start) + 1  # one token a second
    assert set(statuses) == {200, 429}
    assert 60 <= statuses.count(200) <= 60 + came_back


def test_leaky_buckets_delay(stage):
    start = time.monotonic()
    threads = [threading.Thread(target=stage.ask, args=("/export/1",)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert time.monotonic() - start >= 0.59
    assert stage.api.seen == ["GET /export/1"] * 4


def test_when_weir_is_gone(stage):
    assert stage.ask("/search/1").status == 200
    stage.weir.process.kill()
    stage.weir.process.wait()
    assert stage.ask("/search/2").status == {"nginx": 200, "haproxy": 200, "envoy": 200, "caddy": 502}[stage.name]


at_once = Together(stage=lambda weir, proxy: contextlib.closing(Stage(weir, installed(proxy))))


@pytest.mark.parametrize("proxy", COMMANDS)
@at_once
def test_when_weir_hangs(stage, proxy):
    """Callers wait for the timeout of the example, once, and are not charged for what was asked in vain."""
    assert stage.ask("/search/1").status == 200
    stage.weir.signal(signal.SIGSTOP)
    start = time.monotonic()
    status = stage.ask("/search/2").status
    took = time.monotonic() - start
    stage.weir.signal(signal.SIGCONT)
    assert status == {"nginx": 200, "haproxy": 200, "envoy": 200, "caddy": 504}[proxy]
    assert 4.9 < took < 10, took
    # One of three was taken before; the one asked in vain counts once at most, and only if it was read at all.
    assert [stage.ask(f"/search/{i}").status for i in range(3, 6)] in ([200, 200, 429], [200, 429, 429])


def test_the_document_has_the_files_that_are_run():
    text = (ROOT / "docs/forward-auth.md").read_text()
    for path in EXAMPLES.iterdir():
        assert f"\n{path.read_text()}```\n" in text, path.name
