"""Customers and the ledger in a running daemon: known from its first request on, what they use in SQLite to the unit,
through kill -9, damaged files, reloads and a second daemon."""
import json
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import threading
import urllib.request

import pytest

from http_door import Door
from serving import Daemon, wait_for

IDENTITY = "identity: {ip: {from: x-forwarded-for, trusted: [127.0.0.1]}, api_key: {header: X-Api-Key}}\n"
DAILY = "name: daily, by: [customer], quota: {limit: 1000000, per: day}"
ROSTER = """version: 1
customers:
  - {name: acme, plan: free, keys: [{identity: api_key, value: k-acme}]}
  - {name: globex, plan: pro, keys: [{identity: api_key, value: k-globex}]}
"""


def more(folder, plans="{free: {}, pro: {}}", extra=""):
    return (f"customers: {{directory: {folder}/state, file: {folder}/customers.yaml, room: 100, flush: 100ms{extra}}}\n"
            f"plans: {plans}\n")


@pytest.fixture
def make(weir, tmp_path):
    doors = []
    (tmp_path / "customers.yaml").write_text(ROSTER)

    def start(limits=(DAILY,), name="policy.yaml", **options):
        door = Door(weir, tmp_path / name, limits, IDENTITY, options.pop("more", more(tmp_path)),
                    "http: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 2", **options)
        doors.append(door)
        return door
    yield start
    for door in doors:
        door.close()


def rows(tmp_path, sql, state="state"):
    with sqlite3.connect(f"file:{tmp_path}/{state}/customers.db?mode=ro", uri=True) as db:
        return db.execute(sql).fetchall()


def used(tmp_path, state="state"):
    return dict(rows(tmp_path, "SELECT c.name, sum(u.used) FROM usage AS u JOIN customer AS c ON c.id = u.customer"
                               " GROUP BY c.name", state))


def admin(door, path):
    with urllib.request.urlopen("http://%s:%d%s" % (*door.daemon.address("admin"), path)) as reply:
        return reply.read().decode()


def series(door, name):
    return float(next(l for l in admin(door, "/metrics").splitlines() if l.startswith(name + " ")).split()[1])


def ask(door, key, **members):
    return door.check(headers={"X-Api-Key": key}, method="GET", path="/", **members)["verdict"]


def test_known_at_once_and_written_to_the_unit(make, tmp_path):
    door = make()
    assert [ask(door, "k-acme", cost=n) for n in (1, 2, 3)] == ["allow"] * 3
    ask(door, "k-globex")
    ask(door, "k-nobody")
    wait_for("the ledger", lambda: used(tmp_path) == {"acme": 6, "globex": 1})
    assert json.loads(admin(door, "/readyz"))["detail"] == "serving"
    assert series(door, "weir_ledger_up") == series(door, "weir_ledger_writer") == 1
    assert series(door, "weir_customers") == series(door, "weir_customer_keys") == 2
    ask(door, "k-acme", cost=100)
    assert door.end() == 0  # the end writes what is left
    assert used(tmp_path) == {"acme": 106, "globex": 1}
    assert rows(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert {who for who, in rows(tmp_path, "SELECT who FROM audit")} == {"file:customers.yaml"}


def test_limits_hold_over_a_restart(make, tmp_path):
    daily = "name: daily, by: [customer], quota: {limit: 3, per: week}"
    door = make([daily])
    assert [ask(door, "k-acme") for _ in range(4)] == ["allow"] * 3 + ["deny"]
    door.end()
    for path in (tmp_path / "state").glob("*.usage"):
        path.unlink()  # as a power loss takes what was in memory
    (tmp_path / "state" / "customers.map").unlink()
    door = make([daily])
    assert ask(door, "k-acme") == "deny"
    assert ask(door, "k-globex") == "allow"


def test_a_bad_file_of_customers_is_told_by_line(make, weir, tmp_path):
    door = make()
    (tmp_path / "customers.yaml").write_text(ROSTER + "  - {name: x, plan: gold}\n")
    door.daemon.signal(signal.SIGHUP)
    reason = door.daemon.event("reload refused, the old policy stays")["reason"]
    assert "customers.yaml:5:" in reason and "a plan of the policy" in reason
    assert ask(door, "k-acme") == "allow"
    failed = Daemon([weir, "serve", "-c", door.policy])
    assert failed.wait() == 1 and "customers.yaml:5:" in "".join(failed.raw)
    (tmp_path / "customers.yaml").write_text(ROSTER.replace("k-globex", "k-other"))
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded")
    wait_for("the new key", lambda: rows(tmp_path, "SELECT count(*) FROM key WHERE revoked IS NULL") == [(2,)] and
             rows(tmp_path, "SELECT count(*) FROM key") == [(3,)])
    ask(door, "k-other", cost=7)
    wait_for("its use", lambda: used(tmp_path).get("globex") == 7)


def test_a_policy_gets_customers_and_loses_them_by_reload(make, tmp_path):
    door = make(["name: per-ip, by: [ip], rate: 1000/second"], more="")
    assert not (tmp_path / "state").exists()
    assert series(door, "weir_ledger_up") == 0
    door.policy.write_text(door.text.replace("limits:\n", more(tmp_path) + "limits:\n") % f"  - {{{DAILY}}}\n")
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded")
    wait_for("the policy", lambda: json.loads(admin(door, "/readyz"))["generation"] == 2)
    wait_for("both loops have it", lambda: [door.ask("GET", "/v1/limits", fresh=True) and ask(door, "k-acme"),
                                             used(tmp_path)][1])
    assert series(door, "weir_ledger_up") == 1
    door.policy.write_text(door.text % "  - {name: per-ip, by: [ip], rate: 1000/second}\n")
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded", 2)
    assert series(door, "weir_ledger_up") == 0


def test_two_daemons_on_one_directory(make, tmp_path):
    first = make()
    second = make(name="second.yaml")
    assert second.daemon.event("another process keeps customers and ledger; this one decides by its files, and takes "
                               "over when it ends")
    ask(first, "k-acme", cost=5)
    ask(second, "k-acme", cost=7)
    wait_for("both in the ledger", lambda: used(tmp_path) == {"acme": 12})
    assert series(second, "weir_ledger_writer") == 0 and series(second, "weir_ledger_up") == 1
    first.end()
    second.daemon.event("this process keeps customers and ledger now")
    ask(second, "k-acme")
    wait_for("the second writes", lambda: used(tmp_path) == {"acme": 13})


def test_a_damaged_database_stops_no_decision(make, tmp_path):
    door = make()
    ask(door, "k-acme", cost=5)
    door.end()
    state = tmp_path / "state"
    good = (state / "customers.db").read_bytes()
    (state / "customers.db").write_bytes(good[:4096] + b"\x5a" * (len(good) - 4096))
    door = make()
    event = "the ledger cannot be written; decisions go on, what is used waits in the cells"
    detail = door.daemon.event(event)["detail"]
    assert "set aside" in detail and "weir customer recover" in detail
    assert ask(door, "k-acme", cost=2) == "allow"
    ready = json.loads(admin(door, "/readyz"))
    assert ready["ready"] and "the ledger cannot be written: corrupt" in ready["detail"]
    assert series(door, "weir_ledger_up") == 0
    assert series(door, 'weir_ledger_trouble{disk="corrupt"}') == 1
    wait_for("it goes on failing", lambda: series(door, "weir_ledger_failures_total") > 1)
    aside, = state.glob("customers.db.corrupt-*")
    assert aside.read_bytes()[4096:8192] == b"\x5a" * 4096
    assert not (state / "customers.db").exists()
    (state / "copy").write_bytes(good)
    (state / "copy").rename(state / "customers.db")
    door.daemon.event("the ledger is written again")
    wait_for("nothing is lost", lambda: used(tmp_path) == {"acme": 7})
    assert len([e for e in door.daemon.events if e["event"] == event]) == 1
    assert series(door, "weir_ledger_up") == 1


class Caller(threading.Thread):
    """Asks without a pause, and counts what was answered, and what was asked and not answered."""

    def __init__(self, door, key):
        super().__init__(daemon=True)
        self.door, self.key, self.allowed, self.unanswered, self.over = door, key, 0, 0, False

    def run(self):
        import http.client
        connection = None
        body = json.dumps({"ip": "192.0.2.1", "method": "GET", "path": "/", "headers": {"X-Api-Key": self.key}})
        while not self.over:
            try:
                if connection is None:
                    connection = http.client.HTTPConnection(*self.door().address, timeout=20)
                    connection.connect()
            except OSError:
                connection = None
                continue
            try:
                connection.request("POST", "/v1/check", body)
                answer = connection.getresponse()
                told = json.loads(answer.read())
                if answer.status == 404:  # the next daemon's admin door, at the port that this door had
                    connection = None
                else:
                    self.allowed += told["verdict"] == "allow"
            except (OSError, http.client.HTTPException):
                self.unanswered += 1
                connection = None


def test_kill_9_loses_nothing_that_was_answered(make, tmp_path):
    """What was answered is in the ledger; what was not may be, once."""
    doors = [make()]
    callers = [Caller(lambda: doors[-1], key) for key in ("k-acme", "k-globex")]
    for caller in callers:
        caller.start()
    for _ in range(100):
        seen = [c.allowed for c in callers]
        wait_for("some answers", lambda: all(c.allowed > s + 20 for c, s in zip(callers, seen)))
        doors[-1].daemon.process.kill()
        doors[-1].daemon.wait()
        doors.append(make())
    for caller in callers:
        caller.over = True
        caller.join(60)
    doors[-1].end()
    found = used(tmp_path)
    for caller, name in zip(callers, ("acme", "globex")):
        assert caller.allowed <= found[name] <= caller.allowed + caller.unanswered
    assert rows(tmp_path, "PRAGMA integrity_check") == [("ok",)]


def test_a_disk_in_memory_is_warned_of(weir, tmp_path):
    shm = pathlib.Path("/dev/shm")
    if not shm.is_dir():
        pytest.skip("there is no /dev/shm")
    policy = tmp_path / "policy.yaml"
    (tmp_path / "customers.yaml").write_text(ROSTER)
    policy.write_text(f"version: 1\n{IDENTITY}customers: {{directory: /dev/shm/weir-none, file: customers.yaml}}\n"
                      f"plans: {{free: {{}}, pro: {{}}}}\nlimits: [{{{DAILY}}}]\n")
    checked = subprocess.run([weir, "check", policy], capture_output=True, text=True)
    assert checked.returncode == 0
    assert ":3:24: warning: directory: /dev/shm/weir-none is on a disk in memory" in checked.stdout + checked.stderr


def test_a_lost_database_is_begun_anew_only_when_asked_to(make, weir, tmp_path):
    door = make()
    ask(door, "k-acme", cost=5)
    door.end()
    for path in (tmp_path / "state").glob("customers.db*"):
        path.unlink()

    def customer(*arguments):
        return subprocess.run([weir, "customer", "-c", door.policy, *arguments], capture_output=True, text=True)
    refused = customer("create", "new", "--plan", "free")
    assert refused.returncode == 1 and "weir customer recover" in refused.stderr
    assert not (tmp_path / "state" / "customers.db").exists()
    (tmp_path / "customers.yaml").write_text("version: 1\ncustomers: []\n")
    door = make()
    door.daemon.event("the ledger cannot be written; decisions go on, what is used waits in the cells")
    assert ask(door, "k-acme", cost=2) == "allow"
    assert customer("recover").returncode == 0
    door.daemon.event("the ledger is written again")
    wait_for("all of it", lambda: sorted(used(tmp_path).values()) == [7])
    assert ask(door, "k-acme") == "allow"
    refused = customer("create", "other", "--plan", "pro", "--value", "k-acme")
    assert "this key leads to recovered-" in refused.stderr and "by the name that it had" in refused.stderr
    made = customer("create", "acme", "--plan", "pro", "--value", "k-acme")  # with the key that it has
    assert made.returncode == 0, made.stderr
    assert "  api_key ..." in customer("show", "acme").stdout
    assert "acme has this key already" in customer("key-add", "acme", "--value", "k-acme").stderr
    wait_for("by his name", lambda: used(tmp_path) == {"acme": 8})
    assert customer("recover").returncode == 1


def test_an_upgrade_is_recorded_and_lasts(make, tmp_path):
    plans = "{free: {quotas: {daily: 3}, upgrade_to: pro}, pro: {quotas: {daily: {limit: 5, on_exceed: deny}}}}"
    options = {"more": more(tmp_path, plans)}
    limits = ["name: daily, by: [customer], quota: {limit: 5, per: week, on_exceed: upgrade}"]
    door = make(limits, **options)
    assert [ask(door, "k-acme") for _ in range(6)] == ["allow"] * 5 + ["deny"]
    wait_for("the record", lambda: rows(tmp_path, "SELECT who, before, after, reason FROM audit WHERE what = 'plan'")
             == [("weir", "free", "pro", "a quota was used up")])
    assert rows(tmp_path, "SELECT plan FROM customer WHERE name = 'acme'") == [("pro",)]
    wait_for("its metric", lambda: series(door, "weir_customer_upgrades_total") == 1)
    door.daemon.signal(signal.SIGHUP)  # the file still says free, as it did
    door.daemon.event("reloaded")
    door.end()
    assert rows(tmp_path, "SELECT plan FROM customer WHERE name = 'acme'") == [("pro",)]
    assert used(tmp_path) == {"acme": 5}


def test_an_older_copy_bills_nobody_for_another(make, weir, tmp_path):
    """The copy does not know of a customer that has been counted; who is made next has cells of its own."""
    def customer(*arguments):
        subprocess.run([weir, "customer", "-c", door.policy, *arguments], capture_output=True, check=True)
    state = tmp_path / "state"
    door = make()
    door.end()
    shutil.copy(state / "customers.db", tmp_path / "copy.db")
    door = make()
    customer("create", "gone", "--plan", "free", "--value", "k-gone")
    wait_for("his key", lambda: ask(door, "k-gone") == "allow" and used(tmp_path).get("gone"))
    customer("end", "gone")
    door.end()
    for path in state.glob("customers.db*"):
        path.unlink()
    shutil.copy(tmp_path / "copy.db", state / "customers.db")
    door = make()
    customer("create", "new", "--plan", "free", "--value", "k-new")
    asked = []
    wait_for("his key", lambda: asked.append(ask(door, "k-new")) is None and used(tmp_path).get("new"))
    door.end()
    assert 1 <= used(tmp_path)["new"] <= len(asked)
