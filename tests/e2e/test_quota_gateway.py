"""Quotas of customers through nginx, and one count with a daemon of the host: statuses that do not count, routes that a
plan has not, workers killed under load."""
import http.client
import json
import os
import signal
import subprocess
import threading

import pytest

from gateway import BUILD, gateway  # noqa: F401 (a fixture)
from serving import DEADLINE, Daemon, wait_for

POLICY = """listen: {{http: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 1}}
identity: {{api_key: {{header: X-Api-Key}}}}
customers: {{room: 100, flush: 100ms}}
answers: {{upgrade_url: "https://example.com/plans"}}
plans:
  free: {{quotas: {{daily: {limit}}}, routes: {{deny: ["/export/**"]}}, upgrade_to: pro}}
  pro: {{quotas: {{daily: 1000000}}}}
limits:
  - {{name: daily, by: [customer], quota: {{limit: {limit}, per: day, zone: Europe/Istanbul{count}}}}}
"""


class Site:
    """nginx, a daemon and one customer, acme, whose plan is free."""

    def __init__(self, make, limit=10, count="", **parts):
        self.gate = make(POLICY.format(limit=limit, count=count), start=False, **parts)
        self.daemon = Daemon([BUILD / "weir", "serve", "-c", self.gate.policy_file, "--log-format", "json"]).ready()
        self.key = self.command("customer", "create", "acme", "--plan", "free", "--key").strip()
        self.gate.start()
        self.headers = {"X-Api-Key": self.key}
        wait_for("the daemon knows the key", lambda: self.check(cost=0)["plan"] == "free")

    def command(self, *arguments):
        name, *rest = arguments
        done = subprocess.run([BUILD / "weir", name, "-c", self.gate.policy_file, *rest], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    def ask(self, method, target, body=None, headers=None):
        connection = http.client.HTTPConnection(*self.daemon.address("http"), timeout=DEADLINE)
        connection.request(method, target, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()

    def check(self, cost=1, path="/"):
        status, body = self.ask("POST", "/v1/check", json.dumps(
            {"ip": "192.0.2.1", "path": path, "headers": self.headers, "cost": cost}))
        assert status == 200, body
        return json.loads(body)

    def used(self):
        return json.loads(self.command("usage", "--json", "acme"))["quotas"][0]["used"]


@pytest.fixture
def site(gateway):  # noqa: F811
    made = []

    def make(**options):
        made.append(Site(gateway, **options))
        return made[-1]
    yield make
    for one in made:
        one.daemon.close()


def test_nginx_and_the_daemon_count_as_one(site):
    shop = site(workers=2)
    assert shop.gate.statuses(4, headers=shop.headers) == [200] * 4
    assert [shop.check()["verdict"] for _ in range(6)] == ["allow"] * 6
    refused = shop.gate.get("/", headers=shop.headers)
    assert refused.status == 429 and b"daily" in refused.body
    assert shop.check()["verdict"] == "deny"
    wait_for("the ledger has it", lambda: shop.used() == 10)
    assert shop.gate.statuses(3) == [200] * 3  # without a key: nobody's quota
    assert shop.used() == 10


def test_statuses_that_do_not_count(site):
    shop = site(count=", count: {status: [2xx]}", api='location /none { return 404; }')
    assert shop.gate.statuses(25, path="/none", headers=shop.headers) == [404] * 25
    assert shop.gate.statuses(10, headers=shop.headers) == [200] * 10
    assert shop.gate.get("/", headers=shop.headers).status == 429
    wait_for("the ledger has it", lambda: shop.used() == 10)


def test_a_route_that_a_plan_has_not(site):
    shop = site(server='add_header Reason "$weir_reason" always; weir_status 503;')
    answer = shop.gate.get("/export/all", headers=shop.headers)
    problem = json.loads(answer.body)
    assert (answer.status, problem["status"], answer.one("Reason")) == (403, 403, "plan")  # weir_status is for excess
    assert (problem["upgrade_to"], problem["upgrade_url"]) == ("pro", "https://example.com/plans")
    assert not answer.all("Retry-After")
    verdict = shop.check(path="/export/all")
    assert (verdict["verdict"], verdict["reason"]) == ("deny", "plan")
    status, _ = shop.ask("GET", "/v1/auth/export/all", headers=shop.headers)
    assert status == 403
    assert shop.gate.get("/", headers=shop.headers).status == 200
    wait_for("only that is counted", lambda: shop.used() == 1)
    shop.command("customer", "set", "acme", "--plan", "pro")
    wait_for("the other plan has it", lambda: shop.check(cost=0, path="/export/all")["plan"] == "pro")
    assert shop.gate.get("/export/all", headers=shop.headers).status == 200


def test_workers_killed_under_load(site):
    shop = site(limit=1000000, workers=2)
    admitted, unsure, stop = [], [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                status = shop.gate.get("/", headers=shop.headers).status
                (admitted if status == 200 else unsure).append(status)
            except (OSError, http.client.HTTPException):
                unsure.append(None)  # counted or not: nobody was told

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    killed = set()  # of pids: one that was not waited for yet is there still, and is killed again
    for _ in range(100):
        before = len(admitted)
        wait_for("some more", lambda: len(admitted) > before + 20)
        for pid in shop.gate.workers():
            try:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            except ProcessLookupError:
                pass
        wait_for("others serve", lambda: len(shop.gate.workers()) == 2)
    stop.set()
    for thread in threads:
        thread.join()
    wait_for("all deaths in the log", lambda: shop.gate.log.read_text().count("exited on signal 9") >= len(killed))
    shop.gate.log.write_text("")  # that they were killed is no fault
    shop.daemon.end()
    used = shop.used()
    assert len(admitted) <= used <= len(admitted) + len(unsure)
    assert " 0 wrong" in shop.command("usage", "--verify")
