"""The door for other processes of the host, by the bytes."""
import os
import socket
import stat
import threading

import pytest

from agent_wire import (ALLOW, BUSY, DECIDED, DENY, OTHER_POLICY, RELEASE, Client, answer, ask, fingerprint, frame)
from redis_servers import Redis
from serving import Daemon, wait_for

POLICY = """version: 1
arena: {{path: {dir}/arena, size: 4MiB}}
listen: {{admin: "127.0.0.1:0"}}
store:
  redis: {{url: "redis://127.0.0.1:{port}/0"}}
  agent: "unix:{dir}/agent.sock"
  deadline: 1s
  shared: true
{store}
identity: {{api_key: {{header: X-Api-Key}}}}
limits:
  - {{name: keys, by: [api_key], rate: 10/hour, algorithm: fixed-window}}
  - {{name: places, match: {{path: "/slow"}}, concurrent: 2, hold: 1h}}
"""
LIMITS = ("keys", "places")


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


@pytest.fixture
def serve(tmp_path, weir, redis):
    made = []

    def make(text=POLICY, store="", ready=True):
        path = tmp_path / "policy.yaml"
        path.write_text(text.format(dir=tmp_path, port=redis.port, store=store))
        daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"])
        made.append(daemon)
        return daemon.ready() if ready else daemon

    yield make
    for daemon in made:
        daemon.close()


MARK = fingerprint([("k", "api_key"), ("h", "X-Api-Key")], LIMITS)


def test_strict(serve, tmp_path):
    serve()
    path = tmp_path / "agent.sock"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    with Client(path) as client:
        for i in range(10):
            got = client.ask(i, MARK, fields=[None, "ann"])
            assert (got.id, got.status, got.outcome) == (i, DECIDED, ALLOW)
            assert got.verdicts[0]["remaining"] == 9 - i and got.verdicts[0]["capacity"] == 10
            assert 0 < got.verdicts[0]["reset_ns"] <= 3600 * 10**9
        got = client.ask(99, MARK, fields=[None, "ann"])
        assert (got.outcome, got.reason, got.decisive) == (DENY, 1, 0)
        assert 0 < got.retry_ns <= 3600 * 10**9
        assert client.ask(1, MARK, fields=[None, "bob"], peek=True).verdicts[0]["remaining"] == 10


def test_pipelined_over_many_connections(serve, tmp_path, redis):
    serve()
    allowed = []

    def work():
        with Client(tmp_path / "agent.sock") as client:
            client.send(*(ask(n, MARK, fields=[None, "ann"]) for n in range(200)))
            got = [client.receive() for _ in range(200)]
            assert sorted(a.id for a in got) == list(range(200))
            allowed.extend(a for a in got if a.status == DECIDED and a.outcome == ALLOW)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(allowed) == 10


def test_places_are_released(serve, tmp_path):
    serve()
    with Client(tmp_path / "agent.sock") as client:
        first, second, third = (client.ask(n, MARK, path="/slow", fields=[None, "ann"]) for n in range(3))
        assert first.hold != bytes(16) and second.hold != first.hold
        assert third.outcome == DENY and third.hold == bytes(16)
        client.send(frame(RELEASE, 0, MARK, first.hold))
        wait_for("the place", lambda: client.ask(4, MARK, path="/slow", fields=[None, "bob"], peek=True).outcome == ALLOW)
        client.send(frame(RELEASE, 0, MARK, first.hold), frame(RELEASE, 0, MARK, b"x" * 16))  # harmless
        assert client.ask(5, MARK, path="/slow", fields=[None, "bob"]).outcome == ALLOW
        assert client.ask(6, MARK, path="/slow", fields=[None, "bob"]).outcome == DENY


def test_another_policy(serve, tmp_path):
    serve()
    with Client(tmp_path / "agent.sock") as client:
        got = client.ask(7, MARK ^ 1, fields=[None, "ann"])
        assert (got.id, got.status, got.mark) == (7, OTHER_POLICY, MARK)
        assert client.ask(8, MARK, fields=[None, "ann"]).verdicts[0]["remaining"] == 9


@pytest.mark.parametrize("bad", [
    frame(9, 0, MARK, b""), frame(1, 0, MARK, b"", version=2), answer(1, MARK), b"GET / HTTP/1.1\r\n\r\n",
    ask(1, MARK, fields=["ann", "too", "many"]), ask(1, MARK, fields=[None, "ann"], cost=-2),
    ask(1, MARK, fields=[None, "ann"], plan=3), ask(1, MARK, fields=[None, "ann"])[:-1] + b"", frame(RELEASE, 0, MARK, b"short")],
    ids=["kind", "version", "answer", "http", "fields", "cost", "plan", "cut", "release"])
def test_nonsense_ends_the_connection(serve, tmp_path, bad):
    serve()
    with Client(tmp_path / "agent.sock") as client:
        client.send(bad)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.receive() is None
    with Client(tmp_path / "agent.sock") as client:
        assert client.ask(1, MARK, fields=[None, "ann"]).outcome == ALLOW


def test_a_caller_that_leaves_takes_nothing(serve, tmp_path, redis):
    serve()
    redis("CLIENT", "PAUSE", "300", "ALL")
    with Client(tmp_path / "agent.sock") as client:
        client.send(*(ask(n, MARK, fields=[None, "ann"]) for n in range(10)))
    with Client(tmp_path / "agent.sock") as client:
        wait_for("all units", lambda: client.ask(1, MARK, fields=[None, "ann"], peek=True).verdicts[0]["remaining"] == 10)


def test_too_many_under_way(serve, tmp_path, redis):
    serve()
    redis("CLIENT", "PAUSE", "500", "ALL")
    with Client(tmp_path / "agent.sock") as client:
        client.send(*(ask(n, MARK, fields=[None, f"k{n}"]) for n in range(1200)))
        got = [client.receive() for _ in range(1200)]
    assert [a.status for a in got].count(BUSY) == 1200 - 256
    assert len([a for a in got if a.status == DECIDED and a.outcome == ALLOW]) == 256


def test_store_gone(serve, tmp_path, redis):
    serve(store="  when_gone: closed")
    redis.kill()
    with Client(tmp_path / "agent.sock") as client:
        got = client.ask(1, MARK, fields=[None, "ann"])
        assert (got.status, got.outcome, got.reason) == (DECIDED, DENY, 7)


def test_stale_and_live_sockets(serve, tmp_path):
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    first = serve()
    second = serve(ready=False)
    assert second.wait() == 1
    assert f"agent: unix:{path}: another process answers there" in "".join(second.raw)
    with Client(path) as client:
        assert client.ask(1, MARK, fields=[None, "ann"]).outcome == ALLOW
    assert first.end() == 0
    assert not path.exists()


def test_no_door_where_nothing_is_shared(serve, tmp_path):
    serve(text=POLICY.replace("  shared: true\n", ""))
    assert not (tmp_path / "agent.sock").exists()


def test_reload_and_drain(serve, tmp_path):
    daemon = serve()
    policy = tmp_path / "policy.yaml"
    with Client(tmp_path / "agent.sock") as client:
        assert client.ask(1, MARK, fields=[None, "ann"]).outcome == ALLOW
        policy.write_text(policy.read_text().replace("rate: 10/hour", "rate: 20/hour"))
        daemon.signal(1)
        wait_for("new rates", lambda: client.ask(2, MARK, fields=[None, "ann"], peek=True).verdicts[0]["capacity"] == 20)
        policy.write_text(policy.read_text().replace("name: keys", "name: other"))
        daemon.signal(1)
        wait_for("other names", lambda: client.ask(3, MARK, fields=[None, "ann"], peek=True).status == OTHER_POLICY)
        daemon.signal(15)
        assert client.receive() is None
    assert daemon.wait() == 0
