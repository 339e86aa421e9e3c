"""Quotas that count only some answers, where the status is said when a reservation is settled: over HTTP and RESP, on
the day it was made and after it."""
import http.client
import json

import pytest

from golden_vectors import moment_ns
from http_door import Door
from moment import Moment
from serving import DEADLINE, Daemon
from test_resp import Client

POLICY = """version: 1
arena: {{path: {folder}/arena, size: 4MiB}}
listen: {{http: 127.0.0.1:0, resp: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 1}}
identity: {{api_key: {{header: X-Api-Key}}}}
customers: {{room: 10}}
limits:
  - {{name: good, by: [customer], quota: {{limit: 10, per: day, zone: Europe/Istanbul, count: {{status: [2xx, 3xx]}}}}}}
  - {{name: all, by: [customer], quota: {{limit: 100, per: month, zone: Europe/Istanbul}}}}
"""
# Midnight in Istanbul is 21:00Z.
NOON, BEFORE, AFTER = (moment_ns(f"2026-11-{t}Z") for t in ("29T09:00:00", "29T20:59:59", "29T21:00:01"))


class Site(Door):
    def __init__(self, weir, folder):
        path = folder / "policy.yaml"
        path.write_text(POLICY.format(folder=folder))
        self.moment = Moment(folder, NOON)
        self.daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"], env=self.moment.env).ready()
        self.address, self.connection = self.daemon.address("http"), None
        self.redis = Client(self.daemon.address("resp"))
        connection = http.client.HTTPConnection(*self.daemon.address("admin"), timeout=DEADLINE)
        connection.request("POST", "/v1/customers", json.dumps({"name": "acme", "value": "k"}))
        assert connection.getresponse().status == 200
        connection.close()

    def close(self):
        self.redis.close()
        super().close()

    def used(self):
        """Of good and of all."""
        said = self.check(cost=0, keys={"api_key": "k"})
        return [limit["limit"] - limit["remaining"] for limit in said["limits"]]

    def reserve(self, cost):
        reply = self.ask("POST", "/v1/reserve", {"ip": "192.0.2.1", "keys": {"api_key": "k"}, "cost": cost, "ttl": "1h"})
        return reply.json()["id"]

    def settle(self, name, **members):
        reply = self.ask("POST", "/v1/settle", {"id": name, **members})
        return reply.status


@pytest.fixture
def site(weir, tmp_path):
    site = Site(weir, tmp_path)
    yield site
    site.close()


def test_over_http(site):
    assert site.settle(site.reserve(4), cost=2, status=200) == 200
    assert site.used() == [2, 2]
    assert site.settle(site.reserve(4), cost=3, status=500) == 200  # good gives back, all has the true cost
    assert site.used() == [2, 5]
    assert site.settle(site.reserve(1), cost=3) == 200  # not said: it counts
    assert site.used() == [5, 8]
    late = site.reserve(5)
    assert site.reserve(1) is None  # good is used up while that is open
    assert site.settle(late, cost=5, status=304) == 200
    assert site.used() == [10, 13]
    assert site.settle(late, cost=5, status=99) == 400


def test_over_resp(site):
    def reserve(cost):
        return site.redis("WEIR.RESERVE", "good", "k", cost, 3600000)[6]
    for cost, said, used in ((2, (200,), 2), (3, (404,), 2), (3, (599,), 2), (1, (), 3), (2, (302,), 5), (7, (100,), 5)):
        assert site.redis("WEIR.SETTLE", reserve(4), cost, *said) == b"OK"
        assert site.redis("WEIR.PEEK", "good", "k")[2] == 10 - used, said
    assert site.used() == [5, 0]


@pytest.mark.parametrize("door", ["http", "resp"])
def test_the_day_it_was_made_in(site, door):
    """What is given back after midnight is of the day before; the new one has nothing to give."""
    site.moment.set(BEFORE)
    name = site.reserve(6) if door == "http" else site.redis("WEIR.RESERVE", "good", "k", 6, 3600000)[6]
    site.moment.set(AFTER)
    assert site.check(cost=1, keys={"api_key": "k"})["verdict"] == "allow"
    assert site.used()[0] == 1
    if door == "http":
        assert site.settle(name, cost=6, status=500) == 200
    else:
        assert site.redis("WEIR.SETTLE", name, 6, 500) == b"OK"
    assert site.used()[0] == 1
