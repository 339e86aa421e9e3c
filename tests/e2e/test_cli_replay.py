"""`weir replay`: its contract on small logs, order, several files, clients, exactness."""
import json
import os
import random
import subprocess
import time
from collections import defaultdict

import pytest

from replaying import line, one_limit, report, run, verdicts

SEED = int(os.environ.get("WEIR_SEED", "20261130"))
T0 = 1767225600  # 2026-01-01T00:00:00Z


def clf(t, ip, request="GET / HTTP/1.1", status=200, rest=' "-" "agent"'):
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(t))
    return f'{ip} - - [{stamp}] "{request}" {status} 10{rest}\n'


# ---- the contract --------------------------------------------------------------------------------


def test_verdict_lines(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 2/second, algorithm: token-bucket, match: {path: /x}")
    log = tmp_path / "log"
    log.write_text(line(T0) + line("2026-01-01T00:00:00Z") + "junk\n" + line(f"{T0}.1") + line(f"{T0}.2", path="/y"))
    assert verdicts(weir, policy, log) == [
        {"line": 1, "time": "2026-01-01T00:00:00Z", "verdict": "allow", "limit": "x", "remaining": 1,
         "retry_after_ms": None, "delay_ms": 0},
        {"line": 2, "time": "2026-01-01T00:00:00Z", "verdict": "allow", "limit": "x", "remaining": 0,
         "retry_after_ms": None, "delay_ms": 0},
        {"line": 4, "time": "2026-01-01T00:00:00.100Z", "verdict": "deny", "limit": "x", "remaining": 0,
         "retry_after_ms": 400, "delay_ms": 0},  # a token every half second, the first due at 0.5 s
        {"line": 5, "time": "2026-01-01T00:00:00.200Z", "verdict": "allow", "limit": None, "remaining": None,
         "retry_after_ms": None, "delay_ms": 0},  # no limit matches
    ]


def test_delay_never_and_shadow(weir, tmp_path):
    delayed = one_limit(tmp_path, "by: [ip], rate: 2/second queue 1, algorithm: leaky-bucket", "delay.yaml")
    log = tmp_path / "log"
    log.write_text(line(T0) + line(T0) + line(T0))
    assert [(v["verdict"], v["delay_ms"], v["retry_after_ms"]) for v in verdicts(weir, delayed, log)] == [
        ("allow", 0, None), ("delay", 500, None), ("deny", 0, 500)]
    shadow = one_limit(tmp_path, "by: [ip], rate: 1/minute, mode: shadow", "shadow.yaml")
    assert [(v["verdict"], v["limit"]) for v in verdicts(weir, shadow, log)] == [
        ("allow", None), ("shadow", "x"), ("shadow", "x")]
    never = one_limit(tmp_path, "by: [ip], rate: 0/minute", "never.yaml")
    assert [(v["verdict"], v["limit"], v["retry_after_ms"]) for v in verdicts(weir, never, log)] == [
        ("deny", "x", None)] * 3


def test_report_object(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 2/minute, algorithm: fixed-window")
    log = tmp_path / "log"
    log.write_text(line(T0, "192.0.2.1") * 5 + line(T0 + 1, "192.0.2.2") * 3 + "junk\n" + line(T0 + 61, "192.0.2.3"))
    found = report(weir, policy, log)
    assert {name: found[name] for name in ("lines", "bad_lines", "requests", "clients", "first", "last")} == {
        "lines": 10, "bad_lines": 1, "requests": 9, "clients": 3,
        "first": "2026-01-01T00:00:00Z", "last": "2026-01-01T00:01:01Z"}
    assert (found["allowed"], found["denied"], found["delayed"], found["shadow"], found["late"]) == (5, 4, 0, 0, 0)
    limit, = found["limits"]
    assert limit["top"] == [{"client": "192.0.2.1", "requests": 5, "denied": 3, "delayed": 0},
                            {"client": "192.0.2.2", "requests": 3, "denied": 1, "delayed": 0}]
    del limit["top"]
    assert limit == {
        "name": "x", "shadow": False, "requests": 9, "denied": 4, "delayed": 0, "clients": 3, "clients_denied": 2,
        "first_denied": "2026-01-01T00:00:00Z", "last_denied": "2026-01-01T00:00:01Z",
        "busiest_minute": {"start": "2026-01-01T00:00:00Z", "denied": 4}}
    assert [(bad["line"], bad["column"]) for bad in found["bad"]] == [(9, 1)]
    assert [len(report(weir, policy, "--top", n, log)["limits"][0]["top"]) for n in (0, 1, 5)] == [0, 1, 2]


def test_text_report_says_what_to_do(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 2/minute, algorithm: fixed-window")
    log = tmp_path / "log"
    log.write_text("".join(line(T0, f"192.0.2.{n}") for n in range(100)) + line(T0, "192.0.2.7") * 5)
    text = run(weir, policy, log).stdout.decode()
    assert "105 requests of 100 clients" in text
    assert "refused 4 (3.8 %), of 1 client (1.0 % of them)" in text
    assert "192.0.2.7: 4 of 6 refused" in text
    assert text.splitlines()[-1].startswith('advice: "x" would touch 1 client (1.0 %)')
    quiet = one_limit(tmp_path, "by: [ip], rate: 200/minute", "quiet.yaml")
    text = run(weir, quiet, log).stdout.decode()
    assert "refused none; the nearest anyone came was 194 of 200 left" in text
    assert "nothing would have been refused" in text


def test_an_empty_log(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 2/minute")
    found = report(weir, policy, stdin=b"")
    assert (found["lines"], found["requests"], found["first"], found["last"]) == (0, 0, None, None)
    assert "no line could be read" in run(weir, policy, stdin=b"").stdout.decode()


# ---- against a model -----------------------------------------------------------------------------


class FixedWindow:
    def __init__(self):
        self.count = defaultdict(int)

    def allows(self, t):
        self.count[t // 60] += 1
        return self.count[t // 60] <= 60


class SlidingLog:
    def __init__(self):
        self.stamps = []

    def allows(self, t):
        self.stamps = [s for s in self.stamps if s > t - 60]
        if len(self.stamps) >= 60:
            return False
        self.stamps.append(t)
        return True


class SlidingWindow:
    def __init__(self):
        self.count = defaultdict(int)

    def allows(self, t):
        index, e = divmod(t, 60)
        if self.count[index - 1] * (60 - e) + (self.count[index] + 1) * 60 > 60 * 60:
            return False
        self.count[index] += 1
        return True


class TokenBucket:
    def __init__(self):
        self.tokens, self.at = 20, 0

    def allows(self, t):
        self.tokens, self.at = min(20, self.tokens + t - self.at), t
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


MODELS = {
    "rate: 60/minute, algorithm: fixed-window, count_denied: true": FixedWindow,
    "rate: 60/minute, algorithm: sliding-log": SlidingLog,
    "rate: 60/minute, algorithm: sliding-window": SlidingWindow,
    "rate: 1/second burst 20, algorithm: token-bucket": TokenBucket,
}


def traffic(rng):
    """A few days of (time, client) in whole seconds: sparse callers, steady ones, bursts, a scanner."""
    requests = []
    for n in range(40):
        t = T0 + rng.randrange(200000)
        for _ in range(rng.choice([1, 3, 30, 200])):
            t += rng.choice([0, 0, 1, 1, 2, 7, rng.randrange(900)])
            requests.append((t, f"198.51.100.{n}"))
    requests += [(T0 + 50000 + i // 17, "203.0.113.9") for i in range(1500)]
    return sorted(requests)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("limit", MODELS)
def test_clients_denied_as_by_a_model(weir, tmp_path, limit, shuffled):
    rng = random.Random(SEED)
    requests, states = traffic(rng), defaultdict(MODELS[limit])
    denied = defaultdict(int)
    for t, client in requests:
        if not states[client].allows(t):
            denied[client] += 1
    if shuffled:  # within each minute, as anonymised logs are
        requests.sort(key=lambda request: (request[0] // 60, rng.random()))
    log = tmp_path / "access.log"
    log.write_text("".join(clf(t, client) for t, client in requests))
    found = report(weir, one_limit(tmp_path, f"by: [ip], {limit}"), "--top", 1000, log)["limits"][0]
    assert {top["client"]: top["denied"] for top in found["top"]} == dict(denied), f"seed {SEED}"
    assert (found["denied"], found["clients_denied"]) == (sum(denied.values()), len(denied))
    assert sum(denied.values()) > 1000


# ---- order ---------------------------------------------------------------------------------------


def test_ties_keep_the_order_of_the_file(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 1/hour")
    log = tmp_path / "log"
    log.write_text(line(T0 + 2) + line(T0 + 1) + line(T0 + 1) + line(T0 + 2))
    assert [v["line"] for v in verdicts(weir, policy, log)] == [2, 3, 1, 4]


def test_later_than_the_window(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 1/minute, algorithm: sliding-log")
    log = tmp_path / "log"
    log.write_text(line(T0 + 100) + line(T0 + 131) + line(T0 + 162) + line(T0 + 90))
    # With 60 s: 100 is given out when 162 comes; 90 is late, and decided at 100, where one was taken.
    got = verdicts(weir, policy, "--reorder-window", "60s", log)
    assert [(v["line"], v["verdict"]) for v in got] == [(1, "allow"), (4, "deny"), (2, "deny"), (3, "allow")]
    assert got[1]["retry_after_ms"] == 60000
    assert report(weir, policy, "--reorder-window", "60s", log)["late"] == 1
    # With the default it is in time.
    assert [v["line"] for v in verdicts(weir, policy, log)] == [4, 1, 2, 3]
    assert report(weir, policy, log)["late"] == 0
    # With none, as they come.
    assert [v["line"] for v in verdicts(weir, policy, "--reorder-window", "0", log)] == [1, 2, 3, 4]


def test_one_line_from_the_future(weir, tmp_path):
    """It waits for its time; what follows is neither lost nor late."""
    policy = one_limit(tmp_path, "by: [ip], rate: 1/second, algorithm: token-bucket")
    log = tmp_path / "log"
    log.write_text(line(T0) + line(T0 + 10**9) + "".join(line(T0 + n) for n in range(1, 1000)))
    found = report(weir, policy, log)
    assert (found["requests"], found["denied"], found["late"]) == (1001, 0, 0)


def test_several_files_are_one_stream(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 1/hour")
    a, b = tmp_path / "a.log", tmp_path / "b.log"
    a.write_text(line(T0 + 5000) + line(T0 + 5002))
    b.write_text(line(T0) + "junk\n" + line(T0 + 5001) + line(T0 + 5002))
    got = verdicts(weir, policy, a, b)
    assert [(v["file"], v["line"]) for v in got] == [
        (str(b), 1), (str(a), 1), (str(b), 3), (str(a), 2), (str(b), 4)]
    found = report(weir, policy, b, a)
    assert (found["lines"], found["bad_lines"], found["requests"]) == (6, 1, 5)
    assert found["bad"][0]["file"] == str(b)


# ---- exactness and time --------------------------------------------------------------------------


def test_nanoseconds_are_exact(weir, tmp_path):
    """In a string; a double would round all three to one moment."""
    policy = one_limit(tmp_path, "by: [ip], rate: 1/second, algorithm: token-bucket")
    log = tmp_path / "log"
    log.write_text('{"time":"1700000000.123456788","ip":"h"}\n{"time":"1700000001.123456787","ip":"h"}\n'
                   '{"time":"1700000001.123456788","ip":"h"}\n')
    got = verdicts(weir, policy, log)
    assert [v["verdict"] for v in got] == ["allow", "deny", "allow"]
    assert got[1]["time"] == "2023-11-14T22:13:21.123456787Z"


# ---- callers -------------------------------------------------------------------------------------


HEAD = "identity:\n  ip: {from: x-forwarded-for, trusted: [10.0.0.0/8], ipv6_prefix: 64}\n"


def test_forwarded_for_is_the_last_quoted_field(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 1/hour", head=HEAD)
    log = tmp_path / "log"
    log.write_text(
        clf(T0, "10.0.0.1", rest=' "-" "a" "198.51.100.1"') + clf(T0, "10.0.0.1", rest=' "-" "a" "198.51.100.2"')
        + clf(T0, "10.0.0.1", rest=' "-" "a" "9.9.9.9, 198.51.100.1"')  # forged on the left: the same caller
        + clf(T0, "203.0.113.5", rest=' "-" "a" "198.51.100.1"')  # not a trusted peer
        + clf(T0, "10.0.0.1", rest=' "-" "a" "-"'))
    assert [v["verdict"] for v in verdicts(weir, policy, log)] == ["allow", "allow", "deny", "allow", "allow"]
    tops = report(weir, policy, log)
    assert tops["clients"] == 4 and tops["limits"][0]["top"][0]["client"] == "198.51.100.1"


def test_an_ipv6_caller_is_its_network(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 1/hour", head=HEAD)
    log = tmp_path / "log"
    log.write_text(clf(T0, "2001:db8:1:2::3") + clf(T0, "2001:db8:1:2:ffff::") + clf(T0, "2001:db8:1:3::3"))
    found = report(weir, policy, log)
    assert (found["clients"], found["denied"]) == (2, 1)
    assert found["limits"][0]["top"][0]["client"] == "2001:db8:1:2::/64"


def test_host_names_and_ports(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 1/hour")
    log = tmp_path / "log"
    log.write_text(clf(T0, "a.example") + clf(T0, "b.example") + clf(T0, "192.0.2.1:1000") + clf(T0, "192.0.2.1:1001"))
    assert [v["verdict"] for v in verdicts(weir, policy, log)] == ["allow", "allow", "allow", "deny"]


def test_header_fields_reach_the_policy(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [api_key], when_missing: skip, rate: 1/hour",
                       head="identity:\n  api_key: {header: X-Api-Key}\n")
    log = tmp_path / "log"
    log.write_text(line(T0, headers={"x-api-KEY": "a"}) + line(T0, headers={"X-Api-Key": "b"})
                   + line(T0, headers={"X-Api-Key": "a"}) + line(T0)
                   + json.dumps({"time_local": "01/Jan/2026:00:00:00 +0000", "remote_addr": "::1",
                                 "request": "GET / HTTP/1.1", "http_x_api_key": "b"}) + "\n")
    assert [(v["verdict"], v["limit"]) for v in verdicts(weir, policy, log)] == [
        ("allow", "x"), ("allow", "x"), ("deny", "x"), ("allow", None), ("deny", "x")]


def test_options_requests_are_not_counted(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], rate: 1/hour")
    log = tmp_path / "log"
    log.write_text(line(T0, method="OPTIONS") * 3 + line(T0))
    got = verdicts(weir, policy, log)
    assert [(v["line"], v["verdict"], v["limit"]) for v in got] == [
        (1, "allow", None), (2, "allow", None), (3, "allow", None), (4, "allow", "x")]
    assert report(weir, policy, log)["uncounted"] == 3


def test_places_are_held_as_long_as_the_log_says(weir, tmp_path):
    policy = one_limit(tmp_path, "by: [ip], concurrent: 2, hold: 1h")
    log = tmp_path / "log"
    log.write_text(line(T0, duration=10) + line(T0 + 1, duration=1.5) + line(T0 + 2, duration=1)
                   + line(T0 + 2.5, duration=0) + line(T0 + 9.999) + line(T0 + 10))
    # 0..10 and 1..2.5 are taken; at 2 there is none, at 2.5 one is free again.
    assert [v["verdict"] for v in verdicts(weir, policy, log)] == [
        "allow", "allow", "deny", "allow", "allow", "allow"]
    log.write_text(line(T0) * 3 + line(T0 + 1))  # no duration: until the clock moves on
    assert [v["verdict"] for v in verdicts(weir, policy, log)] == ["allow", "allow", "deny", "allow"]


# ---- usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments,words", [
    ((), b"a policy is needed"),
    (("-c", "p", "--format", "apache"), b"--format is auto"),
    (("-c", "p", "--top", "-1"), b"--top is a number"),
    (("-c", "p", "--top", "1001"), b"--top is a number"),
    (("-c", "p", "--reorder-window", "5"), b"--reorder-window is a duration"),
    (("-c", "p", "--reorder-window", "5x"), b"--reorder-window is a duration"),
    (("-c", "p", "--no-such"), b"usage: weir replay"),
    (("-c", "p", "-c", "q"), b"--config: given twice"),
    (("-c", "p", "--json", "--verdicts"), b"one of them"),
    (("-c", "p", *["log"] * 257), b"at most 256 logs"),
])
def test_wrong_usage(weir, arguments, words):
    done = subprocess.run([weir, "replay", *arguments], capture_output=True)
    assert done.returncode == 2 and words in done.stderr and done.stdout == b""


def test_help_and_version(weir):
    done = subprocess.run([weir, "replay", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("usage: weir replay -c POLICY")
    for arguments in (["help"], ["--help"]):
        done = subprocess.run([weir, *arguments], capture_output=True, text=True)
        assert done.returncode == 0 and "  replay " in done.stdout
    done = subprocess.run([weir, "version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("weir ")
    done = subprocess.run([weir, "version", "2"], capture_output=True, text=True)
    assert done.returncode == 2 and 'weir version: expected nothing behind it, found "2"' in done.stderr
    for arguments in ([], ["no-such-command"]):
        done = subprocess.run([weir, *arguments], capture_output=True, text=True)
        assert done.returncode == 2 and "usage: weir COMMAND" in done.stderr


def test_a_bad_policy(weir, tmp_path):
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nlimits:\n  - {name: x, by: [ip], rat: 1/second}\n")
    done = run(weir, policy, stdin=b"")
    assert done.returncode == 1 and done.stdout == b""
    assert b"p.yaml:3:" in done.stderr and b"rat" in done.stderr
    done = run(weir, tmp_path / "absent.yaml", stdin=b"")
    assert done.returncode == 1 and b"absent.yaml" in done.stderr


def test_progress_on_a_terminal(weir, tmp_path):
    """Long logs say how far they are; short ones, and files, are left alone."""
    policy = one_limit(tmp_path, "by: [ip], rate: 1/hour")
    try:
        master, slave = os.openpty()
    except OSError as e:
        pytest.skip(f"no terminal can be had: os.openpty: {e}; is /dev/pts mounted?")
    replay = subprocess.Popen([weir, "replay", "-c", policy, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=slave)
    os.close(slave)
    time.sleep(1.1)
    out, _ = replay.communicate(line(T0).encode() * 20000)
    shown = os.read(master, 10000).decode()
    os.close(master)
    assert json.loads(out)["lines"] == 20000
    assert shown.startswith("\r") and " lines, " in shown and "%" not in shown  # a pipe has no size
    assert shown.endswith("\r")  # and is wiped at the end
    assert run(weir, policy, "--json", stdin=line(T0).encode()).stderr == b""
