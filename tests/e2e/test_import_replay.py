"""Policies that `weir import` made, on one log (imports/traffic.jsonl): every verdict as a slow model has it
(policy_model.py), whose limits are written down here from the imported files, not from the policies. What an import
says that it leaves out, the models leave out too."""
import calendar
import datetime
import http.client
import json
import pathlib
import re
import subprocess

import pytest

from moment import Moment
from policy_model import LeakyBucket, Limit, Look, NEVER, TokenBucket, Window, decide
from serving import DEADLINE, Daemon

SAMPLES = pathlib.Path(__file__).resolve().parent / "imports"
S, MINUTE, HOUR, DAY = 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9
LOG = [json.loads(line) for line in (SAMPLES / "traffic.jsonl").read_text().splitlines()]


def ns_of(line):
    s, ms = line["time"].split(".")
    return int(s) * S + int(ms) * 10**6


class Calendar:
    """So much each day, week from Monday or month, UTC."""

    def __init__(self, units, per):
        self.units, self.per, self.taken = units, per, {}

    def window(self, t):
        day = datetime.datetime.fromtimestamp(t // S, datetime.timezone.utc).date()
        if self.per == "week":
            first = day - datetime.timedelta(day.weekday())
            return first, first + datetime.timedelta(7)
        if self.per == "month":
            first = day.replace(day=1)
            return first, first + datetime.timedelta(calendar.monthrange(day.year, day.month)[1])
        return day, day + datetime.timedelta(1)

    def look(self, t, cost):
        first, after = self.window(t)
        left = self.units - self.taken.get(first, 0)
        end = calendar.timegm(after.timetuple()) * S
        return Look(True, left - cost) if cost <= left else Look(False, left, NEVER if cost > self.units else end - t)

    def take(self, t, cost):
        first, _ = self.window(t)
        self.taken[first] = self.taken.get(first, 0) + cost


class Places:
    """The log has no durations: a place is held for its moment alone, and frees itself after 30 s for who is refused."""

    def __init__(self, most):
        self.most, self.at, self.held = most, None, 0

    def look(self, t, cost):
        held = self.held if self.at == t else 0
        return Look(True, self.most - held - 1) if held < self.most else Look(False, 0, 30 * S)

    def take(self, t, cost):
        self.held = self.held + 1 if self.at == t else 1
        self.at = t


class Rule(Limit):
    def __init__(self, name, make, by, path=".*", methods=None, plans=None, shadow=False, skip=False):
        super().__init__(name, make, [by], shadow)
        self.path, self.methods, self.plans, self.skip = path, methods, plans, skip

    def meets(self, request):
        return re.fullmatch(self.path, request["path"]) and (self.methods is None or request["method"] in self.methods) and \
            (self.plans is None or request["plan"] in self.plans) and not (self.skip and request[self.by[0]][0] == "ip")


def bucket(units, window, burst):
    return lambda: TokenBucket(units, window, burst)


def sliding(units, window):
    return lambda: Window(units, window, True)


def fixed(units, window):
    return lambda: Window(units, window, False)


AWS_KEYS = {"k-2": "Pro", "k-3": "Internal"}
AWS = [
    Rule("throttle", bucket(1, 2 * S, 4), "key", plans=["Basic-Plan"]),
    Rule("throttle", bucket(5, 2 * S, 6), "key", plans=["Pro"]),
    Rule("quota-day", lambda: Calendar(60, "day"), "key", plans=["Basic-Plan"]),
    Rule("throttle-pets-id-GET", bucket(1, 20 * S, 1), "key", "/pets/[^/]+", ["GET"], ["Basic-Plan"]),
    Rule("throttle-orders-id", bucket(1, 5 * S, 3), "key", "/orders/[^/]+", None, ["Basic-Plan"]),
    Rule("quota-week", lambda: Calendar(75, "week"), "key", plans=["Pro"]),
]
AWS_ONE = [Rule("throttle", bucket(1, 2 * S, 4), "key"), Rule("quota-month", lambda: Calendar(60, "month"), "key")]
AZURE = [
    Rule("rate-limit", sliding(9, 90 * S), "key"),
    Rule("rate-limit-by-key", sliding(6, MINUTE), "ip"),
    Rule("rate-limit-by-key-2", sliding(3, 10 * S), "tenant"),
    Rule("rate-limit-by-key-3", sliding(7, S), "other"),
    Rule("quota", fixed(40, HOUR), "key"),
    Rule("quota-by-key", lambda: Calendar(55, "day"), "key"),
    Rule("limit-concurrency", lambda: Places(2), "ip"),
]
KONG_CATALOG = "/(catalog|pets|shop)(/.*)?"
KONG_KEYS = {"k-1": "acme-corp", "k-2": "second", "k-3": "gold"}
KONG = [
    Rule("kong-everything-day", lambda: Calendar(70, "day"), "key"),
    Rule("kong-route-orders-all-minute", fixed(3, MINUTE), "ip", "/orders(/.*)?"),
    Rule("kong-consumers-hour", fixed(60, HOUR), "key", plans=["acme-corp"]),
    Rule("kong-consumers-hour", fixed(12, HOUR), "key", plans=["second"]),
    Rule("kong-consumers-hour", fixed(15, HOUR), "key", plans=["gold"]),
    Rule("kong-service-catalog-minute", fixed(4, MINUTE), "key", KONG_CATALOG),
    Rule("kong-service-catalog-hour", fixed(9, HOUR), "key", KONG_CATALOG),
    Rule("kong-route-shop-route-second", fixed(1, S), "tenant", "/shop(/.*)?", ["GET", "POST"]),
    Rule("kong-consumers-minute", fixed(6, MINUTE), "key", plans=["acme-corp"]),
]
NGINX = [
    Rule("perip", bucket(30, MINUTE, 6), "ip"),
    Rule("perip-2", lambda: LeakyBucket(30, MINUTE, 2), "ip", "/login(/.*)?"),
    Rule("perkey", lambda: LeakyBucket(12, MINUTE, 2), "key", "/search", skip=True),
    Rule("conns", lambda: Places(1), "ip", "/search"),
    Rule("perkey-2", bucket(12, MINUTE, 2), "key", "/new(/.*)?", shadow=True, skip=True),
]
TYK_KEYS = {"k-2": "silver", "k-3": "open"}
TYK = [
    Rule("rate", sliding(3, 10 * S), "key", plans=["Free-tier"]),
    Rule("rate", sliding(1, 2 * S), "key", plans=["silver"]),
    Rule("quota-day", lambda: Calendar(50, "day"), "key", plans=["Free-tier"]),
    Rule("quota", fixed(6, HOUR), "key", plans=["silver"]),
    Rule("quota-week", lambda: Calendar(30, "week"), "key", plans=["open"]),
]

# file, plan of a key, the default plan, the header of keys, limits that must have refused somebody
CASES = {
    "aws.json": (AWS, AWS_KEYS, "Basic-Plan", "X-Api-Key", {"throttle", "quota-day", "throttle-pets-id-GET", "quota-week"}),
    "aws_one.json": (AWS_ONE, {}, "Basic-Plan", "X-Api-Key", {"throttle", "quota-month"}),
    "azure.xml": (AZURE, {}, None, "Ocp-Apim-Subscription-Key", {"rate-limit", "rate-limit-by-key", "rate-limit-by-key-2",
                                                                  "quota-by-key", "limit-concurrency"}),
    "kong.yaml": (KONG, KONG_KEYS, "default", "X-Api-Key", {"kong-everything-day", "kong-consumers-hour", "kong-service-catalog-hour",
                                                            "kong-service-catalog-minute", "kong-consumers-minute"}),
    "nginx.conf": (NGINX, {}, None, "X-Api-Key", {"perip", "perip-2", "conns", "perkey-2"}),
    "tyk.json": (TYK, TYK_KEYS, "Free-tier", "Authorization", {"rate", "quota-day", "quota", "quota-week"}),
}


def described(line, keys, default):
    """The request as rules see it: who has no value is counted by address."""
    address = ("ip", line["ip"])
    key, tenant = line["headers"].get("X-Api-Key"), line["headers"].get("X-Tenant")
    return {"path": line["path"], "method": line["method"], "plan": keys.get(key, default), "ip": address, "other": address,
            "key": ("key", key) if key else address, "tenant": ("tenant", tenant) if tenant else address}


def imported(weir, name):
    done = subprocess.run([weir, "import", {"aws_one": "aws"}.get(name.split(".")[0], name.split(".")[0]), SAMPLES / name],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", CASES)
def test_replayed(weir, tmp_path, name):
    rules, keys, default, header, refusing = CASES[name]
    policy, log = tmp_path / "policy.yaml", tmp_path / "log.jsonl"
    text = imported(weir, name)
    if keys and name != "kong.yaml":  # exports of the others do not have them: added as docs/import.md says
        text = re.sub(r"(    default: \S+.*\n)", r"\1    keys: {%s}\n" % ", ".join(f"{k}: {v}" for k, v in keys.items()), text)
    policy.write_text(text)
    with log.open("w") as out:
        for line in LOG:
            renamed = {header if field == "X-Api-Key" else field: value for field, value in line["headers"].items()}
            out.write(json.dumps({**line, "headers": renamed}) + "\n")
    done = subprocess.run([weir, "replay", "-c", policy, "--verdicts", log], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(row) for row in done.stdout.splitlines()]
    assert len(rows) == len(LOG) == 700
    for rule in rules:
        rule.states = {}
    refused = set()
    for number, (line, row) in enumerate(zip(LOG, rows), 1):
        request = described(line, keys, default)
        want = decide([rule for rule in rules if rule.meets(request)], request, ns_of(line), 1)
        where = f"{name}, line {number}: {line}\n{want}\n{row}"
        assert row["verdict"] == want["verdict"], where
        if want["verdict"] in ("deny", "shadow"):
            assert row["limit"] == want["limit"], where
            refused.add(want["limit"])
    assert refused >= refusing, refused


# ---- envoyproxy/ratelimit: its rules are met by descriptors, which a log does not have; so the daemon is asked line by
# line, at the times of the log

ENVOY_WINDOWS = {"second": S, "minute": MINUTE, "hour": HOUR, "day": DAY}


def envoy_rules(line):
    """(rule, key, units, window, shadow) that the descriptors of a request meet, by the file and its manual: one with the
    address, one with the key, one with the key and the path."""
    key = line["headers"].get("X-Api-Key")
    yield "ip", line["ip"], 6, "minute", False
    if key == "k-1":
        yield "k-1", "", 40, "hour", False
        if line["path"] == "/search":
            yield "search", "", 0, "second", False
        elif line["path"].startswith("/pets"):
            yield "pets", line["path"], 4, "hour", False
    elif key == "k-3":
        yield "k-3", "", 2, "hour", True
    elif key:
        yield "key", key, 50, "day", False


def test_envoy(weir, tmp_path):
    (tmp_path / "envoy.yaml").write_text((SAMPLES / "envoy.yaml").read_text())
    done = subprocess.run([weir, "import", "envoy", "envoy.yaml"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0 and 'envoy_ratelimit: ["envoy.yaml"]' in done.stdout, done.stderr
    policy = tmp_path / "policy.yaml"
    policy.write_text(done.stdout.replace("listen: {grpc: 127.0.0.1:8081}", "listen: {http: 127.0.0.1:0, threads: 1}"))
    assert subprocess.run([weir, "check", "-q", policy], timeout=60).returncode == 0
    moment = Moment(tmp_path, ns_of(LOG[0]))
    daemon = Daemon([weir, "serve", "-c", policy, "--log-format", "json"], env=moment.env).ready()
    connection = http.client.HTTPConnection(*daemon.address("http"), timeout=DEADLINE)
    taken, refused = {}, set()
    try:
        for number, line in enumerate(LOG, 1):
            moment.set(ns_of(line))
            met = [(rule, (rule, key, ns_of(line) // ENVOY_WINDOWS[unit]), units, shadow)
                   for rule, key, units, unit, shadow in envoy_rules(line)]
            over = {rule for rule, at, units, shadow in met if not shadow and taken.get(at, 0) + 1 > units}
            refused |= over
            for _, at, units, shadow in met if not over else []:  # a refused question consumes nothing
                taken[at] = taken.get(at, 0) + (not shadow or taken.get(at, 0) < units)
            connection.request("POST", "/json", json.dumps({"domain": "shop", "descriptors": descriptors(line)}))
            answer = connection.getresponse()
            said = json.loads(answer.read())
            where = f"line {number}: {line}\n{met}\n{said}"
            assert (answer.status, said["overallCode"]) == ((429, "OVER_LIMIT") if over else (200, "OK")), where
    finally:
        connection.close()
        daemon.close()
    assert refused == {"ip", "k-1", "search", "pets", "key"}


def descriptors(line):
    def entries(**pairs):
        return {"entries": [{"key": key, "value": value} for key, value in pairs.items()]}
    out, key = [entries(remote_address=line["ip"])], line["headers"].get("X-Api-Key")
    if key:
        out += [entries(api_key=key), entries(api_key=key, path=line["path"])]
    return out
