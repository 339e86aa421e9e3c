"""examples/three-nodes: as it is started by hand, one limit behind three daemons."""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess

import pytest

from redis_servers import need
from serving import DEADLINE, wait_for

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "three-nodes"


def free_row():
    """A port with the two behind it free, and so 100 and 200 higher; and one for Redis."""
    for first in range(20_000 + os.getpid() % 1000 * 20, 60_000, 400):
        wanted = [first + step + node for step in (0, 100, 200) for node in range(3)] + [first + 300]
        held = []
        try:
            for port in wanted:
                held.append(socket.create_server(("127.0.0.1", port)))
            return first, first + 300
        except OSError:
            continue
        finally:
            for s in held:
                s.close()
    raise AssertionError("no row of free ports")


def check(port, key="me", path="/"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    body = {"ip": "192.0.2.1", "path": path, "headers": {"X-Api-Key": key}}
    connection.request("POST", "/v1/check", json.dumps(body))
    return json.loads(connection.getresponse().read())


def is_up(port):
    """Does it answer, and reach its store?"""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port + 200, timeout=DEADLINE)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        return "\nweir_store_up 1\n" in text and check(port, key=f"is it up {port}")["verdict"] == "allow"
    except (OSError, http.client.HTTPException):
        return False


@pytest.fixture
def example(weir, tmp_path):
    need("redis-server")
    first, redis = free_row()
    process = subprocess.Popen([EXAMPLE / "run.sh", weir], stdout=subprocess.DEVNULL,
                               env={**os.environ, "FIRST": str(first), "REDIS": str(redis), "DIR": str(tmp_path)})
    ports = [first, first + 1, first + 2]
    try:
        wait_for("three nodes", lambda: all(is_up(port) for port in ports))
        yield process, ports, tmp_path
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE * 2) == 0


def test_one_limit_whichever_node_is_asked(example):
    _, ports, directory = example
    passed = sum(check(ports[i % 3])["verdict"] == "allow" for i in range(150))
    assert 85 <= passed <= 100
    assert sum(check(ports[i % 3], "you", "/export")["verdict"] == "allow" for i in range(20)) == 10
    os.kill(int((directory / "redis.pid").read_text()), signal.SIGSTOP)
    wait_for("the store is gone", lambda: check(ports[0], "they", "/export")["reason"] == "store")
    assert check(ports[1], "them")["verdict"] == "allow"  # a third of the limit, here
    os.kill(int((directory / "redis.pid").read_text()), signal.SIGCONT)
    wait_for("the store is back", lambda: check(ports[0], "they", "/export")["reason"] is None)
