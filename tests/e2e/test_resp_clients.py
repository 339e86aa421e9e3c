"""The RESP door by clients people use: connect, call, pipeline, reconnect, without one error.

scripts/venv.sh and clients.sh fetch them; what could not be had is skipped and says so."""
import subprocess

import pytest

from test_resp import start

CLIENTS = [("redis-py", 2), ("redis-py", 3), ("ioredis", 2), ("node-redis", 2), ("go-redis", 2), ("go-redis", 3)]
PASSWORD = "open sesame"


@pytest.fixture(scope="module", params=["", PASSWORD], ids=["open", "password"])
def door(request, weir, tmp_path_factory):
    password = request.param
    daemon = start(weir, tmp_path_factory.mktemp("clients"), f"  resp_password: {password}" if password else "")
    yield daemon, password
    daemon.close()


def program(build, client):
    home, python = build / "clients", build / "venv/bin/python"
    found = {"redis-py": (python, [python, "tests/e2e/clients/client.py"]),
             "ioredis": (home / "node.pins", ["node", home / "node/client.js", "ioredis"]),
             "node-redis": (home / "node.pins", ["node", home / "node/client.js", "node-redis"]),
             "go-redis": (home / "go.pins", [home / "go-client"])}[client]
    if not found[0].exists() or client == "redis-py" and not list(build.glob("venv/lib/*/site-packages/redis")):
        pytest.skip(f"no {client}: scripts/venv.sh or clients.sh could not fetch it")
    return found[1]


@pytest.mark.parametrize("client, protocol", CLIENTS)
def test_client(build, door, client, protocol):
    daemon, password = door
    run = subprocess.run([*map(str, program(build, client)), str(daemon.address("resp")[1]), str(protocol), password],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and run.stdout == "ok\n", run.stdout + run.stderr
