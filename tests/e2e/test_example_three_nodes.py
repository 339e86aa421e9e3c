"""examples/three-nodes: as it is started by hand, one limit behind three daemons."""
import http.client
import json
import os
import pathlib
import shutil
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
    need("redis-server", "curl")
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


def start(row, directory, *args, script=EXAMPLE / "run.sh", **env):
    first, redis = row
    return subprocess.Popen([script, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={
        **os.environ, "FIRST": str(first), "REDIS": str(redis), "DIR": str(directory), **env})


@pytest.fixture
def bare_path(tmp_path):
    """A PATH that has all but weir."""
    need("redis-server", "curl")
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("sh", "dirname", "ls", "mkdir", "sed", "grep", "tail", "sleep", "curl", "redis-server"):
        (bare / name).symlink_to(shutil.which(name))
    return str(bare)


def copy_of_the_example(directory):
    """Where no repository is around it."""
    return shutil.copytree(EXAMPLE, directory / "repository/examples/three-nodes") / "run.sh"


def test_weir_of_the_repository_where_none_is_in_path(weir, tmp_path, bare_path):
    script = copy_of_the_example(tmp_path)
    (tmp_path / "repository/build").mkdir()
    (tmp_path / "repository/build/weir").symlink_to(weir)
    row = first, _ = free_row()
    process = start(row, tmp_path / "run", script=script, PATH=bare_path)
    try:
        assert process.stdout.readline().startswith("three nodes: ")  # said no sooner than they answer
        assert [check(first + i, f"key {i}")["verdict"] for i in range(3)] == ["allow"] * 3
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE * 2) == 0


def test_no_weir_at_all(tmp_path, bare_path):
    process = start(free_row(), tmp_path / "run", script=copy_of_the_example(tmp_path), PATH=bare_path)
    out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out) == (1, "")
    assert "make build" in err


@pytest.mark.parametrize("taken", ["HTTP", "Redis"])
def test_a_port_that_is_taken(weir, tmp_path, taken):
    need("redis-server", "curl")
    row = first, redis = free_row()
    with socket.create_server(("127.0.0.1", first + 1 if taken == "HTTP" else redis)):
        process = start(row, tmp_path, weir)
        out, err = process.communicate(timeout=DEADLINE * 2)
    assert (process.returncode, out) == (1, "")
    log = tmp_path / ("node1.log" if taken == "HTTP" else "redis.log")
    assert log.read_text().splitlines()[-1] in err


def test_its_policy_is_one(weir):
    done = subprocess.run([weir, "check", EXAMPLE / "policy.yaml"], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0 and ": error: " not in done.stderr
