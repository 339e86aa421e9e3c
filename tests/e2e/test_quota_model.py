"""Random policies of plans, quotas and other limits over random traffic: `weir replay --verdicts` against the model of
quota_model.py, request by request, over midnights, changes of clocks, month ends and leap days."""
import json
import math
import os
import random
import subprocess

import pytest

from golden_vectors import moment_ns
from policy_model import TokenBucket, Window
from quota_model import Civil, Other, Quota, Rule, decide

SEED = int(os.environ.get("WEIR_SEED", "20261130"))
POLICIES, REQUESTS = 40, 300
ZONES = ["UTC", "Europe/Istanbul", "Europe/London", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe",
         "Pacific/Apia", "America/Havana", "Asia/Pyongyang", "Africa/Casablanca"]
# Shortly before something happens somewhere.
STARTS = ["2025-03-29T10:00:00Z", "2025-10-25T10:00:00Z", "2018-11-03T12:00:00Z", "2025-11-01T12:00:00Z", "2015-08-13T20:00:00Z",
          "2011-12-28T12:00:00Z", "2024-02-27T12:00:00Z", "2023-02-26T12:00:00Z", "2024-12-29T12:00:00Z", "2025-04-04T12:00:00Z",
          "2025-01-30T12:00:00Z", "2025-06-29T12:00:00Z"]
PLANS = ["free", "pro", "top"]


def random_rule(rng, upgrades, plan, exact):
    """(rule, how a policy writes it)"""
    limit = rng.choice([0, 1, 3, 5, 8, 13, 20])
    exceed = rng.choice(["deny", "deny", "overage", "upgrade"]) if exact else "deny"
    if exceed == "overage":
        ceiling = rng.choice([None, limit, limit + 1, limit + 7])
        more = "" if ceiling is None else f", ceiling: {ceiling}"
        return Rule(limit, ceiling, exceed), f"{{limit: {limit}, on_exceed: overage{more}}}"
    if exceed == "upgrade":
        return (Rule(limit, limit, "upgrade"), f"{{limit: {limit}, on_exceed: upgrade}}") if plan in upgrades else \
            (Rule(limit, limit), str(limit))
    percent = rng.choice([0, 0, 10, 25, 34, 100]) if exact else 0
    return Rule(limit, limit + limit * percent // 100), f"{{limit: {limit}, grace: {percent}%}}" if percent else str(limit)


def random_quota(rng, index, upgrades):
    """(model, its line in limits, {plan: its value in plans})"""
    exact = rng.random() < 0.8
    per, zone = rng.choice(["day", "day", "week", "month"]), rng.choice(ZONES)
    anchor = rng.choice([1, 15, 29, 30, 31]) if per == "month" else 1
    pairs = {plan: random_rule(rng, upgrades, plan, exact) for plan in PLANS}
    classes = rng.choice([None, None, [2], [2, 3]]) if exact else None
    shadow = rng.random() < 0.15
    text = f"name: q{index}, by: [{'customer' if exact else 'ip'}], quota: {{limit: 1, per: {per}, zone: {zone}"
    text += f", anchor: {anchor}" if anchor > 1 else ""
    text += f", count: {{status: [{', '.join(f'{c}xx' for c in classes)}]}}" if classes else ""
    text += "}" + (", mode: shadow" if shadow else "")
    quota = Quota(f"q{index}", Civil(per, zone, anchor), {plan: rule for plan, (rule, _) in pairs.items()},
                  "customer" if exact else "ip", shadow, classes)
    return quota, text, {plan: value for plan, (_, value) in pairs.items()}


def random_other(rng, index):
    units = rng.choice([3, 10, 40])
    by = rng.choice(["ip", "key"])
    if rng.random() < 0.5:
        make, text = lambda: TokenBucket(units, 3600 * 10**9, units), f"rate: {units}/hour, algorithm: token-bucket"
    else:
        make, text = lambda: Window(units, 3600 * 10**9, True), f"rate: {units}/hour, algorithm: sliding-window"
    return Other(f"l{index}", make, [by]), f"name: l{index}, by: [{'api_key' if by == 'key' else by}], {text}"


def random_policy(rng):
    """(limits of the model, upgrades, text)"""
    upgrades = {plan: to for plan, to in (("free", "pro"), ("pro", "top")) if rng.random() < 0.7}
    limits, lines, values = [], [], {plan: {} for plan in PLANS}
    for index in range(rng.randrange(1, 4)):
        quota, line, of_plans = random_quota(rng, index, upgrades)
        limits.append(quota)
        lines.append(line)
        for plan, value in of_plans.items():
            values[plan][quota.name] = value
    if rng.random() < 0.6:
        other, line = random_other(rng, 9)
        at = rng.randrange(len(limits) + 1)
        limits.insert(at, other)
        lines.insert(at, line)
    text = "version: 1\nidentity: {api_key: {header: X-Api-Key}, plan: {default: free, keys: {k1: pro}}}\n"
    text += "customers: {directory: c, by: [api_key], room: 100}\nplans:\n"
    for plan in PLANS:
        quotas = ", ".join(f"{name}: {value}" for name, value in values[plan].items())
        up = f", upgrade_to: {upgrades[plan]}" if plan in upgrades else ""
        text += f"  {plan}: {{quotas: {{{quotas}}}{up}}}\n"
    return limits, upgrades, text + "limits:\n" + "".join(f"  - {{{line}}}\n" for line in lines)


def random_requests(rng):
    ms = moment_ns(rng.choice(STARTS)) // 10**6 + rng.randrange(3600_000)
    for _ in range(REQUESTS):
        ms += rng.choice([0, 1, 50, 60_000, 900_000, 1_800_000, rng.randrange(3600_000)])
        if rng.random() < 0.02:
            ms += 86_400_000 * rng.randrange(1, 20)
        key = rng.choice(["k0", "k0", "k1", "k2", None])
        yield {"ms": ms, "ip": f"192.0.2.{rng.randrange(2)}", "customer": key, "cost": rng.choice([1, 1, 1, 0, 2, 3, 9]),
               "status": rng.choice([200, 200, 201, 302, 404, 500])}


def log_line(request):
    headers = {"X-Api-Key": request["customer"]} if request["customer"] else {}
    return json.dumps({"time": f"{request['ms'] // 1000}.{request['ms'] % 1000:03}", "ip": request["ip"], "path": "/x",
                       "method": "GET", "cost": request["cost"], "status": request["status"], "headers": headers}) + "\n"


def beyond_of(row):
    return [(one["limit"], kind, one[kind]) for one in row.get("beyond", []) for kind in ("overage", "grace") if one[kind]]


SEEN = set()


@pytest.mark.parametrize("number", range(POLICIES))
def test_verdicts(weir, tmp_path, number):
    rng = random.Random(SEED * 1000 + number)
    limits, upgrades, text = random_policy(rng)
    requests = list(random_requests(rng))
    policy, log = tmp_path / "policy.yaml", tmp_path / "log.jsonl"
    policy.write_text(text)
    log.write_text("".join(map(log_line, requests)))
    run = subprocess.run([weir, "replay", "-c", policy, "--verdicts", log], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr + text
    rows = [json.loads(row) for row in run.stdout.splitlines()]
    assert len(rows) == len(requests)
    plans = {}
    for i, (request, row) in enumerate(zip(requests, rows), 1):
        asked = {**request, "plan": "pro" if request["customer"] == "k1" else "free",
                 "key": request["customer"] or "ip " + request["ip"]}
        want = decide(limits, asked, request["ms"] * 10**6, request["cost"], upgrades, plans)
        where = f"seed {SEED}, policy {number}, line {i}:\n{text}{request}\n{want}\n{row}"
        assert (row["verdict"], row["limit"], row["remaining"]) == (want["verdict"], want["limit"], want["remaining"]), where
        retry = None if want["retry_ns"] is None else math.ceil(want["retry_ns"] / 10**6)
        assert row["retry_after_ms"] == retry, where
        assert beyond_of(row) == want["beyond"], where
        assert row.get("upgraded") == (want["upgraded"] and dict(zip(("from", "to"), want["upgraded"]))), where
        SEEN.update({want["verdict"], "upgraded" if want["upgraded"] else None, *(kind for _, kind, _ in want["beyond"])})


def test_all_kinds_were_met():
    if len(SEEN) > 0:  # the tests above ran in this process
        assert SEEN >= {"allow", "deny", "shadow", "overage", "grace", "upgraded"}
