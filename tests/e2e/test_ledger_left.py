"""Quotas that a policy has no more: what they counted is billed. Flushes are a minute apart, so that it is no ordinary
one that writes it."""
import json
import os
import signal
import subprocess

import pytest

from http_door import Door
from serving import wait_for
from test_ledger import DAILY, IDENTITY, ROSTER, ask, more, rows

REQUESTS = DAILY.replace("daily", "requests")


@pytest.fixture
def make(weir, tmp_path):
    doors = []
    (tmp_path / "customers.yaml").write_text(ROSTER)

    def start(limits=(DAILY,)):
        door = Door(weir, tmp_path / "policy.yaml", limits, IDENTITY, more(tmp_path).replace("100ms", "1m"),
                    "http: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 1")
        doors.append(door)
        return door
    yield start
    for door in doors:
        door.close()


def used(tmp_path):
    return dict(rows(tmp_path, "SELECT q.name, sum(u.used) FROM usage AS u JOIN quota AS q ON q.id = u.quota"
                               " GROUP BY q.name"))


def reload(door, limits, times=1):
    door.write(limits)
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded", times)


def decides_by(door, quota):
    """The loop has taken the policy that has it."""
    answer = door.check(headers={"X-Api-Key": "k-acme"}, method="GET", path="/", cost=0)
    return quota in json.dumps(answer)


def sound(weir, door):
    done = subprocess.run([weir, "usage", "-c", door.policy, "--verify"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.stdout, done.stderr)


def test_a_quota_that_is_renamed_is_written(make, weir, tmp_path):
    door = make()
    assert ask(door, "k-acme", cost=5) == "allow"
    reload(door, [REQUESTS])
    wait_for("the old name in the ledger", lambda: used(tmp_path).get("daily") == 5)
    wait_for("the new policy", lambda: decides_by(door, "requests"))
    assert ask(door, "k-acme", cost=7) == "allow"
    reload(door, [DAILY], 2)  # and back: it goes on from what it was
    wait_for("the new name in the ledger", lambda: used(tmp_path).get("requests") == 7)
    wait_for("the old policy", lambda: decides_by(door, "daily"))
    assert ask(door, "k-acme", cost=2) == "allow"
    assert door.end() == 0
    assert used(tmp_path)["daily"] == 7
    sound(weir, door)


def test_a_quota_that_is_renamed_while_nobody_serves_is_written(make, weir, tmp_path):
    door = make()
    wait_for("the first turn", lambda: rows(tmp_path, "SELECT count(*) FROM quota") == [(1,)])
    for _ in range(20):  # some of it after the first turn of the keeper's thread
        assert ask(door, "k-acme") == "allow"
    os.kill(door.daemon.process.pid, signal.SIGKILL)
    door.daemon.wait()
    door = make([REQUESTS])
    wait_for("the old name in the ledger", lambda: used(tmp_path).get("daily") == 20)
    sound(weir, door)


def test_a_quota_that_is_taken_away_is_written(make, weir, tmp_path):
    door = make()
    assert ask(door, "k-acme", cost=5) == "allow"
    reload(door, ["name: per-ip, by: [ip], rate: 1000/second"])
    wait_for("it in the ledger", lambda: used(tmp_path) == {"daily": 5})
    sound(weir, door)
