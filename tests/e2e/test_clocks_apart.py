"""The machine's clock was set after the arena was made. What customers used is counted in the machine's days; rates, and what
all nodes share, go on by the arena's clock, and somebody is told."""
import http.client
import json
import struct
import subprocess
import time
import urllib.request

import pytest

from serving import Daemon, wait_for

HOURS_3 = 3 * 3600
POLICY = """version: 1
arena: {{path: {folder}/arena, size: 4MiB}}
listen: {{admin: 127.0.0.1:0, http: 127.0.0.1:0, threads: 1}}
identity: {{api_key: {{header: X-Api-Key}}}}
customers: {{directory: {folder}/state, by: [api_key], room: 100, flush: 100ms}}
limits:
  - {{name: per-ip, by: [ip], rate: 1000000/minute}}
  - {{name: daily, by: [customer], quota: {{limit: 10, per: day, zone: {zone}}}}}
"""


def zone_at(hour):
    """One in which it is between |hour| and an hour later now, and by how many hours it is east."""
    east = (hour - time.gmtime().tm_hour + 12) % 24 - 12
    return f"Etc/GMT{'-' if east > 0 else '+'}{abs(east)}" if east else "Etc/GMT", east


def use(daemon, cost):
    connection = http.client.HTTPConnection(*daemon.address("http"))
    connection.request("POST", "/v1/check", json.dumps({"headers": {"X-Api-Key": "k-acme"}, "ip": "192.0.2.1", "cost": cost}),
                       {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def quota(answer):
    return next(limit for limit in answer["limits"] if limit["name"] == "daily")


def get(daemon, path):
    with urllib.request.urlopen("http://%s:%d%s" % (*daemon.address("admin"), path)) as reply:
        return reply.read().decode()


def behind(daemon):
    """Seconds, by clock."""
    lines = [line for line in get(daemon, "/metrics").splitlines() if line.startswith("weir_clock_behind_seconds{")]
    return {line.split('"')[1]: float(line.split()[1]) for line in lines}


# At 1 in the morning by the machine's clock the arena's still has the day before; at 22, three hours ahead, the day after.
@pytest.mark.parametrize("late, hour, words, clock", [(HOURS_3, 1, "ahead of", "decisions"), (-HOURS_3, 22, "behind", "machine")])
def test_days_are_the_machines(weir, tmp_path, late, hour, words, clock):
    zone, east = zone_at(hour)
    (tmp_path / "policy.yaml").write_text(POLICY.format(folder=tmp_path, zone=zone))
    command = [weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"]
    subprocess.run([weir, "customer", "-c", tmp_path / "policy.yaml", "create", "acme", "--value", "-"], input="k-acme\n", text=True,
                   check=True, capture_output=True)
    daemon = Daemon(command).ready()
    assert quota(use(daemon, 3))["remaining"] == 7
    assert json.loads(get(daemon, "/readyz"))["detail"] == "serving" and behind(daemon) == {"decisions": 0, "machine": 0}
    assert daemon.end() == 0
    with open(tmp_path / "arena", "r+b") as arena:  # docs/formats/arena.md: offset_ns and recorded_ns
        arena.seek(168)
        times = [ns - late * 10**9 for ns in struct.unpack("<2q", arena.read(16))]
        arena.seek(168)
        arena.write(struct.pack("<2q", *times))
    daemon = Daemon(command).ready()
    detail = json.loads(get(daemon, "/readyz"))["detail"]
    seconds = behind(daemon)
    assert detail.startswith("serving, the machine's clock is ") and f" s {words} the clock of decisions" in detail, detail
    assert abs(int(detail.split()[5]) - HOURS_3) <= 1 and abs(seconds.pop(clock) - HOURS_3) < 1 and list(seconds.values()) == [0]
    assert f" s {words} the clock of decisions" in daemon.event("clocks apart")["detail"]

    # What was used today still is, and the day ends when it does.
    assert quota(use(daemon, 5))["remaining"] == 2
    refused = use(daemon, 5)
    assert refused["verdict"] == "deny"
    left_s = 86400 - (time.time() + east * 3600) % 86400
    assert abs(refused["retry_after_ms"] / 1000 - left_s) < 60
    used = wait_for("the ledger", lambda: [line for line in json.loads(subprocess.run(
        [weir, "usage", "-c", tmp_path / "policy.yaml", "--json", "acme"], check=True, capture_output=True, text=True).stdout)["quotas"]
        if line["used"] == 8])
    assert used[0]["remaining"] == 2
    assert daemon.end() == 0
    assert sum(event["event"] == "clocks apart" for event in daemon.events) == 1
