"""Random policies over random traffic: `weir replay --verdicts` against the model, request by request."""
import json
import math
import os
import random
import subprocess

import pytest

from policy_model import LeakyBucket, Limit, SlidingLog, TokenBucket, Window, decide

SEED = int(os.environ.get("WEIR_SEED", "20261130"))
POLICIES, REQUESTS = 40, 500
UNITS = {"second": 10**9, "minute": 60 * 10**9, "hour": 3600 * 10**9, "250ms": 25 * 10**7, "7s": 7 * 10**9}
START_MS = 1767225600000  # 2026-01-01


def random_limit(rng, index):
    algorithm = rng.choice(["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"])
    unit = rng.choice(list(UNITS))
    units, window = rng.choice([1, 2, 3, 5, 7, 10, 30]), UNITS[unit]
    rate = f"{units}/{unit}"
    if algorithm == "token-bucket":
        burst = rng.choice([units, 1, 4, 20])
        rate += f" burst {burst}"
        make = lambda: TokenBucket(units, window, burst)
    elif algorithm == "leaky-bucket":
        queue = rng.choice([0, 1, 5])
        rate += f" queue {queue}"
        make = lambda: LeakyBucket(units, window, queue)
    elif algorithm == "sliding-log":
        make = lambda: SlidingLog(units, window)
    else:
        make = lambda: Window(units, window, algorithm == "sliding-window")
    by = rng.choice([[], ["api_key"], ["user"], ["api_key", "user"], ["ip"]])
    limit = Limit(f"l{index}", make, by, shadow=rng.random() < 0.2)
    text = f"  - {{name: l{index}, by: [{', '.join(by)}], rate: {rate}, algorithm: {algorithm}"
    return limit, text + (", mode: shadow}" if limit.shadow else "}")


def random_requests(rng):
    ms = START_MS + rng.randrange(10**7)
    for _ in range(REQUESTS):
        ms += rng.choice([0, 0, 1, 7, 50, 333, 1000, rng.randrange(5000)])
        if rng.random() < 0.01:
            ms += rng.choice([60_000, 3_600_000, 86_400_000 * 400])  # idle for long
        yield dict(ms=ms, ip=f"192.0.2.{rng.randrange(2)}", api_key=f"k{rng.randrange(3)}",
                   user=f"u{rng.randrange(2)}", cost=rng.choice([1, 1, 1, 1, 0, 2, 3, 8]))


def log_line(request):
    return json.dumps({"time": f"{request['ms'] // 1000}.{request['ms'] % 1000:03}", "ip": request["ip"],
                       "method": "GET", "path": "/x", "cost": request["cost"],
                       "headers": {"X-Api-Key": request["api_key"], "X-User-Id": request["user"]}})


def ceil_ms(ns):
    return math.ceil(ns / 10**6)


@pytest.mark.parametrize("number", range(POLICIES))
def test_verdicts(weir, tmp_path, number):
    rng = random.Random(SEED * 1000 + number)
    pairs = [random_limit(rng, i) for i in range(rng.randrange(1, 5))]
    limits, requests = [limit for limit, _ in pairs], list(random_requests(rng))
    policy, log = tmp_path / "policy.yaml", tmp_path / "log.jsonl"
    policy.write_text("version: 1\nidentity:\n  api_key: {header: X-Api-Key}\n"
                      "  user: {header: X-User-Id, trust: anyone}\nlimits:\n" + "\n".join(text for _, text in pairs) + "\n")
    log.write_text("".join(log_line(request) + "\n" for request in requests))
    run = subprocess.run([weir, "replay", "-c", policy, "--verdicts", log], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    got = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(got) == len(requests)
    for i, request in enumerate(requests):
        want = decide(limits, request, request["ms"] * 10**6, request["cost"])
        where = f"seed {SEED}, policy {number}, line {i + 1}: {policy.read_text()}\n{request}\n{want}\n{got[i]}"
        assert got[i]["line"] == i + 1, where
        for member in ("verdict", "limit", "remaining"):
            assert got[i][member] == want[member], where
        if want["retry_ns"] is None:
            assert got[i]["retry_after_ms"] is None, where
        else:
            assert abs(got[i]["retry_after_ms"] - ceil_ms(want["retry_ns"])) <= 1, where
        assert abs(got[i]["delay_ms"] - ceil_ms(want["delay_ns"])) <= 1, where
