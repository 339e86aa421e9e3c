"""The gRPC door, by grpcio."""
import json
import threading

import pytest

from certificates import Authority
from grpc_client import HEALTH, OK, OVER, SERVICE, GrpcClient, descriptor, field, question
from serving import Daemon

SHOP = """domain: shop
descriptors:
  - key: plan
    value: free
    rate_limit: {unit: day, requests_per_unit: 60}
    descriptors:
      - {key: path, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: ip, rate_limit: {unit: day, requests_per_unit: 20}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
"""
POLICY = """version: 1
arena: {path: "%(dir)s/arena", size: 4MiB}
listen: {grpc: %(listen)s}
identity:
  api_key: {header: X-Api-Key}
  plan: {default: free}
envoy_ratelimit: [shop.yaml]
limits:
  - {name: per-ip, by: [ip], rate: 3/day, algorithm: fixed-window}
  - {name: per-key, by: [api_key], when_missing: skip, rate: {free: 2/day, pro: 9/day}, algorithm: fixed-window}
"""
DAY = 4


@pytest.fixture
def venv(build):
    if not (build / "venv/requirements.txt").exists():
        pytest.skip("no grpcio: scripts/venv.sh has not run")
    return build


@pytest.fixture
def door(venv, weir, tmp_path):
    started = []

    def start(listen="127.0.0.1:0", certificate=""):
        (tmp_path / "shop.yaml").write_text(SHOP)
        (tmp_path / "policy.yaml").write_text(POLICY % {"dir": tmp_path, "listen": listen})
        daemon = Daemon([weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"]).ready()
        started.append(daemon)
        host, port = daemon.address("grpc")
        client = GrpcClient(venv, f"{'localhost' if certificate else host}:{port}", certificate)
        started.append(client)
        client.daemon = daemon
        return client

    yield start
    for thing in reversed(started):
        thing.close()


def test_by_the_configuration_of_envoyproxy(door):
    c = door()
    for left in range(19, -1, -1):  # 20 a day, over on the 21st
        a = c.ask("shop", [("ip", "x")])
        assert (a["code"], a["statuses"][0]["remaining"]) == (OK, left)
    a = c.ask("shop", [("ip", "x")])
    assert (a["code"], a["statuses"][0]["code"], a["statuses"][0]["units"], a["statuses"][0]["unit"]) == \
        (OVER, OVER, 20, DAY)
    assert 1 <= a["statuses"][0]["reset"] <= 86400
    a = c.ask("shop", [("plan", "free")], [("plan", "free"), ("path", "/a")], [("nobody", "x")], hits=2)
    assert [s["remaining"] for s in a["statuses"]] == [58, 3, 0]
    assert "units" not in a["statuses"][2]
    assert c.ask("shop", descriptor([("plan", "free")], hits=0))["statuses"][0]["remaining"] == 58
    assert c.ask("shop", descriptor([("plan", "free")], hits=8, negative=True))["statuses"][0]["remaining"] == 60
    assert c.ask("shop", descriptor([("who", "x")], limit=(7, DAY)))["statuses"][0]["remaining"] == 6
    for _ in range(3):
        assert c.ask("shop", [("trial", "x")])["code"] == OK


def test_by_the_policys_own_limits(door):
    c = door()
    one = [("remote_address", "192.0.2.1")]
    a = c.ask("api", one, [("api_key", "k1")])
    assert [(s["name"], s["units"], s["remaining"]) for s in a["statuses"]] == [("per-key", 2, 1), ("per-ip", 3, 2)]
    assert c.ask("api", one + [("api_key", "k1")])["code"] == OK
    a = c.ask("api", one + [("x-api-key", "k2"), ("api_key", "k1")])  # only peers that are trusted may say it so
    assert (a["code"], a["statuses"][0]["name"]) == (OVER, "per-key")
    problem = json.loads(a["body"])
    assert (problem["status"], problem["limit"]) == (429, "per-key")
    assert a["headers"]["content-type"] == "application/problem+json"
    assert 1 <= int(a["headers"]["Retry-After"]) <= 86400
    assert c.ask("api", one + [("api_key", "k1"), ("plan", "pro")])["code"] == OK
    assert c.ask("api", one)["code"] == OVER  # the fourth from that address
    assert c.ask("api", [("remote_address", "192.0.2.2")], hits=3)["code"] == OK
    assert c.ask("api", [("remote_address", "192.0.2.2")])["code"] == OVER


def test_errors(door):
    c = door()
    assert c.call(SERVICE, question("")) == ("UNKNOWN", "rate limit domain must not be empty")
    assert c.call(SERVICE, question("shop")) == ("UNKNOWN", "rate limit descriptor list must not be empty")
    assert c.call(SERVICE, b"\x0a\x05x")[0] == "INVALID_ARGUMENT"
    assert c.call(SERVICE, field(1, b"\xff"))[0] == "INVALID_ARGUMENT"
    assert c.call(SERVICE, question("shop", descriptor([("a", "b")], limit=(1, 0))))[0] == "INVALID_ARGUMENT"
    assert c.call(SERVICE, question("shop", *[[("a", "b")]] * 65))[0] == "RESOURCE_EXHAUSTED"
    assert c.call(SERVICE, question("x" * 70000))[0] == "RESOURCE_EXHAUSTED"
    assert c.call("/envoy.service.ratelimit.v3.RateLimitService/Other", b"")[0] == "UNIMPLEMENTED"
    assert c.ask("shop", [("ip", "x")])["code"] == OK


def test_health(door):
    c = door()
    for service in ("", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"):
        assert c.call(HEALTH, field(1, service.encode())) == ("OK", b"\x08\x01")
    assert c.call(HEALTH, field(1, b"other"))[0] == "NOT_FOUND"


def test_over_tls(door, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    c = door(f"{{address: '127.0.0.1:0', tls: {{certificate: '{certificate}', key: '{key}'}}}}",
             authority.certificate)
    assert c.ask("shop", [("ip", "x")])["code"] == OK


def test_draining_answers_and_ends(door):
    c = door()
    assert c.ask("shop", [("ip", "x")])["code"] == OK
    assert c.daemon.end() == 0
    assert c.call(HEALTH, b"")[0] == "UNAVAILABLE"


def test_many_clients_admit_exactly_the_limit(venv, door):
    first = door()
    host, port = first.daemon.address("grpc")
    clients = [GrpcClient(venv, f"{host}:{port}") for _ in range(4)]
    codes = [[] for _ in clients]

    def run(client, out):
        out.extend(client.ask("shop", [("plan", "free")])["code"] for _ in range(40))

    threads = [threading.Thread(target=run, args=pair) for pair in zip(clients, codes)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for c in clients:
        c.close()
    assert sum(c == OK for out in codes for c in out) == 60


def test_negative_hits_take_nothing_of_the_policys_limits(door):
    c = door()
    ip = [("remote_address", "192.0.2.77")]
    assert c.ask("own", descriptor(ip))["statuses"][0]["remaining"] == 2
    assert c.ask("own", descriptor(ip, hits=2, negative=True))["statuses"][0]["remaining"] == 2
    assert c.ask("own", descriptor(ip, hits=2, negative=True), descriptor([("a", "b")], hits=1))["statuses"][0]["remaining"] == 1
