"""The same requests through the gateway and through `weir replay` get the same verdicts, to the unit."""

import json
import os
import random
import re
import subprocess
import time

from gateway import gateway  # noqa: F401 (a fixture)

# Windows are a day: what passes between the two runs, and within them, is no unit of any limit. Those aligned to
# the clock (fixed and sliding windows) are left out: a day's end could lie between.
POLICY = """identity:
  ip: {from: x-forwarded-for, trusted: [127.0.0.1, 10.0.0.0/8], ipv6_prefix: 64}
  api_key: {header: X-Api-Key}
  user: {header: X-User-Id}
  plan: {default: free, keys: {key-3: pro}}
bans: [{ip: 203.0.113.66}]
costs:
  - {match: {method: POST, path: /reports}, cost: 3}
limits:
  - {name: per-ip, by: [ip], rate: 60/day, algorithm: token-bucket}
  - {name: per-key, by: [api_key], when_missing: ip, rate: {free: 20/day, pro: 90/day}, algorithm: token-bucket}
  - {name: search, match: {method: [GET, POST], path: /search/**}, by: [api_key, route], when_missing: skip,
     rate: 7/day, algorithm: sliding-log}
  - {name: item, match: {path: "/items/{id}"}, by: [ip, route], rate: 5/day, algorithm: token-bucket}
  - {name: user, match: {path: /me}, by: [user], when_missing: deny, rate: 9/day, algorithm: token-bucket}
  - {name: trial, by: [ip], rate: 4/day, algorithm: token-bucket, mode: shadow}
"""

PATHS = ["/", "/a/b?x=1", "/search/x", "/search//y/", "/search/%78", "/items/1", "/items/2", "/items/1/", "/me", "/reports",
         "/./items/3", "/q/../search/z"]
CLIENTS = ["203.0.113.1", "203.0.113.2:4711", "198.51.100.7, 10.0.0.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1",
           "::ffff:203.0.113.1", "junk", "203.0.113.66", None]


def make_requests(count):
    seed = int(os.environ.get("WEIR_SEED", "20261130"))
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(count):
        headers = {}
        client, key = rng.choice(CLIENTS), rng.choice([None, "key-1", "key-2", "key-3", ""])
        if client is not None:
            headers["X-Forwarded-For"] = client
        if key is not None:
            headers["X-Api-Key"] = key
        if rng.random() < 0.3:
            headers["X-User-Id"] = rng.choice(["ann", "bob"])
        yield {"method": rng.choice(["GET", "GET", "GET", "POST", "DELETE"]), "path": rng.choice(PATHS),
               "headers": headers}


def live(gate, requests):
    connection, verdicts = gate.connect(), []
    for r in requests:
        answer = gate.get(r["path"], r["method"], headers=r["headers"], connection=connection)
        verdict, limit, remaining = answer.one("V").split(",")
        assert answer.status == (429 if verdict == "deny" else 200)
        verdicts.append((verdict, limit or None, int(remaining) if remaining else None))
    return verdicts


def replayed(weir, policy, log, requests):
    now = time.time()
    with log.open("w") as f:
        for i, r in enumerate(requests):
            line = {"time": round(now + i / 1000, 3), "ip": "127.0.0.1", "status": 200, **r}
            f.write(json.dumps(line) + "\n")
    done = subprocess.run([weir, "replay", "-c", policy, "--verdicts", log], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(row["verdict"], row["limit"], row["remaining"]) for row in rows]


def test_gateway_and_replay_agree(gateway, weir):
    g = gateway(POLICY, workers=2,
                server='add_header V "$weir_verdict,$weir_limit,$weir_remaining" always; weir_options on;')
    requests = list(make_requests(1200))
    ours = live(g, requests)
    assert not re.search(r"\[(alert|crit|error)\]", g.errors())
    theirs = replayed(weir, g.policy_file, g.dir / "log.jsonl", requests)
    assert len(ours) == len(theirs)
    for i, (a, b) in enumerate(zip(ours, theirs)):
        assert a == b, f"request {i}: {requests[i]}"
    kinds = {verdict for verdict, _, _ in ours}
    assert kinds == {"allow", "deny", "shadow"}  # the requests reach every kind
