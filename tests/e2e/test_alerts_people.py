"""Alerts as people see them (weir alerts, the admin door), and questions whether a customer may move to the next plan."""
import json
import signal
import subprocess

from hook_receiver import LIMIT, Receiver, hook, make, receiver  # noqa: F401 (two fixtures)
from openapi import Described
from serving import wait_for

UPGRADES = (LIMIT.replace("per: month", "per: month, on_exceed: {free: upgrade, default: deny}"),)
DESCRIBED = Described("openapi-admin.json")


def command(shop, *arguments, status=0):
    done = subprocess.run([shop.weir, "alerts", "-c", shop.policy, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stderr if status else done.stdout


def listed(shop, *arguments):
    return json.loads(command(shop, "list", "--json", *arguments))["alerts"]


def admin(shop, method, path, schema="Alerts"):
    status, text = shop.admin(method, path)
    assert status == 200, text
    value = json.loads(text)
    assert not DESCRIBED.complaints(value, DESCRIBED.document["components"]["schemas"][schema])
    return value


def test_given_up_is_seen_and_sent_again(make, receiver):
    receiver.answer = lambda event: 500
    shop = make(hook(receiver.url, more=", give_up: 1s"))
    shop.use(80)
    wait_for("both are dead", lambda: [a["state"] for a in listed(shop)] == ["dead", "dead"])
    first = listed(shop, "acme", "--state", "dead")[0]
    assert first["error"] == "answered 500" and first["failed_tries"] >= 1 and first["sent"] is None
    assert "answered 500" in command(shop, "list") and listed(shop, "globex") == listed(shop, "--state", "sent") == []
    assert admin(shop, "GET", "/v1/alerts?name=acme&state=dead")["alerts"] == listed(shop)
    receiver.answer = lambda event: 200
    assert command(shop, "retry", first["event"]).startswith("1 ")
    wait_for("one is sent", lambda: sorted(a["state"] for a in listed(shop)) == ["dead", "sent"])
    assert admin(shop, "POST", "/v1/alerts/retry", "AlertsRetried") == {"retried": 1}
    wait_for("the other is", lambda: {a["state"] for a in listed(shop)} == {"sent"})
    assert command(shop, "retry", "--all").startswith("0 ")
    before = len(receiver.requests)
    assert admin(shop, "POST", f"/v1/alerts/retry?event={first['event']}", "AlertsRetried") == {"retried": 1}  # once more
    receiver.got(before + 1)
    assert receiver.requests[-1]["event"] == first["event"]


def test_pages_and_what_is_wrong(make):
    shop = make()
    shop.use(100)
    shop.use(1000, "k-globex")
    wait_for("all six", lambda: [a["state"] for a in listed(shop)] == ["told"] * 6)
    events, after = [], ""
    while True:
        page = admin(shop, "GET", f"/v1/alerts?limit=2{after}")
        events += [a["event"] for a in page["alerts"]]
        if page["next_after"] is None:
            break
        after = f"&after={page['next_after']}"
    assert events == [a["event"] for a in listed(shop)] and len(set(events)) == 6
    assert shop.admin("GET", "/v1/alerts?name=nobody")[0] == 404
    assert shop.admin("GET", "/v1/alerts?state=gone")[0] == 400
    assert shop.admin("POST", f"/v1/alerts/retry?event={'0' * 32}")[0] == 404
    assert shop.admin("POST", f"/v1/alerts/retry?event={events[0]}")[0] == 404  # there is nobody to tell
    assert "no such event" in command(shop, "retry", events[0], status=1)
    assert "no such customer" in command(shop, "list", "nobody", status=1)
    for wrong in ([], ["retry"], ["retry", "x", "--all"], ["list", "--state", "gone"], ["list", "a", "b"]):
        command(shop, *wrong, status=2)
    assert "usage:" in command(shop, "--help")


# ---- upgrades


def plan(shop, name="acme"):
    return shop.rows(f"SELECT plan, wants_upgrade FROM customer WHERE name = '{name}'")[0]


def changes(shop):
    return shop.rows("SELECT who, what, before, after, reason FROM audit WHERE who LIKE 'webhook%' OR who = 'weir' ORDER BY id")


def test_yes(make, receiver):
    shop = make(hook(receiver.url, name="confirm_upgrade"), limits=UPGRADES)
    assert shop.use(100) == "allow" and shop.use(1) == "deny"  # until somebody says yes
    asked = receiver.got(1)[0]
    assert (asked["type"], asked["customer"]["name"], asked["plan"], asked["upgrade_to"]) == ("upgrade", "acme", "free", "pro")
    assert asked["trial_until"] is None
    wait_for("it is moved", lambda: plan(shop) == ("pro", 0))
    wait_for("it passes", lambda: shop.use(1) == "allow")
    assert ("webhook:confirm_upgrade", "plan", "free", "pro",
            "a quota was used up; the confirmation answered 204") in changes(shop)
    shop.counts("weir_customer_upgrades_total", 1)
    shop.counts('weir_webhook_tries_total{hook="confirm_upgrade",result="answered"}', 1)
    assert len(receiver.requests) == 1 and [a["state"] for a in listed(shop) if a["type"] == "upgrade"] == ["sent"]


def test_no(make, receiver):
    receiver.answer = lambda event: 403
    shop = make(hook(receiver.url, name="confirm_upgrade"), limits=UPGRADES)
    shop.use(100)
    assert shop.use(1) == "deny"
    wait_for("the answer", lambda: [a["state"] for a in listed(shop) if a["type"] == "upgrade"] == ["refused"])
    assert plan(shop) == ("free", 0)
    assert ("webhook:confirm_upgrade", "wants upgrade", "yes", "no",
            "a quota was used up; the confirmation answered 403") in changes(shop)
    shop.use(1, "k-globex")
    for used in (2, 3, 4):  # it is not asked for again: flushes go by, with what another used
        assert shop.use(1) == "deny"
        shop.use(1, "k-globex")
        wait_for("a flush", lambda: shop.rows("SELECT min(used) FROM usage") == [(used,)])
    assert len(receiver.requests) == 1 and plan(shop) == ("free", 0)
    command(shop, "retry", receiver.requests[0]["event"], status=1)  # it is answered


def test_neither_yes_nor_no_over_a_kill(make, receiver):
    receiver.answer = lambda event: 503
    shop = make(hook(receiver.url, name="confirm_upgrade"), limits=UPGRADES)
    shop.use(100)
    assert shop.use(1) == "deny"
    receiver.got(2)
    assert plan(shop) == ("free", 1)
    shop.daemon.process.kill()
    shop.daemon.wait()
    receiver.answer = lambda event: 200
    shop = make(hook(receiver.url, name="confirm_upgrade"), limits=UPGRADES)
    wait_for("it is moved", lambda: plan(shop) == ("pro", 0))
    assert len({r["event"] for r in receiver.requests}) == 1
    assert [c[:4] for c in changes(shop) if c[1] == "plan"] == [("webhook:confirm_upgrade", "plan", "free", "pro")]


def test_moved_by_hand_meanwhile(make, receiver):
    receiver.answer = lambda event: 503
    shop = make(hook(receiver.url, name="confirm_upgrade"), limits=UPGRADES)
    shop.use(100)
    assert shop.use(1) == "deny"
    receiver.got(1)
    done = subprocess.run([shop.weir, "customer", "-c", shop.policy, "set", "acme", "--plan", "pro"], timeout=60)
    assert done.returncode == 0 and plan(shop) == ("pro", 0)
    wait_for("nothing is asked any more", lambda: not shop.rows("SELECT 1 FROM upgrade"))
    wait_for("it passes", lambda: shop.use(1) == "allow")


def test_a_slow_confirmation_does_not_hold_alerts(make, receiver):
    slow = Receiver()
    slow.answer = slow.waits(200)
    try:
        shop = make(hook(receiver.url), hook(slow.url, name="confirm_upgrade"), limits=UPGRADES)
        shop.use(100)
        assert shop.use(1) == "deny"
        slow.got(1)
        shop.use(1000, "k-globex")
        wait_for("alerts", lambda: len(receiver.requests) == 6)
        assert plan(shop) == ("free", 1)
        slow.gate.set()
        wait_for("the answer", lambda: plan(shop) == ("pro", 0))
    finally:
        slow.close()


def test_no_hook_any_more(make, receiver):
    """Who waits for an answer that nobody will give moves with the next request beyond the quota."""
    receiver.answer = lambda event: 503
    shop = make(hook(receiver.url, name="confirm_upgrade"), limits=UPGRADES)
    shop.use(100)
    assert shop.use(1) == "deny"
    receiver.got(1)
    shop.text = shop.text.replace(hook(receiver.url, name="confirm_upgrade"), "")
    shop.write(UPGRADES)
    shop.daemon.signal(signal.SIGHUP)
    shop.daemon.event("reloaded")
    wait_for("it passes", lambda: shop.use(1) == "allow")
    wait_for("as recorded", lambda: plan(shop) == ("pro", 0))
    wait_for("nothing waits", lambda: not shop.rows("SELECT 1 FROM upgrade"))
