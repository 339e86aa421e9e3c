"""Refused requests in the log: what a line says, how many lines there are, what never gets into them."""
import fcntl
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from http_door import Door
from serving import DEADLINE, wait_for

ONCE = "rate: 1/hour, algorithm: token-bucket"
EACH, MANY = "refused", "refused, not logged each"


@pytest.fixture
def make(weir, tmp_path):
    made = []

    def start(*limits, **options):
        made.append(Door(weir, tmp_path / "policy.yaml", list(limits), **options))
        return made[-1]
    yield start
    for each in made:
        each.close()


def events(door, name):
    return [{k: v for k, v in e.items() if k not in ("time", "level")} for e in list(door.daemon.events)
            if e["event"] == name]


def ended(door):
    """All that was logged; ending the daemon tells what was suppressed."""
    assert door.end() == 0
    return door.daemon.events


def lines_and_suppressed(all_events):
    return (len([e for e in all_events if e["event"] == EACH]),
            sum(e["suppressed"] for e in all_events if e["event"] == MANY))


# ---- what a line says ---------------------------------------------------------------------------


def test_a_line(make):
    door = make(f"name: per-ip, by: [ip], {ONCE}")
    for _ in range(2):
        door.check(method="POST", path="/a/b?key=hidden#x", cost=1)
    line, = [e for e in ended(door) if e["event"] == EACH]
    assert 3599_000 <= line.pop("retry_after_ms") <= 3600_000
    assert line.pop("time")
    assert line == {"level": "info", "event": EACH, "door": "http", "limit": "per-ip", "reason": "limit", "cost": 1,
                    "client": "192.0.2.1", "method": "POST", "path": "/a/b"}


def test_shadow_bans_plans_and_capacity(make):
    identity = "identity: {api_key: {header: X-Api-Key}, plan: {default: free, keys: {k-gold: gold}}}\n"
    door = make("name: tried, by: [ip], rate: 0/hour, mode: shadow",
                "name: per-key, by: [api_key], rate: {free: 2/hour, gold: 2/hour}", identity=identity,
                more="bans: [{ip: 203.0.113.0/24}]\n")
    assert door.check(headers={"X-Api-Key": "k-gold"})["verdict"] == "shadow"
    assert door.check(headers={"X-Api-Key": "k-gold"}, cost=9)["verdict"] == "deny"
    assert door.check(ip="203.0.113.7")["verdict"] == "deny"
    assert door.check(headers={"X-Api-Key": "k-gold"}, cost=9, peek=True)["verdict"] == "deny"  # a look
    found = [e for e in ended(door) if e["event"].startswith("refused")]
    told = [(e["event"], e["limit"], e["reason"], e["plan"], e["cost"], e["client"], "retry_after_ms" in e)
            for e in found]
    assert told == [("refused in shadow", "tried", "zero", "gold", 1, "192.0.2.1", False),
                    (EACH, "per-key", "capacity", "gold", 9, "192.0.2.1", False),
                    (EACH, "", "banned", "free", 1, "203.0.113.7", False)]


def test_rules_of_envoy_by_their_place(make, tmp_path):
    (tmp_path / "shop.yaml").write_text(
        "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 5}}\n")
    door = make(f"name: a, by: [ip], {ONCE}", more=f"envoy_ratelimit: [{tmp_path}/shop.yaml]\n")
    body = {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "s3cr3t"}]}], "hitsAddend": 6}
    assert door.ask("POST", "/json", body).status == 429
    line, = [e for e in ended(door) if e["event"] == EACH]
    assert (line["door"], line["limit"], line["reason"], line["cost"]) == ("http", "shop.user", "limit", 6)
    assert "s3cr3t" not in "".join(door.daemon.raw)


# ---- how many lines -----------------------------------------------------------------------------


def test_a_flood_in_one_moment(make):
    door = make(f"name: per-ip, by: [ip], {ONCE}", more="log: {refused: {per_second: 5}}\n")
    door.check(*[{"ip": "192.0.2.1"}] * 1000)  # decided at one moment: 1 passes, 999 do not
    number = wait_for("the summary", lambda: events(door, MANY))
    assert number == [{"event": MANY, "limit": "per-ip", "suppressed": 994}]
    assert len(events(door, EACH)) == 5
    assert lines_and_suppressed(ended(door)) == (5, 994)


def test_a_flood_for_some_seconds(make):
    door = make(f"name: per-ip, by: [ip], {ONCE}", more="log: {refused: {per_second: 7}}\n",
                listen="http: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 1")
    begun, sent = time.monotonic(), 0
    while time.monotonic() - begun < 2.5:
        door.check(*[{"ip": "192.0.2.1"}] * 500)
        sent += 500
    seconds = time.monotonic() - begun
    lines, suppressed = lines_and_suppressed(ended(door))
    assert lines + suppressed == sent - 1
    assert 14 <= lines <= 7 * (seconds + 2)
    assert len([e for e in door.daemon.events if e["event"] == MANY]) <= seconds + 2


def test_many_limits_at_once(make):
    limits = [f'name: l{i:02}, match: {{path: /{i}}}, {ONCE}' for i in range(40)]
    door = make(*limits, more="log: {refused: {per_second: 1}}\n")
    door.check(*[{"ip": "192.0.2.1", "path": f"/{i % 40}"} for i in range(800)])
    all_events = ended(door)
    numbers = {e["limit"]: e["suppressed"] for e in all_events if e["event"] == MANY}
    assert len(numbers) == 17  # sixteen by name
    assert lines_and_suppressed(all_events) == (1, 800 - 40 - 1)
    assert numbers["(others)"] == 23 * 19 + 18  # the first limit had a line before it was suppressed


def test_what_is_suppressed_survives_a_reload(make):
    door = make(f"name: per-ip, by: [ip], {ONCE}", more="log: {refused: {per_second: 1}}\n")
    door.check(*[{"ip": "192.0.2.1"}] * 101)
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded")
    door.check(*[{"ip": "192.0.2.1"}] * 100)
    lines, suppressed = lines_and_suppressed(ended(door))
    assert lines + suppressed == 200
    assert lines <= 2


@pytest.mark.parametrize("more, arguments", [("log: {refused: {per_second: 0}}\n", []), ("", ["--log-level", "warning"])])
def test_none_at_all(weir, tmp_path, more, arguments):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\nlisten: {{http: \"unix:{tmp_path}/s\"}}\n{more}"
                      f"limits: [{{name: a, by: [ip], {ONCE}}}]\n")
    with Quiet([weir, "serve", "-c", policy, *arguments], tmp_path / "s", stderr=subprocess.PIPE) as daemon:
        assert daemon.flood(100) == 99
        daemon.process.send_signal(signal.SIGTERM)
        assert b" refused" not in daemon.process.stderr.read()


# ---- secrets and injections ---------------------------------------------------------------------


def test_no_secret_is_logged(make):
    secrets = ["k-s3cr3t-key", "t0k3n-bearer", "c00kie-s3ss", "qu3ry-s3cr3t", "r3sp-key", "us3r-id"]
    identity = ("identity: {ip: {from: x-forwarded-for, trusted: [127.0.0.1]}, api_key: {header: X-Api-Key}, "
                "user: {header: X-User}}\n")
    door = make(f"name: per-key, by: [api_key], {ONCE}", f"name: per-user, by: [user], {ONCE}", identity=identity,
                listen="http: 127.0.0.1:0, resp: 127.0.0.1:0, threads: 1")
    headers = {"X-Api-Key": secrets[0], "Authorization": f"Bearer {secrets[1]}", "Cookie": f"s={secrets[2]}",
               "X-User": secrets[5]}
    for _ in range(2):
        door.check(headers=headers, path=f"/x?token={secrets[3]}")
        door.auth(headers={**headers, "X-Forwarded-Uri": f"/y?token={secrets[3]}", "X-Forwarded-Method": "GET"})
        with socket.create_connection(door.daemon.address("resp"), DEADLINE) as s:
            s.sendall(f"WEIR.CHECK per-key {secrets[4]}\r\nCL.THROTTLE {secrets[4]} 0 1 3600\r\nQUIT\r\n".encode())
            while s.recv(4096):
                pass
    refused = [e for e in ended(door) if e["event"] == EACH]
    assert {(e["door"], e["limit"], e.get("path")) for e in refused} == {
        ("http", "per-key", "/x"), ("http", "per-key", "/y"), ("resp", "per-key", None), ("resp", "CL.THROTTLE", None)}
    text = "".join(door.daemon.raw)
    for secret in secrets:
        assert secret not in text


EVIL = ["/a\nlevel=error event=fake", "/\x1b]0;owned\x07\x1b[2J", "/\u009b2J", "/nul\x00byte", "/\u202egpj.exe",
        '/"},{"event":"fake"', "/\\u000a", "/" + "\n" * 3000, "/\u2028x\x7f\r"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_line_stays_one_line(weir, tmp_path, form):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\nlisten: {{http: \"unix:{tmp_path}/s\"}}\nlog: {{refused: {{per_second: 1000}}}}\n"
                      "limits: [{name: none, rate: 0/hour}]\n")
    with Quiet([weir, "serve", "-c", policy, "--log-format", form], tmp_path / "s", stderr=subprocess.PIPE) as daemon:
        for evil in EVIL:
            daemon.post([{"ip": "host", "method": f"GET{evil}", "path": evil}])
            daemon.post([{"ip": f"host{evil[1:]}"[:60]}], status=400)  # no name of a host: never in the log
        daemon.raw(b"GET /v1/auth HTTP/1.1\r\nHost: x\r\nX-Original-URI: /\xff\xfe\x80\r\n\r\n")
        daemon.process.send_signal(signal.SIGTERM)
        log = daemon.process.stderr.read()
    lines = log.decode().splitlines(keepends=True)  # valid UTF-8, and each end of line is one of ours
    assert all(line.endswith("\n") for line in lines)
    refused = [line for line in lines if ' refused ' in line or '"event":"refused"' in line]
    assert len(refused) == len(EVIL) + 1
    assert not set(log) & {*range(0x20), 0x7f} - {0x0a}
    assert not any(c in log.decode() for c in "\u009b\u202e\u2028")
    if form == "json":
        told = [json.loads(line) for line in refused]
        for entry, evil in zip(told, EVIL):
            assert entry["limit"] == "none" and "level=error" not in entry["level"]
            assert entry["path"] == evil[:512]
            assert entry["method"] == f"GET{evil}"[:32]


# ---- where nobody reads -------------------------------------------------------------------------


class Quiet:
    """A daemon on a unix socket, whose standard error is the test's own business."""

    def __init__(self, argv, path, **options):
        self.process = subprocess.Popen([str(a) for a in argv], **options)
        self.path = str(path)
        wait_for("the socket", self._is_there)

    def _is_there(self):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(self.path) == 0

    def raw(self, data):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(DEADLINE)
            s.connect(self.path)
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while chunk := s.recv(65536):
                got += chunk
            return got

    def post(self, questions, status=200):
        body = json.dumps(questions).encode()
        reply = self.raw(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head, _, body = reply.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status), reply
        return json.loads(body)

    def flood(self, count):
        """How many of |count| are refused."""
        return sum(a["verdict"] == "deny" for a in self.post([{"ip": "192.0.2.1"}] * count))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            assert self.process.wait(DEADLINE) == 0
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            if self.process.stderr is not None:
                self.process.stderr.close()


@pytest.fixture
def flooded(weir, tmp_path):
    """The policy of a flood, and where its door is."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\nlisten: {{http: \"unix:{tmp_path}/s\", threads: 1}}\n"
                      f"log: {{refused: {{per_second: 1000}}}}\nlimits: [{{name: a, by: [ip], {ONCE}}}]\n")
    return [weir, "serve", "-c", policy, "--log-format", "json"], tmp_path / "s"


def test_a_pipe_that_nobody_reads_holds_nobody_up(flooded):
    argv, path = flooded
    reading, writing = os.pipe()
    fcntl.fcntl(writing, 1031, 16384)  # F_SETPIPE_SZ: four pages
    with Quiet(argv, path, stderr=writing) as daemon:
        os.close(writing)
        refused = sum(daemon.flood(1000) for _ in range(20))
        assert refused == 20 * 1000 - 1
        got = b""  # and now somebody reads: what could not be written is there as a number
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            got += os.read(reading, 65536)
            all_events = [json.loads(line) for line in got.splitlines(keepends=True) if line.endswith(b"\n")]
            if sum(lines_and_suppressed(all_events)) == refused:
                break
        lines, suppressed = lines_and_suppressed(all_events)
        assert lines + suppressed == refused
        assert 0 < lines < 1000
        os.close(reading)  # a log that is gone is no reason to end, either
        assert daemon.flood(1000) == 1000


@pytest.mark.parametrize("where", ["a full disk", "nowhere"])
def test_a_log_that_cannot_be_written_harms_nothing(flooded, where):
    argv, path = flooded
    if where == "nowhere":
        argv = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *argv]
    with open("/dev/full", "wb") as full, Quiet(argv, path, stderr=full) as daemon:
        assert sum(daemon.flood(1000) for _ in range(3)) == 2999
        if where == "nowhere":  # no connection has got the number of a standard stream
            for fd in range(3):
                assert os.readlink(f"/proc/{daemon.process.pid}/fd/{fd}") == "/dev/null"
