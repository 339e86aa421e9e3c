"""customers.keep: what ended longer ago leaves the ledger of a running daemon, and does not come back out of the cells."""
import http.client
import json
import sqlite3
import subprocess

from moment import Moment
from serving import DEADLINE, Daemon, wait_for

S = 1_000_000_000
NOON = 1_792_065_600 * S  # 2026-10-15 12:00 UTC
MINUTES_20 = 1200 * S
POLICY = """version: 1
arena: {{path: {folder}/arena, size: 4MiB}}
listen: {{http: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 1}}
identity: {{api_key: {{header: X-Api-Key}}}}
customers: {{directory: {folder}/state, by: [api_key], room: 100, flush: 100ms, keep: 62d}}
limits:
  - {{name: per-ip, by: [ip], rate: 1000000/minute}}
  - {{name: monthly, by: [customer], quota: {{limit: 1000, per: month}}}}
"""


class Site:
    def __init__(self, weir, folder):
        self.weir, self.folder, self.now, self.moment = weir, folder, NOON, Moment(folder, NOON)
        (folder / "policy.yaml").write_text(POLICY.format(folder=folder))
        self.start()

    def start(self):
        self.daemon = Daemon([self.weir, "serve", "-c", self.folder / "policy.yaml", "--log-format", "json"],
                             env=self.moment.env).ready()

    def to(self, ns):
        self.now = ns
        self.moment.set(ns)

    def ask(self, door, method, target, body=None):
        connection = http.client.HTTPConnection(*self.daemon.address(door), timeout=DEADLINE)
        connection.request(method, target, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        assert reply.status == 200, text
        return text

    def use(self, units):
        assert json.loads(self.ask("http", "POST", "/v1/check", {"headers": {"X-Api-Key": "k"}, "ip": "192.0.2.1", "cost": units}))

    def rows(self, sql):
        with sqlite3.connect(f"file:{self.folder}/state/customers.db?mode=ro", uri=True) as db:
            return db.execute(sql).fetchall()

    def command(self, *words):
        return subprocess.run([self.weir, "usage", "-c", self.folder / "policy.yaml", *words], capture_output=True, text=True,
                              timeout=60, env=self.moment.env)

    def an_hour_passes(self):
        """In steps that the ledger's thread sees each of: a change of customers waits for it."""
        for i in range(4):
            self.ask("admin", "POST", "/v1/customers", {"name": f"other-{i}", "value": f"k-{i}"})
            self.to(self.now + MINUTES_20)


def test_an_old_window_goes_and_stays_away(weir, tmp_path):
    site = Site(weir, tmp_path)
    try:
        site.ask("admin", "POST", "/v1/customers", {"name": "acme", "value": "k"})
        site.use(42)
        wait_for("October's row", lambda: site.rows("SELECT used FROM usage") == [(42,)])
        site.to(NOON + 90 * 86400 * S)  # the 13th of January: October ended 73 days ago
        site.use(5)
        wait_for("January's row", lambda: site.rows("SELECT used FROM usage ORDER BY used") == [(5,), (42,)])
        site.an_hour_passes()
        wait_for("October to go", lambda: site.rows("SELECT used FROM usage") == [(5,)])
        assert site.rows("SELECT used FROM usage_day") == [(5,)]
        wait_for("the metric", lambda: "weir_ledger_expired_windows_total 1\n" in site.ask("admin", "GET", "/metrics"))
        assert site.daemon.event("old rows of the ledger were deleted")["detail"].startswith("1 windows that ended longer ago")
        october = site.command("--month", "2026-10", "--csv")
        assert october.returncode == 0 and "windows that ended until 2026-10-31 may be missing" in october.stderr
        january = site.command("--month", "2027-01", "--csv")
        assert january.stderr == "" and "acme" in january.stdout
        assert site.daemon.end() == 0
        site.start()  # which writes what cells hold
        site.use(1)
        wait_for("January's row", lambda: site.rows("SELECT used FROM usage") == [(6,)])
        assert site.daemon.end() == 0
        verified = site.command("--verify")
        assert verified.returncode == 0 and verified.stdout.startswith("sound: 1 windows"), verified
    finally:
        site.daemon.close()
