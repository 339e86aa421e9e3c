"""Alerts of quotas: each threshold told once, by log, metric and a signed POST, over restarts and kill -9, whatever the
receiver does."""
import contextlib
import re
import signal
import socket
import subprocess

import pytest

from certificates import Authority
from hook_receiver import LIMIT, Receiver, hook, shops
from serving import wait_for
from together import Together

CLAIMING, WAITING, SENT, DEAD, ELSEWHERE, TOLD = range(6)
REACHED = "a quota's threshold was reached"
at_once = Together(make=shops, receiver=lambda: contextlib.closing(Receiver()))


def told(shop, count):
    return wait_for(f"{count} alerts in the log",
                    lambda: len(e := [e for e in list(shop.daemon.events) if e["event"] == REACHED]) >= count and e)


def sent(shop, *percents):
    """All of them, and nothing else is known of."""
    wait_for(f"{percents} sent", lambda: shop.states() == {p: SENT for p in percents})


@at_once
def test_each_threshold_is_told_once(make, receiver):
    shop = make(hook(receiver.url))
    assert shop.metric('weir_alerts_total{quota="monthly",percent="50"}') == 0  # there from the start
    shop.use(49)
    shop.use(1)
    first = receiver.got(1)[0]
    assert {k: first[k] for k in ("type", "plan", "quota", "percent", "used", "limit")} == \
        {"type": "quota", "plan": "free", "quota": "monthly", "percent": 50, "used": 50, "limit": 100}
    assert first["customer"]["name"] == "acme" and first["customer"]["tenant"] == "north"
    assert first["window"]["per"] == "month" and first["window"]["zone"] == "Europe/Istanbul"
    assert first["window"]["first_day"].endswith("-15") and first["window"]["end"] > first["time"]
    sent(shop, 50)
    shop.use(50)  # over two at once
    sent(shop, 50, 80, 100)
    assert receiver.percents() == [50, 80, 100] and len({r["event"] for r in receiver.requests}) == 3
    assert shop.use(1) == "deny"
    logged = told(shop, 3)
    assert {(e["customer"], e["quota"], e["limit"]) for e in logged} == {("acme", "monthly", 100)}
    assert {e["alert"] for e in logged} == {r["event"] for r in receiver.requests}
    for percent in (50, 80, 100):
        shop.counts(f'weir_alerts_total{{quota="monthly",percent="{percent}"}}', 1)
    shop.counts('weir_webhook_tries_total{hook="webhook",result="answered"}', 3)
    shop.use(500, "k-globex")
    wait_for("the other's", lambda: receiver.percents("globex") == [50])
    shop.daemon.signal(signal.SIGHUP)
    shop.daemon.event("reloaded")
    shop.end()
    assert len(receiver.requests) == 4 and receiver.wrong == []


@at_once
def test_without_a_webhook_it_is_told_in_log_and_metric(make, receiver):
    shop = make()
    shop.use(80)
    told(shop, 2)
    assert shop.states() == {50: TOLD, 80: TOLD}
    shop.end()
    shop = make(hook(receiver.url))  # what was told before there was one is not sent
    shop.use(20)
    sent_all = {50: TOLD, 80: TOLD, 100: SENT}
    wait_for("the third", lambda: shop.states() == sent_all)
    assert receiver.percents() == [100]


@at_once
def test_kill_9_between_flush_and_delivery(make, receiver):
    """Killed while the receiver has not answered yet: the next process sends it."""
    receiver.answer = receiver.waits()
    shop = make(hook(receiver.url))
    shop.use(100)
    receiver.got(3)
    shop.daemon.process.kill()
    shop.daemon.wait()
    assert shop.states() == {50: WAITING, 80: WAITING, 100: WAITING}
    first = {r["event"] for r in receiver.requests}
    receiver.gate.set()
    receiver.answer = lambda event: 200
    shop = make(hook(receiver.url))
    sent(shop, 50, 80, 100)
    assert {r["event"] for r in receiver.requests} == first and len(receiver.requests) == 6  # by the same names
    shop.end()


@at_once
def test_kill_9_again_and_again(make, receiver):
    """At moments of its own: at the end there is one row of each, sent; and receivers know each by one name."""
    for step in range(10):
        shop = make(hook(receiver.url))
        for _ in range(10):
            shop.use(1)
        shop.daemon.process.kill()
        shop.daemon.wait()
    shop = make(hook(receiver.url))
    sent(shop, 50, 80, 100)
    assert len({r["event"] for r in receiver.requests}) == 3


@at_once
def test_a_restart_tells_nothing_anew(make, receiver):
    shop = make(hook(receiver.url))
    shop.use(60)
    sent(shop, 50)
    shop.end()
    shop = make(hook(receiver.url))
    shop.use(20)
    sent(shop, 50, 80)
    told(shop, 1)
    assert [e["percent"] for e in shop.daemon.events if e["event"] == REACHED] == [80]
    assert receiver.percents() == [50, 80]


@pytest.mark.parametrize("answer,error", [
    (500, "answered 500"), (404, "answered 404"),
    ((302, {"Location": "http://127.0.0.1:1/elsewhere"}), "answered 302, a redirect, which is not followed")])
@at_once
def test_what_is_not_taken_is_sent_again(make, receiver, answer, error):
    receiver.answer = lambda event: answer
    shop = make(hook(receiver.url))
    shop.use(50)
    receiver.got(2)  # tried again
    wait_for("the reason", lambda: shop.rows("SELECT state, last_error FROM alert") == [(WAITING, error)])
    event = shop.daemon.event("the webhook does not take an event; it is tried again, later and later")
    assert event["detail"] == f"customers.webhook: {error}" and event["level"] == "warning"
    assert shop.metric('weir_webhook_tries_total{hook="webhook",result="failed"}') >= 1
    receiver.answer = lambda event: 202
    sent(shop, 50)
    shop.daemon.event("the webhook takes events again")
    assert len({r["event"] for r in receiver.requests}) == 1
    listed = subprocess.run([shop.weir, "alerts", "-c", shop.policy, "list"], capture_output=True, text=True, timeout=60).stdout
    assert re.search(r"; (1 try|\d+ tries) failed\n", listed), listed  # what failed before is no reason any more


@at_once
def test_one_that_is_down(make, receiver):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # nobody listens
        shop = make(hook("http://127.0.0.1:%d/" % s.getsockname()[1]))
        shop.use(50)
        wait_for("a try", lambda: shop.rows("SELECT tries > 0 FROM alert") == [(1,)])
        assert "no answer" in shop.rows("SELECT last_error FROM alert")[0][0]
        shop.end()
    shop = make(hook(receiver.url))  # tries and reason were kept; the next one is made in its time
    sent(shop, 50)


@at_once
def test_a_wrong_secret(make, receiver):
    shop = make(hook(receiver.url, secret="not what the receiver has"))
    shop.use(50)
    wait_for("it is refused", lambda: receiver.wrong)
    wait_for("the reason", lambda: shop.rows("SELECT state, last_error FROM alert") == [(WAITING, "answered 401")])
    assert receiver.requests == []
    assert all("not what the receiver has" not in line for line in shop.daemon.raw)


@at_once
def test_given_up_and_sent_again_by_hand(make, receiver):
    receiver.answer = lambda event: 503
    shop = make(hook(receiver.url, more=", give_up: 1s"))
    shop.use(50)
    event = shop.daemon.event("an event was given up")
    assert event["level"] == "error" and "answered 503" in event["detail"] and "acme" in event["detail"]
    assert shop.states() == {50: DEAD}
    shop.counts("weir_webhook_dead_events", 1)
    shop.counts('weir_webhook_given_up_total{hook="webhook"}', 1)
    receiver.answer = lambda event: 200
    shop.use(30)
    wait_for("the next one is sent", lambda: shop.states() == {50: DEAD, 80: SENT})


@at_once
def test_a_slow_receiver_holds_up_no_others(make, receiver):
    """The first ones hang; others are answered while they do, and they themselves are given up and tried again."""
    receiver.answer = lambda event: receiver.waits()(event) if event["customer"]["name"] == "acme" else 200
    shop = make(hook(receiver.url, more=", timeout: 500ms"))
    shop.use(100)
    receiver.got(3)
    shop.use(1000, "k-globex")
    wait_for("the other's are sent", lambda: len(shop.rows(
        "SELECT 1 FROM alert AS a JOIN customer AS c ON c.id = a.customer WHERE c.name = 'globex' AND a.state = 2")) == 3)
    wait_for("those that hang failed", lambda: len(shop.rows(
        "SELECT 1 FROM alert WHERE state = 1 AND tries > 0 AND last_error LIKE 'no answer%'")) == 3)
    receiver.gate.set()
    wait_for("and are sent in the end", lambda: {s for s, in shop.rows("SELECT state FROM alert")} == {SENT})


@at_once
def test_over_tls_with_an_authority_of_its_own(make, tmp_path):
    authority = Authority(tmp_path)
    receiver = Receiver(tls=authority.issue("hook"))
    try:
        shop = make(hook(receiver.url))  # nobody the system trusts has signed it
        shop.use(50)
        wait_for("it is not trusted", lambda: "certificate" in
                 (shop.rows("SELECT last_error FROM alert") or [("",)])[0][0])
        assert receiver.requests == []
        shop.end()
        shop = make(hook(receiver.url, more=f", ca_file: {authority.certificate}"))
        sent(shop, 50)
    finally:
        receiver.close()


@at_once
def test_what_is_reached_of_the_plan_before_an_upgrade(make, receiver):
    limit = LIMIT.replace("per: month", "per: month, on_exceed: {free: upgrade, default: deny}")
    shop = make(hook(receiver.url), limits=(limit,))
    assert [shop.use(1) for _ in range(3)] == ["allow"] * 3
    assert shop.use(97) == "allow" and shop.use(1) == "allow"  # the last one as pro
    wait_for("moved", lambda: shop.rows("SELECT plan FROM customer WHERE name = 'acme'") == [("pro",)])
    sent(shop, 50, 80, 100)
    assert {(r["plan"], r["limit"]) for r in receiver.requests} == {("free", 100)}


@at_once
def test_the_secret_stands_in_a_file(make, tmp_path, receiver, weir):
    (tmp_path / "hook.secret").write_text(receiver.secret + "\n")
    shop = make(f', webhook: {{url: "{receiver.url}", secret_file: {tmp_path}/hook.secret}}')
    shop.use(50)
    sent(shop, 50)
    receiver.secret = "another-secret-0123456789"
    (tmp_path / "hook.secret").write_text(receiver.secret)
    shop.daemon.signal(signal.SIGHUP)
    shop.daemon.event("reloaded")
    shop.use(30)
    sent(shop, 50, 80)
    (tmp_path / "hook.secret").unlink()
    shop.daemon.signal(signal.SIGHUP)
    assert "hook.secret" in shop.daemon.event("reload refused, the old policy stays")["reason"]
