"""Signals, and a reload that cannot go on: nothing that a policy names holds the daemon up."""
import fcntl
import os
import signal
import socket

import pytest

from serving import DEADLINE, Daemon, wait_for
from test_resp import command

POLICY = """version: 1
arena: {size: 1MiB}
listen: {resp: 127.0.0.1:0, threads: 1}
limits: [{name: x, by: [ip], rate: 100000/day}]
"""


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


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_signals_that_come_while_it_starts_wait(weir, tmp_path, number):
    """It is held up before its first door by the gate of its arena, which we have."""
    arena, policy = tmp_path / "arena", tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace("arena: {", f"arena: {{path: {arena}, "))
    first = Daemon([weir, "serve", "-c", policy, "--log-format", "json"]).ready()
    assert first.end() == 0
    first.close()
    with open(arena, "r+b") as gate:
        fcntl.lockf(gate, fcntl.LOCK_EX, 1, 0)
        d = Daemon([weir, "serve", "-c", policy, "--log-format", "json"])
        try:
            folder = f"/proc/{d.process.pid}/fd"
            wait_for("the arena is open", lambda: str(arena) in [os.path.realpath(f"{folder}/{fd}") for fd in os.listdir(folder)])
            d.signal(number)
            fcntl.lockf(gate, fcntl.LOCK_UN, 1, 0)
            d.ready()
            d.event("reloaded" if number == signal.SIGHUP else "signal ignored")
            assert serves(d)
            assert d.end() == 0
        finally:
            d.close()
