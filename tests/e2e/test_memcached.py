"""Shared limits in memcached, through the backend itself (tests/remote/driver.c) at real servers: never above the
limit, whatever happens to them."""
import shutil
import signal
import subprocess

import pytest

from chaos_proxy import ChaosProxy
from redis_servers import DEADLINE_MS, SLACK_US, Driver, Redis, Server, drive, free_port, need, used
from serving import wait_for

LONGEST_US = DEADLINE_MS * 1000 + SLACK_US
PROGRAM = shutil.which("memcached") or "/usr/sbin/memcached"


class Memcached(Server):
    """One server, on a port of its own."""

    def __init__(self):
        need(PROGRAM)
        self.port = free_port()
        self.start()

    def start(self):
        self.process = subprocess.Popen([PROGRAM, "-l", "127.0.0.1", "-p", str(self.port), "-U", "0", "-u", "root", "-m", "64"])
        wait_for("memcached answers", lambda: self.ask("mn\r\n") == "MN\r\n")

    def ask(self, command):
        import socket
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as s:
                s.sendall(command.encode())
                return s.recv(4096).decode()
        except OSError:
            return ""


@pytest.fixture
def server():
    with Memcached() as memcached:
        yield memcached


def at(*servers):
    return ["--kind", "memcached", *(word for s in servers for word in ("--address", f"127.0.0.1:{s.port}"))]


def together(build, count, *args):
    drivers = [Driver(build, *args, "--quiet", deadline_ms=5000) for _ in range(count)]
    try:
        return [driver.wait() for driver in drivers]
    finally:
        for driver in drivers:
            driver.close()


@pytest.mark.parametrize("algorithm", [1, 3, 4])
def test_processes_together_admit_exactly_the_limit(build, server, algorithm):
    ends = together(build, 3, *at(server), "--calls", 900, "--in-flight", 16, "--units", 600, "--algorithm", algorithm,
                    "--window-ms", 86_400_000)
    admitted = sum(end["allowed"] for end in ends)
    gone = sum(end["gone"] for end in ends)
    assert (admitted, gone) == (600, 0)


def test_losing_races_is_no_outage(build, server):
    """With a deadline too short for everybody's turn at one word: refused for a moment, never as if the store were gone."""
    drivers = [Driver(build, *at(server), "--calls", 2000, "--in-flight", 64, "--units", 600, "--algorithm", 1,
                      "--window-ms", 86_400_000, "--quiet", deadline_ms=30) for _ in range(3)]
    try:
        ends = [driver.wait() for driver in drivers]
    finally:
        for driver in drivers:
            driver.close()
    assert sum(end["gone"] - end["timeout"] for end in ends) == 0
    assert sum(end["allowed"] for end in ends) <= 600


def test_several_limits_of_a_call_all_or_none(build, server):
    end = drive(build, *at(server), "--calls", 300, "--charges", 1, "--units", 500, deadline_ms=5000)
    assert end["allowed"] == 300
    end = drive(build, *at(server), "--calls", 400, "--charges", 3, "--units", 500, deadline_ms=5000)
    assert (end["allowed"], end["refused"]) == (200, 200)
    assert used(build, 500, *at(server)) == 500


def test_under_load_what_is_refused_is_given_back(build, server):
    drive(build, *at(server), "--calls", 300, "--charges", 1, "--units", 500, deadline_ms=5000)
    end = drive(build, *at(server), "--calls", 2000, "--charges", 3, "--units", 500, "--in-flight", 64, deadline_ms=5000)
    assert end["gone"] == 0
    assert 0 < end["allowed"] <= 200
    wait_for("all is given back", lambda: used(build, 500, *at(server)) == 300 + end["allowed"])


def test_given_back_at_once_is_as_never_taken(build, server):
    end = drive(build, *at(server), "--calls", 500, "--units", 100, "--give-back", deadline_ms=5000)
    assert end["allowed"] == 500
    wait_for("all is given back", lambda: used(build, 100, *at(server)) == 0)


def test_keys_over_three_servers(build):
    with Memcached() as a, Memcached() as b, Memcached() as c:
        end = drive(build, *at(a, b, c), "--calls", 3000, "--keys", 300, "--units", 10, "--in-flight", 64, deadline_ms=5000)
        assert (end["allowed"], end["gone"]) == (3000, 0)
        items = [int(dict(line.split()[1:3] for line in s.ask("stats\r\n").splitlines() if line.startswith("STAT"))["curr_items"])
                 for s in (a, b, c)]
        assert sum(items) == 300
        assert min(items) > 60


def test_killed_and_restarted_empty(build, server):
    with Driver(build, *at(server), "--run-ms", 60_000, "--in-flight", 16, "--rate", 2000, "--units", 10_000_000) as driver:
        driver.healthy()
        server.kill()
        lost = driver.wait_until("the loss is seen", lambda s: s["gone"] > 0 and not s["reachable"])
        driver.wait_until("the breaker spares the deadline", lambda s: s["breaker"] > 0 and s["slowest_us"] < 50_000)
        server.start()
        driver.healthy()
        assert lost["detail"]
        assert max(s["slowest_us"] for s in driver.slices()) < LONGEST_US


def test_stopped_for_longer_than_the_deadline(build, server):
    with Driver(build, *at(server), "--run-ms", 60_000, "--in-flight", 32, "--rate", 1000, "--units", 10_000_000) as driver:
        driver.healthy()
        server.signal(signal.SIGSTOP)
        driver.wait_until("timeouts", lambda s: s["timeout"] > 0)
        driver.wait_until("the breaker", lambda s: s["breaker"] > 0 and s["timeout"] == 0)
        server.signal(signal.SIGCONT)
        driver.healthy()
        assert max(s["slowest_us"] for s in driver.slices()) < LONGEST_US


def test_a_line_that_delays_is_cut_and_comes_back(build, server):
    proxy = ChaosProxy(("127.0.0.1", server.port))
    with Driver(build, "--kind", "memcached", "--address", f"127.0.0.1:{proxy.port}", "--run-ms", 60_000, "--in-flight", 16,
                "--rate", 500, "--units", 10_000_000) as driver:
        driver.healthy()
        proxy.delay = 1
        driver.wait_until("too slow", lambda s: s["gone"] > 0)
        proxy.delay = 0
        driver.healthy()
        proxy.swallow = True
        driver.wait_until("swallowed", lambda s: s["gone"] > 0)
        proxy.swallow = False
        driver.healthy()
    proxy.close()


def test_something_else_listens_there(build):
    with Redis() as redis:
        end = drive(build, "--kind", "memcached", "--address", f"127.0.0.1:{redis.port}", "--run-ms", 800, "--rate", 100)
        assert end["allowed"] == 0
        assert "makes no sense" in end["detail"]


def test_something_else_lies_under_our_key(build, server):
    drive(build, *at(server), "--calls", 1, "--units", 10, deadline_ms=5000)
    keys = [line.split()[0] for line in server.ask("lru_crawler metadump all\r\n").splitlines() if line.startswith("key=")]
    assert len(keys) == 1
    key = keys[0].removeprefix("key=").replace("%3A", ":")
    assert server.ask(f"ms {key} 7\r\nrubbish\r\n") == "HD\r\n"
    end = drive(build, *at(server), "--calls", 5, "--units", 10, deadline_ms=5000)
    assert (end["allowed"], end["protocol"]) == (0, 5)  # not counted, not let through unseen: the store has no answer
    assert end["reachable"]
