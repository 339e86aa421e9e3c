"""The ring: nodes among themselves, with no store. Each node is a process of its own (tests/remote/driver.c, the
backend itself), so that it can be killed, stopped and restarted."""
import contextlib
import signal
import socket
import subprocess

import pytest

from redis_servers import SLACK_US, Driver, free_port, wait_for
from together import Together

PASSWORD = "correct horse"
DAY_MS = 86_400_000


class Ring:
    """Nodes by number, each with a port of its own."""

    def __init__(self, build, directory, count=3):
        self.build = build
        self.directory = directory
        self.ports = [free_port() for _ in range(count)]
        self.nodes = {}

    def start(self, number, *args, password=PASSWORD, deadline_ms=2000):
        """A node that asks, and stays."""
        peers = [word for port in self.ports for word in ("--address", f"127.0.0.1:{port}")]
        self.nodes[number] = Driver(
            self.build, "--kind", "ring", "--self", f"127.0.0.1:{self.ports[number]}", *peers, "--password", password,
            "--arena", self.directory / f"arena{number}", "--stay", *args, deadline_ms=deadline_ms)
        return self.nodes[number]

    def silent(self, number, **options):
        """A node that asks nothing."""
        return self.start(number, "--calls", 0, **options)

    def end(self, number, how=signal.SIGTERM):
        driver = self.nodes.pop(number)
        driver.process.send_signal(how)
        driver.process.wait(30)
        driver.close()
        return driver

    def close(self):
        for driver in self.nodes.values():
            driver.close()


@pytest.fixture
def ring(build, tmp_path):
    ring = Ring(build, tmp_path)
    yield ring
    ring.close()


at_once = Together(ring=lambda build, tmp_path: contextlib.closing(Ring(build, tmp_path)))


def seen(driver, nodes):
    return driver.wait_until(f"{nodes} nodes", lambda s: s["nodes"] == nodes and s["reachable"])


def total(drivers, what):
    return sum(s[what] for d in drivers for s in d.slices())


def asked(drivers, calls):
    wait_for("all is answered", lambda: total(drivers, "allowed") + total(drivers, "refused") +
             total(drivers, "gone") == calls)


def test_asked_anywhere_exactly_the_limit_is_admitted(ring):
    drivers = [ring.start(n, "--calls", 3000, "--keys", 3, "--units", 1000, "--in-flight", 64, "--window-ms", DAY_MS,
                          "--wait-nodes", 3) for n in range(3)]
    asked(drivers, 9000)
    assert total(drivers, "gone") == 0
    assert total(drivers, "allowed") == 3 * 1000


def test_several_limits_with_several_owners_all_or_none(ring):
    """16 limits of a call, each under a key of its own: they have three owners."""
    for n in (1, 2):
        ring.silent(n)
    driver = ring.start(0, "--calls", 800, "--charges", 16, "--spread", "--units", 500, "--in-flight", 16,
                        "--window-ms", DAY_MS, "--wait-nodes", 3)
    asked([driver], 800)
    assert (total([driver], "allowed"), total([driver], "refused")) == (500, 300)


@pytest.mark.parametrize("algorithm", [1, 3, 4, 5])
@at_once
def test_a_node_that_is_terminated_hands_over(ring, algorithm):
    args = ["--keys", 60, "--units", 100, "--window-ms", DAY_MS, "--algorithm", algorithm, "--in-flight", 32]
    for n in (1, 2):
        ring.silent(n)
    first = ring.start(0, "--calls", 3000, *args, "--wait-nodes", 3)
    asked([first], 3000)
    assert total([first], "allowed") == 3000
    assert ring.end(0).process.returncode == 0
    seen(ring.nodes[1], 2)
    ring.end(1)
    seen(ring.nodes[2], 1)
    # 50 of 100 are spent of each key: whatever refills in between, tokens come every 864 s.
    second = ring.start(0, "--calls", 4800, *args, "--wait-nodes", 2)
    asked([second], 4800)
    assert total([second], "allowed") == 3000


def test_under_load_a_leaving_and_a_joining_node_lose_nothing(ring):
    args = ["--keys", 100, "--units", 100, "--window-ms", DAY_MS, "--in-flight", 16]
    ring.silent(2)
    drivers = [ring.start(n, *args, "--rate", 2000, "--wait-nodes", 3) for n in (0, 1)]
    drivers[0].healthy()
    ring.end(2)
    seen(drivers[0], 2)
    ring.silent(2)
    seen(drivers[0], 3)
    seen(drivers[1], 3)
    wait_for("all is spent", lambda: total(drivers, "refused") > 2000)
    assert total(drivers, "allowed") == 100 * 100
    assert total(drivers, "gone") == 0


def test_killed_and_restarted_with_its_arena_nothing_is_counted_twice(ring):
    """Until it is known to be dead its keys are nobody's; then the next owner counts: at most a limit more for each
    key. It comes back with what it had, and what the other counted is added."""
    args = ["--keys", 30, "--units", 100, "--window-ms", DAY_MS, "--in-flight", 16]
    ring.silent(1)
    ring.silent(2)
    driver = ring.start(0, *args, "--rate", 3000, "--wait-nodes", 3)
    wait_for("all is spent", lambda: total([driver], "refused") > 1000)
    assert total([driver], "allowed") == 30 * 100
    ring.end(2, signal.SIGKILL)
    driver.wait_until("its keys are nobody's", lambda s: s["gone"] > 0)
    seen(driver, 2)
    driver.healthy()
    between = total([driver], "allowed")
    assert 30 * 100 < between < 2 * 30 * 100
    ring.silent(2)
    seen(driver, 3)
    driver.healthy()
    before = total([driver], "allowed")
    refused = total([driver], "refused")
    wait_for("asked again", lambda: total([driver], "refused") > refused + 3000)
    assert total([driver], "allowed") == before < 2 * 30 * 100


def test_stopped_for_longer_than_the_deadline_costs_no_more_than_it(ring):
    args = ["--keys", 30, "--units", 1_000_000, "--window-ms", DAY_MS, "--in-flight", 16]
    ring.silent(1)
    stopped = ring.silent(2)
    driver = ring.start(0, *args, "--rate", 1000, "--wait-nodes", 3, deadline_ms=200)
    driver.healthy()
    stopped.process.send_signal(signal.SIGSTOP)
    driver.wait_until("timeouts", lambda s: s["timeout"] > 0)
    driver.wait_until("the breaker", lambda s: s["breaker"] > 0 and s["timeout"] == 0)
    seen(driver, 2)
    driver.healthy()
    stopped.process.send_signal(signal.SIGCONT)
    seen(driver, 3)
    driver.healthy()
    assert max(s["slowest_us"] for s in driver.slices()) < 200_000 + SLACK_US


@at_once
def test_a_wrong_password_is_no_member(ring):
    ring.silent(0)
    ring.silent(1)
    stranger = ring.silent(2, password="guessed")
    seen(ring.nodes[0], 2)
    stranger.wait_until("it says why", lambda s: "WRONGPASS" in s["detail"])
    # It is alone, for the others will not have it.
    stranger.wait_until("alone", lambda s: s["nodes"] == 1)


def garbage():
    bulk = lambda b: b"$%d\r\n%s\r\n" % (len(b), b)
    command = lambda *words: b"*%d\r\n" % len(words) + b"".join(map(bulk, words))
    login = command(b"AUTH", PASSWORD.encode())
    yield b"\0" * 1000, None
    yield b"*1000000\r\n", b"-ERR"
    yield b"GET / HTTP/1.1\r\n\r\n", b"-NOAUTH"
    yield command(b"WEIR.RING.TAKE", b"\1" * 200), b"-NOAUTH"
    yield command(b"AUTH", b""), b"-WRONGPASS"
    yield command(b"AUTH", b"correct horsf"), b"-WRONGPASS"
    for name in (b"TAKE", b"PUT", b"HELLO"):
        for length in (0, 1, 6, 100, 5000):
            yield login + command(b"WEIR.RING." + name, b"\1" * length), b"+OK\r\n-ERR"
    yield login + command(b"WEIR.RING.SYNCED", b"nobody"), b"+OK\r\n-ERR"
    yield login + command(b"FLUSHALL"), b"+OK\r\n-ERR unknown"
    yield login + b"$" * 100_000, None


def test_garbage_on_its_port_changes_nothing(ring):
    args = ["--keys", 10, "--units", 1_000_000, "--in-flight", 8, "--window-ms", DAY_MS]
    ring.silent(1)
    ring.silent(2)
    driver = ring.start(0, *args, "--rate", 500, "--wait-nodes", 3)
    driver.healthy()
    for data, answer in garbage():
        with socket.create_connection(("127.0.0.1", ring.ports[0]), timeout=20) as s:
            got = b""
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while chunk := s.recv(65536):
                    got += chunk
            except OSError:
                pass
            assert answer is None or got.startswith(answer), (data[:50], got[:100])
    driver.healthy()
    assert driver.process.poll() is None


def test_beyond_loopback_there_is_a_password(build):
    status = subprocess.run([build / "tests/remote/remote_driver", "--kind", "ring", "--self", "0.0.0.0:0", "--address",
                             "127.0.0.1:1", "--calls", "1"], stderr=subprocess.PIPE, timeout=30).returncode
    assert status == 2
