"""Customers by the command line and the admin door, what they used, and what a caller is told of itself. free has 10 a
day; pro 100, and 20 more as overage."""
import contextlib
import csv
import hashlib
import io
import json
import re
import signal
import sqlite3
import subprocess

import pytest

from customers import POLICY, Shop
from openapi import Described
from serving import Daemon, wait_for


@pytest.fixture
def shop(weir, tmp_path):
    made = Shop(weir, tmp_path)
    yield made
    made.close()


def test_a_customer_from_its_making_to_its_end(shop):
    key = shop.customer("create", "acme", "--plan", "free", "--key", "--prefix", "k_", "--reason", "signed").strip()
    assert re.fullmatch(r"k_[0-9A-Za-z]{40,}", key)
    shop.knows(key, "free")
    assert shop.get(key, cost=10)["verdict"] == "allow"
    refused = shop.get(key)
    assert (refused["verdict"], refused["limit"], refused["remaining"]) == ("deny", "daily", 0)
    shop.customer("set", "acme", "--plan", "pro", "--reason", "paid")
    shop.knows(key, "pro")
    assert shop.get(key, cost=90)["verdict"] == "allow"  # 10 are used: the window goes on
    assert shop.get(key, cost=15)["verdict"] == "allow"
    assert shop.get(key, cost=6)["verdict"] == "deny"  # 115 and 6 are above the ceiling
    standing = shop.used("acme", 115)
    assert (standing["over"], standing["limit"], standing["remaining"], standing["on_exceed"]) == (15, 100, 0, "overage")
    assert standing["zone"] == "Europe/Istanbul" and standing["resets_at"].endswith("T21:00:00Z")
    shop.customer("end", "acme", "--reason", "left")
    wait_for("it is none any more", lambda: shop.get(key, cost=0)["plan"] != "pro")
    assert shop.get(key)["limit"] == "per-ip"
    log = shop.customer("log", "acme")
    for part in ("create", "signed", "free -> pro", "paid", "left"):
        assert part in log
    assert shop.standing("acme")["used"] == 115  # what was used is still to be billed


def test_the_log_says_what_a_customer_is_made_with(shop):
    shop.customer("create", "acme", "--plan", "free", "--tenant", "t", "--anchor", "15", "--partner", "yes",
                  "--trial", "pro", "--for", "14d")
    assert "free, tenant t, anchor 15, partner, trial pro until 20" in shop.customer("log", "acme")


def test_a_key_that_is_taken_makes_no_customer(shop):
    shop.customer("create", "acme", "--plan", "free", "--value", "k-1")
    with pytest.raises(AssertionError):
        shop.customer("create", "other", "--plan", "free", "--value", "k-1")
    assert "acme" in shop.customer("list") and "other" not in shop.customer("list")


def test_many_keys_are_one_customer(shop):
    first = shop.customer("create", "acme", "--plan", "free", "--key").strip()
    second = shop.customer("key-add", "acme").strip()
    shop.customer("key-add", "acme", "--identity", "user", "--value", "-", value="alice\n")
    shop.knows("alice", "free", header="X-User")
    shop.knows(second, "free")
    assert shop.get(first, cost=5)["verdict"] == shop.get(second, cost=4)["verdict"] == "allow"
    assert shop.get("alice", header="X-User")["verdict"] == "allow"
    assert shop.get(second)["verdict"] == "deny"
    key = re.search(r"key ([0-9a-f]{16})  api_key", shop.customer("show", "acme")).group(1)
    shop.customer("key-revoke", "acme", key[:6])
    wait_for("it leads nowhere", lambda: shop.get(first, cost=0)["plan"] != "free")
    shop.knows(second, "free")


def test_no_key_is_kept_in_clear(shop):
    key = shop.customer("create", "acme", "--plan", "free", "--key").strip()
    shop.knows(key, "free")
    shop.get(key)
    shop.used("acme", 1)
    for path in (shop.folder / "customers").iterdir():
        assert key.encode() not in path.read_bytes(), path
    assert key not in "".join(shop.daemon.raw)


def test_trials_end_by_themselves(shop):
    key = shop.customer("create", "acme", "--plan", "free", "--trial", "pro", "--for", "3s", "--key").strip()
    shop.knows(key, "pro")
    shop.knows(key, "free")
    wait_for("the end is in the log", lambda: "trial" in shop.customer("log", "acme"))


def test_suspended(shop):
    key = shop.customer("create", "acme", "--plan", "free", "--key").strip()
    shop.knows(key, "free")
    shop.customer("set", "acme", "--suspended", "yes")
    wait_for("it is suspended", lambda: shop.get(key, cost=0)["reason"] == "banned")
    shop.customer("set", "acme", "--suspended", "no")
    shop.knows(key, "free")


def test_reports(shop):
    for name, cost in (("acme", 112), ("=beta, \"b\"", 40)):
        key = shop.customer("create", name, "--plan", "pro", "--tenant", "t", "--key").strip()
        shop.knows(key, "pro")
        shop.get(key, cost=cost)
        shop.used(name, cost)
    rows = list(csv.DictReader(io.StringIO(shop.command("usage", "--windows", "--csv"))))
    assert [(r["customer"], r["quota"], r["used"], r["over"], r["tenant"], r["plan_now"]) for r in rows] == [
        ("'=beta, \"b\"", "daily", "40", "0", "t", "pro"), ("acme", "daily", "112", "12", "t", "pro")]
    day = rows[0]["date"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    over = shop.usage("--over", "--month", day[:7])["usage"]
    assert [(line["customer"], line["over"]) for line in over] == [("acme", 12)]
    for row in rows:  # a day of now
        assert row["last_day"] == row["date"] and row["closed"] == "no"
    assert f"open until {day} is over" in shop.command("usage", "--over")
    assert [line["customer"] for line in shop.usage("--top", "1")["usage"]] == ["acme"]
    assert sum(line["used"] for line in shop.usage("--from", day, "--to", day)["usage"]) == 152
    assert shop.usage("--from", "2020-01-01", "--to", "2020-01-31")["usage"] == []
    assert shop.usage("--verify") == {"windows": 2, "customers": 2, "nodes": 1, "used": 152, "over": 12, "not_flushed": 0, "wrong": 0}
    said = shop.command("usage", "--verify", shop.folder / "customers" / "customers.db", status=1)
    assert "customers.db: it is of node " in said and "the same database, or a copy" in said


@pytest.mark.parametrize("spell", [str, str.upper, lambda digits: digits[:32]])
def test_hash_of_a_key(shop, spell):
    digits = hashlib.sha256(b"\7\0\0\0api_keyhello").hexdigest()
    for _ in range(3):
        assert shop.customer("hash", "--value", "hello") == f"{{identity: api_key, sha256: {digits}}}\n"
    keys = f"[{{identity: api_key, sha256: {spell(digits)}}}]"
    (shop.folder / "customers.yaml").write_text(f"version: 1\ncustomers: [{{name: acme, plan: pro, keys: {keys}}}]\n")
    shop.policy.write_text(shop.policy.read_text().replace("directory: customers", "directory: customers, file: customers.yaml"))
    shop.daemon.signal(signal.SIGHUP)
    shop.daemon.event("reloaded")
    shop.knows("hello", "pro")


def test_hash_before_there_is_a_database(weir, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nidentity: {api_key: {header: X-Api-Key}}\ncustomers: {directory: c}\n"
                      "limits: [{name: a, by: [customer], rate: 1/s}]\n")
    done = subprocess.run([weir, "customer", "-c", policy, "hash", "--value", "-"], capture_output=True, text=True,
                          timeout=60, input="hello\n")
    assert done.stdout.startswith("{identity: api_key, sha256: "), done.stderr
    assert not (tmp_path / "c").exists()


def test_an_anchor_and_a_trial_come_and_go(shop):
    def now():
        return json.loads(shop.customer("show", "acme", "--json"))["customer"]

    shop.customer("create", "acme", "--plan", "free", "--anchor", "15", "--trial", "pro", "--until", "2099-12-31")
    assert (now()["anchor"], now()["trial_until"]) == (15, "2100-01-01T00:00:00Z")  # that day is included
    shop.customer("set", "acme", "--anchor", "none", "--trial", "-")
    assert (now()["anchor"], now()["trial_until"]) == (None, None)
    assert "anchor  15 -> -" in shop.customer("log", "acme")
    shop.admin("PATCH", "/v1/customers?name=acme", {"anchor": 31, "trial_plan": "pro", "trial_until": "2099-11-30"})
    assert (now()["anchor"], now()["trial_until"]) == (31, "2099-12-01T00:00:00Z")
    described(shop.admin("PATCH", "/v1/customers?name=acme", {"anchor": None}), "/v1/customers", "patch")
    assert now()["anchor"] is None


def test_a_plan_that_the_policy_has_not_any_more(shop):
    key = shop.customer("create", "acme", "--plan", "pro", "--key").strip()
    shop.knows(key, "pro")
    shop.policy.write_text(shop.policy.read_text().replace("  pro:", "  team:"))
    shop.daemon.signal(signal.SIGHUP)
    said = shop.daemon.event("customers have a plan that is none")
    assert said["detail"] == "pro: 1 customers; the policy has no such plan, so the limits of default hold"
    assert "pro is not in the policy: default's limits hold" in shop.customer("list")
    assert "pro is not in the policy: default's limits hold" in shop.command("usage", "acme")
    customer = described(shop.admin("GET", "/v1/customers?name=acme"), "/v1/customers", "get")["customer"]
    assert (customer["plan_now"], customer["limits_of"]) == ("pro", "default")
    own = shop.ask("GET", "/v1/usage", headers={"X-Api-Key": key}).json()
    assert (own["plan"], own["limits_of"], own["quotas"][0]["limit"]) == ("pro", "default", 10)


BAD = [
    (["create", "acme", "--plan", "gold"], "a plan of the policy"), (["create", " "], "name"),
    (["create", "acme", "--anchor", "32"], "1 to 31"), (["list", "--plan", "nope"], 'there is no plan "nope"'),
    (["list", "--tenant", "nope"], 'no customer of a tenant called "nope"'),
    (["create", "acme", "--trial", "pro", "--for", "soon"], "duration"), (["set", "nobody", "--plan", "pro"], "no such customer"),
    (["set", "there", "--partner", "maybe"], "yes or no"), (["create", "there"], "already"),
    (["create", "acme", "--trial", "pro", "--until", "2020-01-01T00:00:00Z"], "to come"),
    (["key-revoke", "there", "ffffffff"], "no such"), (["key-add", "there", "--identity", "ip"], "customers.by"),
    (["key-add", "there", "--value", ""], "key"), (["key-add", "there", "--prefix", "a b"], "prefix"),
]


def test_bad_orders(shop):
    shop.customer("create", "there")
    for arguments, said in BAD:
        assert said in shop.customer(*arguments, status=1), arguments
    for arguments in ([], ["frobnicate"], ["list", "--frob"]):
        assert "usage: weir customer" in shop.customer(*arguments, status=2)
    assert "weir customer: unrecognized option" in shop.customer("list", "--frob", status=2)


NOT_TAKEN = [  # what is neither obeyed nor passed over in silence
    (["create", "y", "z", "--plan", "free"], 'create: expected one NAME, found also "z"'), (["show"], "expected one NAME, found none"),
    (["show", "a", "b", "c"], 'found also "c"'), (["recover", "x"], 'recover: expected no word, found also "x"'),
    (["list", "there"], 'list: expected no word'), (["log", "there", "b"], "at most one NAME"),
    (["key-revoke", "there"], "expected one NAME and the ID of a key, found the NAME alone"), (["hash"], "--value"),
    (["set", "there", "--key"], "set takes no --key; it takes --plan, --tenant, --anchor, --partner, --suspended, --trial, --until, "
     "--for, --reason, --who, --json"),
    (["resume", "there", "--plan", "free"], "resume takes no --plan; it takes --reason, --who"),
    (["recover", "--json"], "recover takes no --json"), (["show", "there", "--all"], "show takes no --all; it takes --json"),
    (["create", "y", "--json"], "create takes no --json"), (["set", "there", "--trial", "-", "--for", "1d"], "--trial - ends"),
    (["create", "y", "--plan", "pro", "--plan", "free"], "weir customer: --plan: given twice"), (["set", "there"], "something to set"),
    (["create", "y", "--trial", "pro"], "--until"), (["create", "y", "--trial", "pro", "--for", "1d", "--until", "2099-01-01"], "one of"),
    (["set", "there", "--for", "1d"], "expected --trial PLAN"), (["create", "y", "--key", "--value", "v"], "one of --key"),
    (["create", "y", "--prefix", "k_"], "expected --key beside it"), (["key-add", "there", "--value", "v", "--prefix", "k_"], "--prefix"),
]


def test_what_an_action_does_not_take(shop):
    shop.customer("create", "there", "--plan", "pro")
    before = shop.customer("show", "there"), shop.customer("list", "--all")
    for arguments, said in NOT_TAKEN:
        told = shop.customer(*arguments, status=2)
        assert said in told and (len(told.splitlines()) == 1), arguments
    assert (shop.customer("show", "there"), shop.customer("list", "--all")) == before


BAD_REPORTS = [  # and the exit status
    (["--month", "2026-13"], 2, '--month: expected a month such as 2026-11, found "2026-13"'),
    (["--from", "2026-02-30"], 2, '--from: expected a day such as'), (["--to", "soon"], 2, '--to: expected a day'),
    (["--top", "0"], 2, '--top: expected how many customers'), (["--top", "x"], 2, 'found "x"'),
    (["--days", "--windows"], 2, "expected one of --days"), (["a", "b"], 2, "expected one NAME"),
    (["--from", "2026-11-30", "--to", "2026-11-01"], 2, "--from before --to"), (["nobody"], 1, "no such customer"),
    (["--quota", "nope"], 1, 'no quota by customer called "nope"'), (["--quota", "per-ip"], 1, "no quota by customer"),
    (["--tenant", "nope"], 1, 'no customer of a tenant called "nope"'),
    (["--verify", "nofile"], 1, "nofile: there is no such file\n"),
    (["--month", "2026-11", "--from", "2026-11-03"], 2, "--month, or --from and --to"), (["--csv", "--json"], 2, "--csv and --json"),
    (["--month", "2026-11", "--month", "2026-12"], 2, "--month: given twice"), (["--verify", "--month", "2026-11"], 2, "--verify looks"),
    (["--verify", "--csv"], 2, "--verify looks"), (["--verify", "--quota", "daily"], 2, "--verify looks"),
    (["a", "--tenant", "t"], 2, "or --tenant, found both"), (["--verify", "--tenant", "t"], 2, "--verify looks"),
]


def test_bad_reports(shop):
    """Each says what is wrong, and nothing else."""
    for arguments, status, said in BAD_REPORTS:
        told = shop.command("usage", *arguments, status=status)
        assert said in told and len(told.splitlines()) == 1, arguments
    done = subprocess.run([shop.weir, "usage", "-c", shop.policy, "--verify", "nofile"], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("NOT VERIFIED: ")
    assert "weir usage: unrecognized option" in shop.command("usage", "--frob", status=2)
    assert 'weir alerts: --state: expected claiming, ' in shop.command("alerts", "list", "--state", "frob", status=2)
    assert shop.command("usage", "--quota", "daily") == ""
    for command, *arguments in (["alerts", "retry", "--all", "--json"], ["ban", "--list", "--reason", "r"], ["ban", "--list", "--for", "1h"],
                                ["ban", "--ip", "192.0.2.1", "--reason", "a", "--reason", "b"], ["unban", "--all", "--json"]):
        shop.command(command, *arguments, status=2)


def test_a_damaged_database_is_said_once(shop):
    shop.customer("create", "acme")
    copy = shop.folder / "copy.db"
    with contextlib.closing(sqlite3.connect(shop.folder / "customers" / "customers.db")) as source, \
            contextlib.closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        [page] = target.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'usage'").fetchone()
        size = target.execute("PRAGMA page_size").fetchone()[0]
    damaged = bytearray(copy.read_bytes())
    damaged[(page - 1) * size:(page - 1) * size + 16] = bytes(16)
    copy.write_bytes(damaged)
    told = shop.command("usage", "--verify", copy, status=1)
    assert told.count("copy.db: it is damaged: ") == 1 == len(told.splitlines()) and "***" not in told, told


def test_no_room(shop):
    """The map stays as large as it was made: what it has no room for is refused, and nothing of it written."""
    shop.end()
    for path in (shop.folder / "customers").iterdir():
        path.unlink()
    text = shop.policy.read_text()
    shop.policy.write_text(text.replace("room: 1000", "room: 2"))
    shop.daemon = Daemon([shop.weir, "serve", "-c", shop.policy, "--log-format", "json"]).ready()
    shop.customer("create", "a")
    shop.customer("create", "b")
    shop.policy.write_text(text)
    shop.end()
    shop.daemon = Daemon([shop.weir, "serve", "-c", shop.policy, "--log-format", "json"]).ready()
    assert "room for 2: raise customers.room" in shop.customer("create", "c", "--key", status=1)
    refused = shop.admin("POST", "/v1/customers", {"name": "c", "plan": "free"})
    assert refused.status == 507 and b"room for 2" in refused.body
    assert refused.json()["title"] == "Insufficient Storage" and refused.json()["detail"].endswith("made anew from the database")
    for i in range(6):  # three keys for each place
        shop.customer("key-add", "a", "--value", f"key-{i}")
    assert "no room for another key" in shop.customer("key-add", "a", status=1)
    assert "no room for another key" in shop.customer("key-add", "b", "--value", "key-7", status=1)
    refused = shop.admin("POST", "/v1/customers/keys?name=b", {"value": "key-7"})
    assert refused.status == 507
    described(refused, "/v1/customers/keys", "post")
    known = json.loads(shop.customer("list", "--json"))["customers"]
    assert sorted(customer["name"] for customer in known) == ["a", "b"]
    assert json.loads(shop.customer("show", "b", "--json"))["keys"] == []


def test_no_room_for_what_a_file_says(shop):
    shop.end()
    for path in (shop.folder / "customers").iterdir():
        path.unlink()
    keys = ", ".join(f"{{identity: api_key, value: k-{i}}}" for i in range(4))
    (shop.folder / "customers.yaml").write_text(f"version: 1\ncustomers: [{{name: a, plan: pro, keys: [{keys}]}}]\n")
    shop.policy.write_text(shop.policy.read_text().replace("room: 1000", "room: 1, file: customers.yaml"))
    shop.daemon = Daemon([shop.weir, "serve", "-c", shop.policy, "--log-format", "json"]).ready()
    wait_for("it is told", lambda: "customers.map is full" in shop.admin("GET", "/readyz").json()["detail"])


def test_check_knows_what_a_reload_refuses(shop):
    """What lies in the directory already: counts of other windows, keys of others. And warnings are none of the errors."""
    shop.customer("create", "acme", "--plan", "free", "--value", "k-1")
    good = shop.policy.read_text()
    shop.policy.write_text(good.replace("per: day", "per: week"))
    assert "error: quota daily: " in (said := checked(shop)) and "other windows (day, week, month)" in said
    (shop.folder / "customers.yaml").write_text(
        "version: 1\ncustomers:\n- {name: best, plan: pro, keys: [{identity: api_key, value: k-1}]}\n")
    shop.policy.write_text(good.replace("directory: customers,", "directory: customers, file: customers.yaml, confirm_upgrade: "
                                        '{url: "http://127.0.0.1:1/", secret: 0123456789abcdef},'))
    said = checked(shop)
    assert "customers.yaml:3:" in said and "error: this key leads to another customer, acme\n" in said
    shop.daemon.signal(signal.SIGHUP)
    refused = shop.daemon.event("reload refused, the old policy stays")
    assert "leads to another customer, acme" in refused["reason"] and refused["level"] == "error"
    wait_for("the warning", lambda: any(e["event"] == "policy warning" and e["level"] == "warning" and "over http://" in e["reason"]
                                        for e in list(shop.daemon.events)))
    assert not any("warning: " in e["reason"] for e in list(shop.daemon.events) if e["event"].startswith("reload refused"))
    assert "leads to another customer" in shop.admin("GET", "/readyz").json()["detail"]


def test_most_of_a_file_ends(shop):
    """A file that was cut off between two customers is a good one: it is obeyed, with a word to the check and to the log."""
    file = shop.folder / "customers.yaml"
    entries = [f"- {{name: c{i}, plan: pro}}\n" for i in range(12)]
    file.write_text("version: 1\ncustomers:\n" + "".join(entries))
    shop.policy.write_text(shop.policy.read_text().replace("directory: customers,", "directory: customers, file: customers.yaml,"))
    shop.daemon.signal(signal.SIGHUP)
    wait_for("they are there", lambda: "c11" in shop.customer("list"))
    file.write_text("version: 1\ncustomers:\n" + "".join(entries[:2]))
    done = subprocess.run([shop.weir, "check", "-q", shop.policy], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "customers.yaml: warning: 10 of the 12 customers that it had are not in it" in done.stderr
    shop.daemon.signal(signal.SIGHUP)
    ended = shop.daemon.event("the customers' file was applied, and most of its customers have ended")
    assert ended["level"] == "warning" and "10 ended of 12" in str(ended)
    wait_for("the warning", lambda: any(e["event"] == "policy warning" and "is it whole?" in e["reason"] for e in list(shop.daemon.events)))


def checked(shop):
    done = subprocess.run([shop.weir, "check", "-q", shop.policy], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout
    return done.stderr


def test_a_policy_without_customers(weir, shop):
    shop.policy.write_text("version: 1\nlimits: [{name: a, by: [ip], rate: 1/s}]\n")
    assert "no section customers" in shop.customer("list", status=1)


# ---- the doors

DESCRIBED = Described("openapi-admin.json")


def described(reply, path, method):
    operation = DESCRIBED.document["paths"][path][method]
    kind, content = DESCRIBED.content(operation, reply.status)
    assert reply.one("Content-Type") == kind
    assert not DESCRIBED.complaints(reply.json(), content["schema"])
    return reply.json()


REFUSED = [  # path and query, body, what it is about, and what is said
    ("PATCH", "/v1/customers?name=x1", {"name": "x2", "suspended": True}, "name", "another name than that of the query"),
    ("PATCH", "/v1/customers?name=x1", {"key": True}, "key", "/v1/customers/keys adds a key"),
    ("PATCH", "/v1/customers?name=x1", {"value": "k-1"}, "value", "/v1/customers/keys adds a key"),
    ("PATCH", "/v1/customers?name=x1", {"ended": True}, "ended", "DELETE"), ("PATCH", "/v1/customers", {}, "name", "name="),
    ("POST", "/v1/customers", {"name": "x3", "value": "k-3", "key": True}, "key", "found both"),
    ("POST", "/v1/customers", {"name": "x3", "value": "k-3", "prefix": "p"}, "prefix", "made here"),
    ("POST", "/v1/customers", {"name": "x3", "identity": "user"}, "identity", "key or value"),
    ("POST", "/v1/customers", {"name": "x3", "ended": False}, "ended", "not taken here"),
    ("POST", "/v1/customers", {"name": "x3", "trial_plan": "gold", "trial_for": "1d"}, "trial_plan", "a plan of the policy"),
    ("POST", "/v1/customers", {"name": "x3", "trial_for": "1d"}, "trial_for", "expected trial_plan"),
    ("POST", "/v1/customers", {"name": "x3", "trial_plan": "pro", "trial_for": "1d", "trial_until": "2099-01-01"}, "trial_until", "both"),
    ("POST", "/v1/customers?name=x3", {"name": "x3"}, "name", "no parameters"),
    ("POST", "/v1/customers/keys?name=x1", {"plan": "pro"}, "plan", "not taken here"),
    ("DELETE", "/v1/customers/keys?name=x1", None, "id", "id=KEY"), ("DELETE", "/v1/customers", None, "name", "name="),
    ("DELETE", "/v1/customers?name=x1", {"plan": "pro"}, "plan", "not taken here"),
    ("GET", "/v1/customers?name=", None, "name", "a value"), ("GET", "/v1/customers?tenant", None, "tenant", "a value"),
    ("GET", "/v1/customers?name=x1&plan=free", None, "plan", "beside name"),
    ("GET", "/v1/customers?limit=1&limit=2", None, "limit", "twice"), ("GET", "/v1/customers?nmae=x1", None, "nmae", "there are: name, after"),
    ("GET", "/v1/limits?x=1", None, "x", "no parameters"), ("GET", "/v1/bans?x=%zz", None, "x=%zz", "hexadecimal"),
    ("GET", "/v1/keys?limit=daily&limit=per-ip", None, "limit", "twice"), ("GET", "/v1/keys?limit=daily&key=", None, "key", "a value"),
    ("POST", "/v1/alerts/retry?event=", None, "event", "a value"), ("GET", "/v1/alerts?name=", None, "name", "a value"),
    ("GET", "/v1/usage?name=", None, "name", "a value"), ("GET", "/v1/usage?name=x1&name=x2", None, "name", "twice"),
    ("GET", "/v1/usage?month=2026-11&from=2026-11-01", None, "month", "both"), ("GET", "/v1/usage?over=1&by=day", None, "over", "by=window"),
    ("GET", "/v1/usage?name=x1&tenant=t", None, "tenant", "beside name"), ("GET", "/v1/usage?by=year", None, "by", "not a value"),
]


def test_what_the_admin_door_refuses(shop):
    """Nothing is guessed, and nothing is passed over in silence."""
    for name in ("x1", "x2"):
        shop.customer("create", name)
    before = shop.admin("GET", "/v1/customers").body
    for method, target, body, member, said in REFUSED:
        reply = shop.admin(method, target, body)
        assert reply.status == 400, (method, target, reply.body)
        problem = described(reply, target.split("?")[0], method.lower())
        assert problem["member"] == member and said in problem["detail"] and problem["title"] == "Bad Request", (method, target, problem)
    for target, member in (("/v1/usage?quota=nope", "quota"), ("/v1/usage?tenant=nope&format=csv", "tenant"), ("/v1/usage?quota=per-ip", "quota"),
                           ("/v1/usage?name=x1&quota=nope", "quota"), ("/v1/customers?plan=nope", "plan"), ("/v1/customers?tenant=nope", "tenant"),
                           ("/v1/usage?name=nobody", None)):
        reply = shop.admin("GET", target)
        assert reply.status == 404, (target, reply.body)
        assert described(reply, target.split("?")[0], "get").get("member") == member, target
    assert shop.admin("GET", "/v1/usage?quota=daily&by=top").status == 200 == shop.admin("GET", "/v1/customers?plan=pro").status
    assert shop.admin("GET", "/v1/customers").body == before
    assert shop.admin("GET", "/healthz?x=1&x=1").status == 200


def test_an_end_by_the_admin_door_and_back(shop):
    shop.customer("create", "acme", "--plan", "pro", "--value", "k-1")
    ended = described(shop.admin("DELETE", "/v1/customers?name=acme", {"reason": "left"}), "/v1/customers", "delete")
    assert ended["customer"]["state"] == "ended" and "left" in shop.customer("log", "acme")
    refused = described(shop.admin("POST", "/v1/customers", {"name": "acme"}), "/v1/customers", "post")
    assert refused["title"] == "Conflict" and '"ended": false' in refused["detail"]
    assert '"ended": false' in shop.admin("POST", "/v1/customers/keys?name=acme", {}).json()["detail"]
    back = described(shop.admin("PATCH", "/v1/customers?name=acme", {"ended": False, "plan": "free"}), "/v1/customers", "patch")
    assert (back["customer"]["state"], back["customer"]["plan"]) == ("active", "free")
    assert shop.admin("POST", "/v1/customers/keys?name=acme", {"value": "k-1"}).status == 200


def test_lines_of_one_customer_by_the_admin_door(shop):
    for name in ("acme", "best"):
        shop.customer("create", name, "--plan", "pro", "--value", f"k-{name}")
        shop.knows(f"k-{name}", "pro")
        shop.get(f"k-{name}", cost=105)
        shop.used(name, 105)
    lines = described(shop.admin("GET", "/v1/usage?name=acme&by=window"), "/v1/usage", "get")["usage"]
    assert [(line["customer"], line["used"], line["over"]) for line in lines] == [("acme", 105, 5)]
    table = shop.admin("GET", f"/v1/usage?name=acme&month={lines[0]['date'][:7]}&format=csv")
    assert [row["customer"] for row in csv.DictReader(io.StringIO(table.body.decode()))] == ["acme"]
    assert "quotas" in shop.admin("GET", "/v1/usage?name=acme").json()


def test_by_the_admin_door(shop):
    made = described(shop.admin("POST", "/v1/customers", {"name": "acme", "plan": "free", "key": True, "anchor": 15,
                                                          "reason": "sign-up"}), "/v1/customers", "post")
    key = made["secret"]
    # When it is answered, decisions obey it.
    assert shop.get(key, cost=10)["plan"] == "free" and shop.get(key)["verdict"] == "deny"
    shop.admin("PATCH", "/v1/customers?name=acme", {"plan": "pro", "partner": True})
    assert shop.get(key)["verdict"] == "allow"
    whole = described(shop.admin("GET", "/v1/customers?name=acme"), "/v1/customers", "get")
    assert whole["customer"]["partner"] and whole["customer"]["anchor"] == 15
    assert [change["who"] for change in whole["changes"]][0].startswith("admin:127.0.0.1")
    more = described(shop.admin("POST", "/v1/customers/keys?name=acme", {"identity": "user", "value": "bob"}),
                     "/v1/customers/keys", "post")
    assert more["secret"] is None and shop.get("bob", header="X-User")["plan"] == "pro"
    described(shop.admin("DELETE", f"/v1/customers/keys?name=acme&id={more['key']['id']}"), "/v1/customers/keys", "delete")
    assert shop.get("bob", header="X-User")["plan"] != "pro"
    shop.used("acme", 12)
    usage = described(shop.admin("GET", "/v1/usage?name=acme"), "/v1/usage", "get")
    assert (usage["quotas"][0]["used"], usage["days"][0]["used"]) == (12, 12)
    assert described(shop.admin("GET", "/v1/usage?by=top&limit=5"), "/v1/usage", "get")["usage"][0]["used"] == 12
    assert shop.admin("GET", "/v1/usage?by=window&format=csv").body.decode().splitlines()[1].startswith("acme,,pro,daily,day,")
    described(shop.admin("DELETE", "/v1/customers?name=acme"), "/v1/customers", "delete")
    assert shop.get(key)["limit"] == "per-ip"


def test_pages_of_customers(shop):
    for i in range(5):
        shop.admin("POST", "/v1/customers", {"name": f"c{i}", "plan": "free"})
    seen, after = [], ""
    while after is not None:
        page = described(shop.admin("GET", f"/v1/customers?limit=2&after={after}"), "/v1/customers", "get")
        seen += [customer["name"] for customer in page["customers"]]
        after = page["next_after"]
    assert seen == ["c0", "c1", "c2", "c3", "c4"]


@pytest.mark.parametrize("method, target, body, status", [
    ("POST", "/v1/customers", {"name": "there"}, 409), ("POST", "/v1/customers", {"plan": "free"}, 400),
    ("POST", "/v1/customers", {"name": "a", "plan": "gold"}, 400), ("POST", "/v1/customers", {"name": "a", "anchor": 0}, 400),
    ("POST", "/v1/customers", {"name": "a" * 200}, 400), ("POST", "/v1/customers", {"name": "a", "nmae": "b"}, 400),
    ("POST", "/v1/customers", {"name": "a", "key": True, "identity": "ip"}, 400),
    ("POST", "/v1/customers", {"name": "a", "trial_plan": "pro"}, 400), ("POST", "/v1/customers", [], 400),
    ("PATCH", "/v1/customers?name=nobody", {"plan": "pro"}, 404), ("PATCH", "/v1/customers?nmae=x", {}, 400),
    ("DELETE", "/v1/customers?name=nobody", None, 404), ("GET", "/v1/customers?name=nobody", None, 404),
    ("GET", "/v1/customers?limit=0", None, 400), ("GET", "/v1/usage?month=2026-13", None, 400),
    ("GET", "/v1/usage?by=year", None, 400), ("GET", "/v1/usage?from=2026-11-30&to=2026-11-01", None, 400), ("GET", "/v1/usage?name=%00", None, 400),
    ("DELETE", "/v1/customers/keys?name=there&id=ffffffff", None, 404),
])
def test_bad_requests(shop, method, target, body, status):
    shop.customer("create", "there")
    reply = shop.admin(method, target, body)
    assert reply.status == status, reply.body
    assert reply.one("Content-Type") == "application/problem+json"
    assert shop.admin("GET", "/v1/customers").json()["customers"][0]["name"] == "there"


def test_a_key_of_a_billed_quota(shop):
    """What is used of it is told by the customer's own plan, and never forgotten."""
    key = shop.customer("create", "acme", "--plan", "pro", "--key").strip()
    shop.knows(key, "pro")
    shop.get(key, cost=103)
    number = described(shop.admin("GET", "/v1/customers?name=acme"), "/v1/customers", "get")["customer"]["id"]
    assert shop.admin("POST", "/v1/explain", {"ip": "192.0.2.1", "path": "/", "headers": {"X-Api-Key": key}}).json()["customer"]["id"] == number
    told = described(shop.admin("GET", f"/v1/keys?limit=daily&by=customer:{number}"), "/v1/keys", "get")
    assert told["key"] == [{"part": "customer", "id": number}]
    assert (told["plan"], told["unlimited"], told["capacity"], told["used"], told["remaining"]) == ("pro", False, 100, 103, 0)
    assert told["next_ms"] == 0 < told["reset_ms"]  # the ceiling is at 120
    told = shop.admin("GET", f"/v1/keys?limit=daily&by=customer:{number}&plan=free").json()
    assert (told["plan"], told["capacity"], told["used"]) == ("free", 10, 103) and told["next_ms"] > 0
    reply = shop.admin("DELETE", f"/v1/keys?limit=daily&by=customer:{number}")
    assert "is billed" in described(reply, "/v1/keys", "delete")["detail"] and reply.status == 409
    for method, key, status in ("GET", "by=customer:42", 404), ("GET", "key=acme", 400), ("DELETE", "key=acme", 400):
        assert shop.admin(method, f"/v1/keys?limit=daily&{key}").status == status
    assert shop.admin("GET", f"/v1/keys?limit=daily&by=customer:{number}").json()["used"] == 103


def test_a_callers_own_usage(shop):
    key = shop.customer("create", "acme", "--plan", "free", "--key").strip()
    shop.knows(key, "free")
    shop.get(key, cost=4)
    shop.used("acme", 4)
    reply = shop.ask("GET", "/v1/usage", headers={"X-Api-Key": key})
    said = reply.json()
    assert (reply.status, said["customer"], said["plan"]) == (200, "acme", "free")
    quota = said["quotas"][0]
    assert (quota["quota"], quota["used"], quota["remaining"], quota["limit"]) == ("daily", 4, 6, 10)
    assert [day["used"] for day in said["days"]] == [4]
    assert shop.standing("acme")["used"] == 4  # asking costs nothing
    for headers in ({}, {"X-Api-Key": "k_of_nobody"}):
        reply = shop.ask("GET", "/v1/usage", headers=headers)
        assert reply.status == 401 and b"acme" not in reply.body
    assert shop.ask("GET", "/v1/usage?name=acme", headers={"X-Api-Key": key}).status == 400


@pytest.mark.parametrize("secret, warned", [("short", True), ("0123456789abcdef", False)])
def test_a_secret_file_that_can_be_guessed(weir, tmp_path, secret, warned):
    (tmp_path / "hook.secret").write_text(secret + "\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nidentity: {api_key: {header: X-Api-Key}}\ncustomers:\n  directory: c\n"
                      "  webhook: {url: \"https://example.com/h\", secret_file: hook.secret}\nlimits:\n"
                      "  - {name: q, by: [customer], quota: {limit: 9, per: day, alert_at: 80%}}\n")
    done = subprocess.run([weir, "check", "-q", policy], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert ("secret_file: fewer than 16 characters can be guessed" in done.stderr) == warned


def test_before_the_first_start(weir, tmp_path):
    """Whoever makes the first customer makes the folder; and an empty database is none, for whoever begins one anew."""
    policy, folder = tmp_path / "policy.yaml", tmp_path / "customers"
    policy.write_text(POLICY.format(folder=tmp_path))

    def run(*arguments):
        return subprocess.run([weir, *arguments[:1], "-c", policy, *arguments[1:]], capture_output=True, text=True, timeout=60)

    for arguments in (["customer", "list"], ["customer", "set", "acme", "--plan", "pro"], ["usage", "--verify"]):
        done = run(*arguments)
        assert done.returncode == 1 and not folder.exists()
        assert done.stderr == f"{folder}/customers.db: there is no database yet; start weir serve once, or create a customer\n"
    assert run("customer", "create", "acme", "--plan", "free").returncode == 0
    assert folder.stat().st_mode & 0o007 == 0 and "acme" in run("customer", "list").stdout
    assert "it is there" in run("customer", "recover").stderr
    (folder / "customers.db").write_bytes(b"")
    assert "there is no database yet" in run("customer", "list").stderr
    assert run("customer", "recover").returncode == 0
    assert run("customer", "list").stdout == "" and len(list(folder.glob("customers.db.corrupt-*"))) > 0
