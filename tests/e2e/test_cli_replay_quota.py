"""Quotas of customers in `weir replay`: what would have been overage, grace, an upgrade, and what would be refused. The
numbers are worked out in the comments."""
import json
import os
import subprocess

import pytest

from replaying import line, report, run, verdicts

HEAD = """version: 1
identity: {{api_key: {{header: X-Api-Key}}, plan: {{default: free, keys: {{k-pro: pro}}}}}}
customers: {{directory: c, by: [api_key]{customers}}}
plans:
  free: {free}
  pro: {pro}
limits:
"""


def policy(tmp_path, *limits, free="{}", pro="{}", customers=""):
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD.format(free=free, pro=pro, customers=customers) + "".join(f"  - {{{limit}}}\n" for limit in limits))
    return path


def log(tmp_path, *requests):
    """(key, cost) at 20:00Z of 2026-03-01 and each a second later; or (key, cost, time, members)."""
    path = tmp_path / "log.jsonl"
    with path.open("w") as out:
        for i, (key, cost, *more) in enumerate(requests):
            time = more[0] if more else f"2026-03-01T20:00:{i:02}Z"
            members = more[1] if len(more) > 1 else {}
            out.write(line(time, cost=cost, **members, **({"headers": {"X-Api-Key": key}} if key else {})))
    return path


def said(row):
    """verdict, remaining, then what was beyond."""
    out = [row["verdict"], row["remaining"]]
    for beyond in row.get("beyond", []):
        out += [kind for kind in ("overage", "grace") if beyond[kind]] + [beyond["overage"] + beyond["grace"]]
    if "upgraded" in row:
        out.append(row["upgraded"]["from"] + ">" + row["upgraded"]["to"])
    return out


def replayed(weir, rules, lines):
    return [said(row) for row in verdicts(weir, rules, lines)]


DAILY = "name: daily, by: [customer], quota: {limit: %s, per: day, zone: Europe/Istanbul%s}"


def limit_of(weir, rules, lines, name="daily"):
    whole = report(weir, rules, lines)
    return whole, next(limit for limit in whole["limits"] if limit["name"] == name)


def test_grace(weir, tmp_path):
    rules = policy(tmp_path, DAILY % (10, ", grace: 25%"))  # 25 % of 10, rounded down: 12 in all
    lines = log(tmp_path, ("a", 6), ("a", 3), ("a", 2), ("a", 2), ("a", 1), ("a", 1), ("b", 12),
                ("a", 1, "2026-03-01T21:00:00Z"))  # midnight in Istanbul
    assert replayed(weir, rules, lines) == [
        ["allow", 4], ["allow", 1],
        ["allow", 0, "grace", 1],  # 9 + 2 = 11
        ["deny", 0],               # 13
        ["allow", 0, "grace", 1],  # 12
        ["deny", 0],
        ["allow", 0, "grace", 2],  # another customer: 12 at once, 10 of them included
        ["allow", 9]]
    whole, daily = limit_of(weir, rules, lines)
    assert (whole["allowed"], whole["denied"], daily["denied"], whole["upgrades"]) == (6, 2, 2, [])
    assert (daily["grace"], daily["overage"]) == ({"requests": 3, "units": 4}, {"requests": 0, "units": 0})


def test_overage_to_a_ceiling(weir, tmp_path):
    rules = policy(tmp_path, DAILY % (5, ", on_exceed: overage, ceiling: 8"))
    lines = log(tmp_path, ("a", 4), ("a", 3), ("a", 2), ("a", 1), ("a", 1), ("b", 9), (None, 3))
    rows = verdicts(weir, rules, lines)
    assert [said(row) for row in rows] == [
        ["allow", 1],
        ["allow", 0, "overage", 2],  # 7
        ["deny", 0],                 # 9
        ["allow", 0, "overage", 1],  # 8
        ["deny", 0],
        ["deny", 5],                 # nothing holds 9
        ["allow", None]]             # nobody's: no quota
    assert rows[2]["retry_after_ms"] == 3598000 and rows[5]["retry_after_ms"] is None
    whole, daily = limit_of(weir, rules, lines)
    assert (whole["denied"], daily["overage"], daily["grace"]["units"]) == (3, {"requests": 2, "units": 3}, 0)


def test_overage_without_end(weir, tmp_path):
    rules = policy(tmp_path, DAILY % (5, ", on_exceed: overage"))
    lines = log(tmp_path, *[("a", 3)] * 50)
    whole, daily = limit_of(weir, rules, lines)
    assert (whole["denied"], daily["overage"]) == (0, {"requests": 49, "units": 145})  # the second: 6, then 48 times 3


UPGRADES = """
  free: {quotas: {daily: {limit: 3, on_exceed: upgrade}}, upgrade_to: starter}
  starter: {limits: {per-key: 1000/hour}, quotas: {daily: {limit: 5, on_exceed: upgrade}}, upgrade_to: pro}
  pro: {quotas: {daily: 10}}
"""


def upgrading(tmp_path, confirm=""):
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\nidentity: {api_key: {header: X-Api-Key}, plan: {default: free, keys: {k-pro: pro}}}\n"
                    f"customers: {{directory: c, by: [api_key]{confirm}}}\nplans:{UPGRADES}limits:\n"
                    f"  - {{{DAILY % (3, '')}}}\n  - {{name: per-key, by: [customer], rate: 500/hour, algorithm: token-bucket}}\n")
    return path


@pytest.mark.parametrize("confirm", ["", ", confirm_upgrade: {url: 'https://example.com/may', secret: 0123456789abcdef}"])
def test_upgrades(weir, tmp_path, confirm):
    """Each step once; to confirm it nobody is there."""
    rules = upgrading(tmp_path, confirm)
    lines = log(tmp_path, *[("a", 1)] * 11, ("b", 4), ("c", 7), ("c", 7), ("k-pro", 9), ("k-pro", 2))
    assert replayed(weir, rules, lines) == [
        ["allow", 2], ["allow", 1], ["allow", 0],
        ["allow", 1, "free>starter"], ["allow", 0],   # 4 and 5 of 5
        ["allow", 4, "starter>pro"],                  # 6 of 10
        ["allow", 3], ["allow", 2], ["allow", 1], ["allow", 0],
        ["deny", 0],                                  # no way up from pro
        ["allow", 1, "free>starter"],                 # b: 4 of 5
        ["deny", 5, "free>starter"],                  # c: one step a request, and 7 is more than 5
        ["allow", 3, "starter>pro"],                  # 7 of 10
        ["allow", 1], ["deny", 1]]                    # pro by its key from the start: 9 and 2 of 10
    whole, daily = limit_of(weir, rules, lines)
    assert whole["upgrades"] == [{"from": "free", "to": "starter", "customers": 3},
                                 {"from": "starter", "to": "pro", "customers": 2}]
    assert daily["denied"] == 3
    text = run(weir, rules, lines).stdout.decode()
    assert "  upgraded from free to starter  3 customers\n  upgraded from starter to pro  2 customers\n" in text


def test_an_upgrade_stays(weir, tmp_path):
    rules = upgrading(tmp_path)
    lines = log(tmp_path, ("a", 4), ("a", 5, "2026-03-02T20:00:00Z"), ("a", 1, "2026-03-02T20:00:01Z"))
    assert replayed(weir, rules, lines) == [["allow", 1, "free>starter"], ["allow", 0], ["allow", 4, "starter>pro"]]


def test_what_is_not_counted(weir, tmp_path):
    """Statuses, and what another limit refuses."""
    rules = policy(tmp_path, DAILY % (3, ", on_exceed: overage, ceiling: 4, count: {status: [2xx]}"),
                   "name: burst, by: [ip], rate: 8/day, algorithm: token-bucket, match: {path: /x}")
    ok, gone, no = {"status": 200}, {"status": 404}, {}
    lines = log(tmp_path, *[("a", 1, f"2026-03-01T20:00:{i:02}Z", members)
                            for i, members in enumerate([gone, ok, gone, ok, no, ok, gone, ok, ok, ok])])
    rows = verdicts(weir, rules, lines)
    assert [row["verdict"] for row in rows] == ["allow"] * 6 + ["deny"] * 4
    # Counted are lines 2, 4, 5 (its status is not known) and 6, which is overage; then the ceiling refuses all, whatever
    # their status will be. Of 8 by address 6 were taken.
    assert said(rows[5]) == ["allow", 0, "overage", 1]
    assert {row["limit"] for row in rows[6:]} == {"daily"}
    whole, burst = limit_of(weir, rules, lines, "burst")
    assert burst["denied"] == 0 and whole["denied"] == 4


def test_more_customers_than_there_is_room_for(weir, tmp_path):
    rules = policy(tmp_path, DAILY % (1, ""), customers=", room: 2")
    lines = log(tmp_path, *[(key, 1) for key in "abcaabc"])
    done = run(weir, rules, "--verdicts", lines)
    assert [json.loads(row)["verdict"] for row in done.stdout.splitlines()] == \
        ["allow", "allow", "allow", "deny", "deny", "deny", "allow"]  # c is nobody
    assert b"those that came last were unknown" in done.stderr


def test_nothing_is_left_behind(weir, tmp_path):
    folder = tmp_path / "tmp"
    folder.mkdir()
    rules, lines = policy(tmp_path, DAILY % (1, "")), log(tmp_path, ("a", 1), ("a", 1))
    argv = [weir, "replay", "-c", rules, lines]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(folder)})
    assert done.returncode == 0 and "refused 1" in done.stdout, done.stderr
    assert list(folder.iterdir()) == []
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(folder / "none")})
    assert done.returncode == 1 and "no folder can be made there (TMPDIR)" in done.stderr
