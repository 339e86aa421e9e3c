"""A daemon with customers, and the commands that look after them, for test_customers.py and others."""
import json
import subprocess

from http_door import Door

IDENTITY = "identity: {api_key: {header: X-Api-Key}, user: {header: X-User, trust: anyone}}\n"
CUSTOMERS = "customers: {directory: customers, by: [api_key, user], room: 1000, flush: 100ms}\n"
PLANS = """plans:
  free: {quotas: {daily: 10}}
  pro: {quotas: {daily: {limit: 100, on_exceed: overage, ceiling: 120}}}
"""
DAILY = "name: daily, by: [customer], quota: {limit: 10, per: day, zone: Europe/Istanbul}"


class Shop(Door):
    """A daemon whose policy has customers; free has 10 a day, pro 100 and 20 more as overage."""

    def __init__(self, weir, path, limits=(DAILY,), more=CUSTOMERS + PLANS, **options):
        self.weir = weir
        super().__init__(weir, path, limits, identity=IDENTITY,
                         more=f"arena: {{path: {path.parent}/arena, size: 4MiB}}\n" + more, **options)

    def write(self, limits):
        self.text = self.text.replace("arena: {size: 4MiB}\n", "", 1)
        super().write(limits)

    def command(self, name, *arguments, status=0, value=None):
        done = subprocess.run([self.weir, name, "-c", self.policy, *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, input=value)
        assert done.returncode == status, (done.stdout, done.stderr)
        return done.stderr if status else done.stdout

    def customer(self, *arguments, **options):
        return self.command("customer", *arguments, **options)

    def create(self, name, *arguments):
        """Create a customer with a key; the key."""
        key = self.customer("create", name, "--key", *arguments).strip()
        self.until_known(key)
        return key

    def usage(self, *arguments, **options):
        return json.loads(self.command("usage", "--json", *arguments, **options))

    def get(self, key, cost=1, **headers):
        """One request with that key: its verdict in full."""
        return self.check(headers={"X-Api-Key": key, **headers}, cost=cost)

    def standing(self, name, quota="daily"):
        return next(q for q in self.usage(name)["quotas"] if q["quota"] == quota)
