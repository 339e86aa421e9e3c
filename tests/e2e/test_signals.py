"""Signals, and a reload that cannot go on: nothing that a policy names holds the daemon up."""
import os
import signal
import socket

import pytest

from serving import DEADLINE, Daemon
from test_resp import command

POLICY = """version: 1
arena: {size: 1MiB}
listen: {resp: 127.0.0.1:0, threads: 1}
limits: [{name: x, by: [ip], rate: 100000/day}]
"""


@pytest.fixture
def daemon(weir, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"]).ready()
    daemon.policy = path
    yield daemon
    daemon.close()


def serves(daemon):
    with socket.create_connection(daemon.address("resp"), DEADLINE) as s:
        s.sendall(command("PING"))
        return s.recv(100) == b"+PONG\r\n"


def test_a_policy_that_is_a_pipe_holds_nobody_up(daemon):
    daemon.policy.unlink()
    os.mkfifo(daemon.policy)
    daemon.signal(signal.SIGHUP)
    assert "a pipe" in daemon.event("reload refused, the old policy stays")["reason"]
    assert serves(daemon)
    assert daemon.end() == 0


def test_reloads_asked_for_while_one_is_under_way_and_the_end_among_them(daemon):
    for _ in range(20):
        daemon.signal(signal.SIGHUP)
    daemon.event("reloaded")
    daemon.signal(signal.SIGHUP)
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert daemon.events[-1]["event"] == "stopped"


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_signals_sent_by_habit_end_nothing(daemon, number):
    daemon.signal(number)
    assert daemon.event("signal ignored")["name"] == number.name
    assert serves(daemon)
    assert daemon.end() == 0
