"""A daemon with customers, and the commands that look after them, for test_customers.py."""
import http.client
import json
import subprocess

from http_door import Door, Reply
from serving import DEADLINE, wait_for

POLICY = """version: 1
arena: {{path: {folder}/arena, size: 4MiB}}
listen: {{http: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 1}}
identity: {{api_key: {{header: X-Api-Key}}, user: {{header: X-User, trust: anyone}}}}
customers: {{directory: customers, by: [api_key, user], room: 1000, flush: 100ms}}
plans:
  free: {{quotas: {{daily: 10}}}}
  pro: {{quotas: {{daily: {{limit: 100, on_exceed: overage, ceiling: 120}}}}}}
limits:
  - {{name: per-ip, by: [ip], rate: 100000/minute}}
  - {{name: daily, by: [customer], quota: {{limit: 10, per: day, zone: Europe/Istanbul}}}}
"""


class Shop(Door):
    """free has 10 a day; pro 100, and 20 more as overage."""

    def __init__(self, weir, folder):
        self.weir, self.folder = weir, folder
        super().__init__(weir, folder / "policy.yaml", [])

    def write(self, limits):
        self.policy.write_text(POLICY.format(folder=self.folder))

    # ---- commands

    def command(self, name, *arguments, status=0, value=None):
        done = subprocess.run([self.weir, name, "-c", self.policy, *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, input=value)
        assert done.returncode == status, (done.stdout, done.stderr)
        return done.stderr if status else done.stdout

    def customer(self, *arguments, **options):
        return self.command("customer", *arguments, **options)

    def usage(self, *arguments, **options):
        return json.loads(self.command("usage", "--json", *arguments, **options))

    def standing(self, name, quota="daily"):
        return next(q for q in self.usage(name)["quotas"] if q["quota"] == quota)

    def used(self, name, units):
        """Wait for the ledger to say so."""
        return wait_for(f"{units} used by {name}", lambda: (s := self.standing(name))["used"] == units and s)

    # ---- requests

    def get(self, key, cost=1, header="X-Api-Key", **members):
        return self.check(ip="192.0.2.1", headers={header: key}, cost=cost, **members)

    def knows(self, key, plan, header="X-Api-Key"):
        """Wait until that key has that plan."""
        wait_for(f"a key of {plan}", lambda: self.get(key, cost=0, header=header)["plan"] == plan)

    def admin(self, method, target, body=None):
        connection = http.client.HTTPConnection(*self.daemon.address("admin"), timeout=DEADLINE)
        connection.request(method, target, json.dumps(body) if body is not None else None)
        response = connection.getresponse()
        return Reply(response, response.read())
