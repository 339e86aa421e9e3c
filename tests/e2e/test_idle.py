"""Idle connections are cheap: 50 000 of them over the doors of one daemon, under 1 GiB.

The daemon needs a descriptor for each. Where the machine's hard limit is lower and cannot be raised, one daemon is
given as many as it may have, and the whole number is held by as many daemons as that takes, under 1 GiB together."""
import resource
import signal
import socket
import subprocess
import sys
import time

import pytest

from conftest import ROOT
from serving import DEADLINE, Daemon, wait_for
from test_resp import Client
from test_slow_peers import REQUEST, rss

WANTED, GIB, SPARE = 50000, 1 << 30, 600  # SPARE: descriptors for all else
DOORS = ("http", "grpc", "resp")
A_PROCESS = 10000  # connections that one process of clients opens
POLICY = """version: 1
arena: {size: 1MiB}
listen: {http: "127.0.0.1:0", grpc: "127.0.0.1:0", resp: "127.0.0.1:0", threads: 2, idle_timeout: 1h}
limits: [{name: x, by: [ip], rate: 100000/day}]
"""


def hard_limit():
    """What the daemon may have; raised to what is wanted where we may."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < WANTED + SPARE:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (WANTED + SPARE, WANTED + SPARE))
        except (ValueError, OSError):
            pass
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


class Clients:
    def __init__(self, daemon, door, count):
        host, port = daemon.address(door)
        self.processes = []
        while count > 0:
            some = min(count, A_PROCESS)
            self.processes.append(subprocess.Popen(
                [sys.executable, ROOT / "tests/e2e/idle_clients.py", door, host, str(port), str(some)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            count -= some
        for process in self.processes:
            assert process.stdout.readline() == "ready\n"

    def kept(self):
        return sum(int(process.communicate(timeout=120)[0].split()[1]) for process in self.processes)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def cpu_seconds(daemon):
    with open(f"/proc/{daemon.process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.fixture(scope="module")
def measured(weir, tmp_path_factory):
    """All opened, held, asked beside, and closed: what it cost."""
    hard = hard_limit()
    count = min(WANTED, hard - SPARE) // len(DOORS)
    path = tmp_path_factory.mktemp("idle") / "policy.yaml"
    path.write_text(POLICY)
    daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"]).ready()
    empty, clients, each, kept = rss(daemon), [], {}, {}
    try:
        for door in DOORS:
            before = rss(daemon)
            clients.append(Clients(daemon, door, count))
            each[door] = (rss(daemon) - before) / count
        total = rss(daemon)
        before = cpu_seconds(daemon)
        time.sleep(1)
        spent = cpu_seconds(daemon) - before
        beside = Client(daemon.address("resp"))
        begin = time.monotonic()
        assert all(beside("PING") == b"PONG" for _ in range(100))
        waited = time.monotonic() - begin
        kept = {door: c.kept() for door, c in zip(DOORS, clients)}
        beside.close()
        assert daemon.end() == 0
    finally:
        for c in clients:
            c.close()
        daemon.close()
    return dict(hard=hard, count=count, empty=empty, total=total, each=each, spent=spent, waited=waited, kept=kept)


def test_what_an_idle_connection_costs(measured):
    print(f"{len(DOORS)} x {measured['count']} idle: {measured['total'] >> 20} MiB; bytes each: "
          f"{ {door: round(b) for door, b in measured['each'].items()} }")
    assert measured["count"] > 1000
    assert measured["kept"] == {door: measured["count"] for door in DOORS}
    # Whichever door they come through, 50 000 of its kind would fit.
    for door, each in measured["each"].items():
        assert measured["empty"] + WANTED * each < GIB, (door, each)
    assert measured["spent"] < 0.3 and measured["waited"] < 10


@pytest.mark.parametrize("door", ["http", "resp"])
def test_more_than_there_are_descriptors(weir, tmp_path, door):
    """They are refused; those that are open are served, and new ones are when others have gone."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    limits = (128, 128)
    daemon = Daemon([weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"],
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits)).ready()
    try:
        assert daemon.event("few descriptors")["limit"] == daemon.event("ready")["descriptors"] == 128
        request = REQUEST[door]
        crowd = [socket.create_connection(daemon.address(door), DEADLINE) for _ in range(300)]
        served = [s for s in crowd if answered(s, request)]
        assert daemon.event("connections refused")["open"] == len(served)
        assert 40 < len(served) < 128
        daemon.signal(signal.SIGHUP)  # there are some left for files
        daemon.event("reloaded")
        before = cpu_seconds(daemon)
        time.sleep(0.5)
        assert cpu_seconds(daemon) - before < 0.2  # it does not spin on what it cannot accept
        assert all(answered(s, request) for s in served)
        for s in crowd:
            s.close()

        def fresh():
            with socket.create_connection(daemon.address(door), DEADLINE) as s:
                return answered(s, request)
        wait_for("a connection after the crowd", fresh)
        assert daemon.end() == 0
    finally:
        daemon.close()


@pytest.mark.parametrize("door", ["http", "resp"])
def test_a_crowd_leaves_room_for_who_is_to_look(weir, tmp_path, door):
    """The admin door is served when another has taken all the connections that it may."""
    (tmp_path / "policy.yaml").write_text(POLICY.replace("listen: {", "listen: {admin: 127.0.0.1:0, "))
    daemon = Daemon([weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"],
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))).ready()
    crowd = []
    try:
        crowd = [socket.create_connection(daemon.address(door), DEADLINE) for _ in range(300)]
        daemon.event("connections refused")
        for _ in range(3):
            with socket.create_connection(daemon.address("admin"), DEADLINE) as s:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert s.recv(65536).startswith(b"HTTP/1.1 200 ")
    finally:
        for s in crowd:
            s.close()
        daemon.close()


def answered(s, request):
    try:
        s.sendall(request)
        return s.recv(65536) != b""
    except OSError:
        return False


def over_several(weir, path, most):
    """|WANTED| held at once by daemons of at most |most| each: what they take together, and how many were kept."""
    path.write_text(POLICY)
    fleet = -(-WANTED // most)
    count = -(-WANTED // fleet // len(DOORS))
    daemons, clients = [], []
    try:
        for _ in range(fleet):
            daemons.append(Daemon([weir, "serve", "-c", path, "--log-format", "json"]).ready())
            clients += [Clients(daemons[-1], door, count) for door in DOORS]
        total = sum(rss(daemon) for daemon in daemons)
        kept = sum(c.kept() for c in clients)
        assert [daemon.end() for daemon in daemons] == [0] * fleet
    finally:
        for c in clients:
            c.close()
        for daemon in daemons:
            daemon.close()
    return total, kept


def test_fifty_thousand(measured, weir, tmp_path):
    most = measured["count"] * len(DOORS)
    total, kept = measured["total"], most
    if most < WANTED - len(DOORS):
        total, kept = over_several(weir, tmp_path / "policy.yaml", most)
    print(f"{kept} idle connections: {total >> 20} MiB")
    assert kept >= WANTED - len(DOORS)
    assert total < GIB
