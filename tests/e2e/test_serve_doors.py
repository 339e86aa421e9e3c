"""The real doors of one daemon together: one count behind all, reload and drain with their connections open."""
import http.client
import json
import signal
import socket

import pytest

from serving import Daemon, wait_for

POLICY = """version: 1
listen: {{http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, threads: 2}}
limits: [{{name: per-ip, by: [ip], rate: {rate}, algorithm: token-bucket}}]
"""


@pytest.fixture
def daemon(weir, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.format(rate="10/hour"))
    d = Daemon([weir, "serve", "-c", path, "--log-format", "json"])
    d.policy = path
    yield d.ready()
    d.close()


class Http:
    def __init__(self, address):
        self.connection = http.client.HTTPConnection(*address, timeout=20)

    def remaining(self, cost):
        body = json.dumps({"ip": "192.0.2.1", "cost": cost})
        self.connection.request("POST", "/v1/check", body, {"Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())["remaining"]


class Resp:
    def __init__(self, address):
        self.socket = socket.create_connection(address, 20)
        self.file = self.socket.makefile("rb")

    def ping(self):
        self.socket.sendall(b"*1\r\n$4\r\nPING\r\n")
        return self.file.readline()


def test_doors_stay_through_reload_and_drain(daemon):
    web, redis = Http(daemon.address("http")), Resp(daemon.address("resp"))
    other = Http(daemon.address("http"))
    assert web.remaining(3) == 7
    assert redis.ping() == b"+PONG\r\n"
    assert other.remaining(1) == 6  # whichever loop it is on
    daemon.policy.write_text(POLICY.format(rate="20/hour"))
    daemon.signal(signal.SIGHUP)
    daemon.event("reloaded")
    wait_for("the loop's turn", lambda: web.remaining(0) > 10)
    assert redis.ping() == b"+PONG\r\n"
    assert daemon.end() == 0  # idle connections do not hold it up
    daemon.event("drained")
    assert redis.file.readline() == b""
