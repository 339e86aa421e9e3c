"""A log sent as live traffic through the gateway, and the same log through `weir replay`: the same verdicts.

The times differ (years against seconds), so limits are used for which time does not decide: windows of a day in
the policy, all of the log inside one of them. Then request by request the verdicts must be equal. Where time
decides, what the gateway itself logged (arrival times in ms) is replayed, and totals per client are compared."""
import json
import random
import subprocess

from gateway import Gateway

IDENTITY = "identity:\n  ip: {from: x-forwarded-for, trusted: [127.0.0.1]}\n  api_key: {header: X-Api-Key}\n"
DAILY = IDENTITY + """limits:
  - {name: per-ip, by: [ip], rate: 40/day, algorithm: token-bucket}
  - {name: per-key, by: [api_key], when_missing: skip, rate: 25/day, algorithm: sliding-log}
  - {name: search, match: {path: /search/**}, by: [ip, route], rate: 10/day}
  - {name: trial, by: [ip], rate: 15/day, algorithm: fixed-window, mode: shadow}
costs:
  - {match: {method: POST, path: /reports}, cost: 10}
"""
FAST = IDENTITY + "limits:\n  - {name: per-ip, by: [ip], rate: 20/second burst 5, algorithm: token-bucket}\n"
JSON_LOG = """log_format replay escape=json '{"time":"$msec","ip":"127.0.0.1","method":"$request_method","path":"$request_uri",'
    '"status":$status,"verdict":"$weir_verdict","limit":"$weir_limit","headers":{"X-Forwarded-For":"$http_x_forwarded_for",'
    '"X-Api-Key":"$http_x_api_key"}}';"""


def traffic(rng, count):
    for i in range(count):
        method, path = rng.choice([("GET", "/"), ("GET", "/search/a"), ("GET", "/search//b/"), ("POST", "/reports"),
                                   ("GET", "/x%41?q=1"), ("HEAD", "/search/a/../b")])
        headers = {"X-Forwarded-For": rng.choice(["203.0.113.1", "203.0.113.2, 127.0.0.1", "2001:db8::1", "2001:DB8:0::2"])}
        if rng.random() < 0.5:
            headers["X-Api-Key"] = f"key-{rng.randrange(3)}"
        yield method, path, headers


def replay(weir, policy, log):
    run = subprocess.run([weir, "replay", "-c", policy, "--verdicts", log], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_request_by_request(weir, tmp_path):
    requests, log = list(traffic(random.Random(5), 400)), tmp_path / "log.jsonl"
    with open(log, "w") as out:
        for i, (method, path, headers) in enumerate(requests):
            out.write(json.dumps(dict(time=1767230000 + i, ip="127.0.0.1", method=method, path=path, headers=headers)) + "\n")
    with Gateway(DAILY, http=JSON_LOG, server="access_log %(dir)s/json.log replay;") as gate:
        for method, path, headers in requests:
            gate.get(path, method, headers)
        live_log = gate.dir / "json.log"
        gate.wait_for(lambda: len(live_log.read_text().splitlines()) >= 400)
        live = [json.loads(line) for line in live_log.read_text().splitlines()]
        wanted = replay(weir, gate.policy_file, log)
    assert len(live) == len(wanted) == 400
    for i, (got, want) in enumerate(zip(live, wanted)):
        assert (got["verdict"], got["limit"]) == (want["verdict"], want["limit"]), (i, requests[i], got, want)
    seen = {want["verdict"] for want in wanted}
    assert seen == {"allow", "deny", "shadow"}  # the log says something
    assert {want["limit"] for want in wanted if want["verdict"] == "deny"} == {"per-ip", "per-key", "search"}


def test_totals_per_client_where_time_decides(weir):
    with Gateway(FAST, http=JSON_LOG, server="access_log %(dir)s/json.log replay;") as gate:
        rng = random.Random(6)
        for i in range(600):
            gate.get("/", headers={"X-Forwarded-For": f"203.0.113.{rng.choice([1, 1, 1, 2, 3])}"})
        live_log = gate.dir / "json.log"
        gate.wait_for(lambda: len(live_log.read_text().splitlines()) >= 600)
        live = [json.loads(line) for line in live_log.read_text().splitlines()]
        wanted = replay(weir, gate.policy_file, live_log)
    refused = {}
    for got, want in zip(live, wanted):
        pair = refused.setdefault(got["headers"]["X-Forwarded-For"], [0, 0])
        pair[0] += got["verdict"] == "deny"
        pair[1] += want["verdict"] == "deny"
    # The log has arrival times to the ms, decisions are to the ns: a request at the edge may fall either way.
    assert sum(got for got, _ in refused.values()) > 50
    for client, (got, want) in refused.items():
        assert abs(got - want) <= max(2, got // 50), (client, got, want)
