"""What the gateway logged, replayed: where time decides, the same totals per client as it decided live. (Request by
request, where time does not decide: test_nginx_replay.py.)"""
import json
import random
import subprocess

from gateway import Gateway

POLICY = """identity:
  ip: {from: x-forwarded-for, trusted: [127.0.0.1]}
limits:
  - {name: per-ip, by: [ip], rate: 2/second burst 5, algorithm: token-bucket}
"""
JSON_LOG = """log_format replay escape=json '{"time":"$msec","ip":"127.0.0.1","method":"$request_method",'
    '"path":"$request_uri","status":$status,"verdict":"$weir_verdict","headers":{"X-Forwarded-For":"$http_x_forwarded_for"}}';"""


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_totals_per_client(weir):
    with Gateway(POLICY, http=JSON_LOG, server="access_log %(dir)s/json.log replay;") as gate:
        rng = random.Random(6)
        for _ in range(600):
            gate.get("/", headers={"X-Forwarded-For": f"203.0.113.{rng.choice([1, 1, 1, 2, 3])}"})
        log = gate.dir / "json.log"
        gate.wait_for(lambda: len(lines_of(log)) >= 600)
        live = lines_of(log)
        run = subprocess.run([weir, "replay", "-c", gate.policy_file, "--verdicts", log], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
    refused = {}
    for got, want in zip(live, map(json.loads, run.stdout.splitlines())):
        pair = refused.setdefault(got["headers"]["X-Forwarded-For"], [0, 0])
        pair[0] += got["verdict"] == "deny"
        pair[1] += want["verdict"] == "deny"
    # At two a second most are refused however slow the machine is.
    # The log has arrival times to the ms, decisions are to the ns: a request at the edge may fall either way.
    assert sum(got for got, _ in refused.values()) > 50
    for client, (got, want) in refused.items():
        assert abs(got - want) <= max(2, got // 50), (client, got, want)
