"""Bans at run time: by the admin door and by `weir ban`, obeyed by nginx, the daemon and libweir's users at once,
through restarts, reloads and kills."""
import json
import re
import signal
import subprocess
import time

import pytest

from admin_door import Admin
from gateway import BUILD, gateway  # noqa: F401 (a fixture)
from http_door import TRUSTED

LIMITS = ["name: api, by: [ip], rate: 1000/hour, algorithm: token-bucket"]
ANSWERS = "answers: {ban_status: 403}\n"
ME = "203.0.113.5"


@pytest.fixture
def nginx(gateway):  # noqa: F811
    """nginx with two workers, whose arena a daemon may share."""
    return gateway(f"{TRUSTED}{ANSWERS}limits:\n  - {{{LIMITS[0]}}}\n", workers=2)


class Shared(Admin):
    """A daemon on nginx's arena."""

    def __init__(self, weir, path, arena, **options):
        self.arena = arena
        super().__init__(weir, path, LIMITS, more=ANSWERS, **options)

    def write(self, limits):
        self.text = self.text.replace("arena: {size: 4MiB}", f"arena: {{path: {self.arena}, size: 4MiB}}")
        super().write(limits)


@pytest.fixture
def shared(weir, nginx, tmp_path):
    made = []

    def start():
        made.append(Shared(weir, tmp_path / "policy.yaml", nginx.arena))
        return made[-1]
    yield start
    for door in made:
        door.close()


def status(nginx, ip=ME, key=None):
    headers = {"X-Forwarded-For": ip, **({"X-Api-Key": key} if key else {})}
    # each request of its own connection: both workers are asked in time
    return [nginx.get("/", headers=headers).status for _ in range(6)]


def command(*arguments, value=None):
    return subprocess.run([BUILD / "weir", *map(str, arguments)], capture_output=True, text=True, timeout=60, input=value)


def ban(door, **order):
    reply = door.admin("POST", "/v1/bans", order)
    assert reply.status == 200, reply.body
    return reply.json()


def test_a_ban_by_the_admin_door_is_obeyed_by_nginx_at_once(nginx, shared):
    door = shared()
    assert status(nginx) == [200] * 6
    made = ban(door, ip="203.0.113.0/24", **{"for": "1h"}, reason="scraping")
    assert status(nginx) == [403] * 6
    answer = nginx.get("/", headers={"X-Forwarded-For": ME})
    assert 3500 <= int(answer.one("Retry-After")) <= 3600 and answer.one("Cache-Control") == "no-store"
    assert json.loads(answer.body)["error"] == "banned"
    assert status(nginx, "203.0.114.5") == [200] * 6
    assert door.check(ip=ME)["reason"] == "banned"
    assert door.admin("POST", "/v1/explain", {"ip": ME}).json()["client"]["banned"] is True
    assert door.admin("DELETE", f"/v1/bans?id={made['id']}").json() == {"lifted": True}
    assert status(nginx) == [200] * 6
    assert door.check(ip=ME)["verdict"] == "allow"


def test_everyone_is_banned_only_by_name(nginx, shared):
    door = shared()
    for everyone in "0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96":
        reply = door.admin("POST", "/v1/bans", {"ip": everyone})
        assert (reply.status, reply.json()["member"]) == (400, "confirm")
        done = command("ban", "-c", door.policy, "--ip", everyone)
        assert done.returncode == 1 and "--everyone" in done.stderr
    assert door.admin("POST", "/v1/bans", {"ip": "0.0.0.0/0", "confirm": "yes"}).status == 400
    assert door.check(ip=ME)["reason"] is None
    ban(door, ip="0.0.0.0/0", confirm="everyone", **{"for": "1h"})
    assert door.check(ip=ME)["reason"] == "banned"
    assert command("ban", "-c", door.policy, "--everyone", "--ip", "::/0").returncode == 0


def test_a_banned_key_is_obeyed_and_written_nowhere(nginx, shared):
    door = shared()
    key = "k_very_s3cret_indeed"
    ban(door, api_key=key, reason="ticket 7")
    assert status(nginx, key=key) == [403] * 6
    assert nginx.get("/", headers={"X-Forwarded-For": ME, "X-Api-Key": key}).all("Retry-After") == []
    assert status(nginx, key="another") == [200] * 6
    listed = door.admin("GET", "/v1/bans")
    assert [(b["identity"], b["value"], b["reason"]) for b in listed.json()["bans"]] == [("api_key", None, "ticket 7")]
    assert key not in listed.body.decode() and key.encode() not in nginx.arena.read_bytes()
    assert door.admin("DELETE", f"/v1/bans?by=api_key:{key}").status == 200
    assert status(nginx, key=key) == [200] * 6
    assert [e for e in door.daemon.events if e["event"] == "banned"] and key not in "".join(door.daemon.raw)


def test_bans_survive_restarts_reloads_and_kills(nginx, shared):
    door = shared()
    ban(door, ip=ME)
    ban(door, ip="203.0.113.6", **{"for": "1h"})
    door.daemon.process.kill()
    door.daemon.wait()
    assert status(nginx) == [403] * 6  # without a daemon
    nginx.set_policy(f"{TRUSTED}{ANSWERS}limits:\n  - {{{LIMITS[0].replace('1000', '900')}}}\n")
    nginx.reload()
    assert status(nginx) == [403] * 6
    nginx.stop()
    nginx.start()
    assert status(nginx) == [403] * 6 and status(nginx, "203.0.113.6") == [403] * 6
    door = shared()
    assert door.check(ip=ME)["reason"] == "banned"
    door.write([LIMITS[0].replace("1000", "800")])
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded")
    assert door.check(ip=ME)["reason"] == "banned"
    assert len(door.get("/v1/bans")["bans"]) == 2


def test_bans_by_an_identity_that_goes_are_warned_of(weir, tmp_path):
    """They stay listed and hold nobody, at a reload as at the next start."""
    door = Admin(weir, tmp_path / "policy.yaml", LIMITS)
    try:
        for value in ("bob", "eve"):
            assert door.admin("POST", "/v1/bans", {"api_key": value, "for": "1h"}).status == 200
        door.admin("POST", "/v1/bans", {"ip": "192.0.2.1", "for": "1h"})
        text = door.policy.read_text()
        door.policy.write_text(text.replace("api_key:", "key_of_api:"))
        door.daemon.signal(signal.SIGHUP)
        door.daemon.event("reloaded")
        warned = door.daemon.event("bans hold nobody")
        assert (warned["identity"], warned["bans"]) == ("api_key", 2)
        door.policy.write_text(text)
        door.daemon.signal(signal.SIGHUP)
        door.daemon.event("reloaded", 2)
        assert len([e for e in door.daemon.events if e["event"] == "bans hold nobody"]) == 1
    finally:
        door.close()


def test_a_ban_ends_by_itself(nginx, shared):
    door = shared()
    ban(door, ip=ME, **{"for": "2s"})
    assert 403 in status(nginx)
    end = time.monotonic() + 30
    while nginx.get("/", headers={"X-Forwarded-For": ME}).status == 403:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert door.get("/v1/bans")["bans"] == []


def test_the_table_can_be_full(shared):
    door = shared()  # 4 MiB: 512 records
    room = door.get("/v1/bans")["room"]
    assert room == 510
    for i in range(room):
        ban(door, ip=f"198.51.{i // 256}.{i % 256}")
    assert door.get("/v1/bans")["room"] == 0
    reply = door.admin("POST", "/v1/bans", {"ip": ME})
    assert reply.status == 503 and "full" in reply.json()["detail"]
    assert door.check(ip=ME)["verdict"] == "allow"
    assert door.check(ip="198.51.1.253")["reason"] == "banned"
    assert ban(door, ip="198.51.0.7", reason="again")["reason"] == "again"  # one that is there can be changed


# ---- the command line, without a daemon ----------------------------------------------------------

def test_the_command(nginx):
    policy = nginx.policy_file
    done = command("ban", "-c", policy, "--ip", "203.0.113.0/24", "--for", "1h", "--reason", "scraping")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[0-9a-f]{16}  \S+Z +\S+Z +ip 203\.0\.113\.0/24  scraping\n", done.stdout)
    assert status(nginx) == [403] * 6
    done = command("ban", "-c", policy, "--identity", "api_key=-", value="k_from_stdin\nmore\n")
    assert done.returncode == 0 and "for ever" in done.stdout and "k_from" not in done.stdout
    assert status(nginx, "192.0.2.1", key="k_from_stdin") == [403] * 6
    listed = command("ban", "-c", policy, "--list")
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["api_key", "scraping"]
    report = json.loads(command("ban", "-c", policy, "--list", "--json").stdout)
    assert [b["value"] for b in report["bans"]] == [None, "203.0.113.0/24"] and report["room"] == 508
    said = json.loads(command("arena", "--json", nginx.arena).stdout)
    assert (said["sound"], said["bans"], said["bans_room"]) == (True, 2, 510)
    assert "bans: 2 of 510" in command("arena", nginx.arena).stdout
    assert command("unban", "-c", policy, "--ip", "203.0.113.0/24").returncode == 0
    assert status(nginx) == [200] * 6
    done = command("unban", "-c", policy, "--ip", "203.0.113.0/24")
    assert (done.returncode, done.stderr) == (1, "weir unban: there is no such ban\n")
    assert command("unban", "-c", policy, "--id", report["bans"][0]["id"]).returncode == 0
    assert status(nginx, "192.0.2.1", key="k_from_stdin") == [200] * 6
    for i in range(3):
        assert command("ban", "-c", policy, "--ip", f"192.0.2.{i}", "--until", "2199-01-01T00:00:00Z").returncode == 0
    assert command("unban", "-c", policy, "--all").returncode == 0
    assert command("ban", "-c", policy, "--list").stdout == ""


@pytest.mark.parametrize("arguments, code, says", [
    (["--ip", "203.0.113.5/24"], 1, "bits set behind its prefix"),
    (["--ip", "example.com"], 1, "expected an address or a network"),
    (["--identity", "session=x"], 1, "the policy has no identity of this name"),
    (["--identity", "api_key="], 1, "expected a value to ban"),
    (["--identity", "api_key"], 2, "expected NAME=VALUE"),
    (["--ip", ME, "--for", "soon"], 1, "--for: expected a duration"),
    (["--ip", ME, "--until", "2020-01-01T00:00:00Z"], 1, "--until: expected a moment that is yet to come"),
    (["--ip", ME, "--reason", "x" * 121], 1, "at most 120 bytes"),
    (["--ip", ME, "--reason", "a\x1b[0m"], 1, "without control characters"),
    (["--ip", ME, "--for", "1h", "--until", "2199-01-01T00:00:00Z"], 2, "usage"),
    (["--ip", ME, "--identity", "api_key=x"], 2, "usage"),
    (["--ip", ME, "--list"], 2, "usage"),
    ([], 2, "usage"),
])
def test_what_the_command_refuses(nginx, arguments, code, says):
    done = command("ban", "-c", nginx.policy_file, *arguments)
    assert done.returncode == code and says in done.stderr, done.stderr
    assert command("ban", "-c", nginx.policy_file, "--list").stdout == ""


def test_an_arena_that_is_not_there(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nlimits: [{name: x, rate: 1/hour}]\n")
    done = command("ban", "-c", policy, "--list")
    assert done.returncode == 1 and "names no arena: give --arena FILE" in done.stderr
    done = command("ban", "-c", policy, "--arena", tmp_path / "none", "--list")
    assert done.returncode == 1 and "there is no such file" in done.stderr and not (tmp_path / "none").exists()
    done = command("ban", "-c", tmp_path / "none.yaml", "--list")
    assert done.returncode == 1 and "none.yaml" in done.stderr
