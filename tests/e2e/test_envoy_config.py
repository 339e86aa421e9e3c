"""What a file of envoyproxy/ratelimit can say, through the gRPC door; and the two switches for how the reference
counts. Expected values are worked out by hand from its documentation."""
import datetime
import time

import pytest

from grpc_client import OK, OVER, GrpcClient, descriptor
from serving import Daemon, today

SHOP = """domain: shop
descriptors:
  - key: nested
    value: a
    rate_limit: {unit: day, requests_per_unit: 9}
    descriptors:
      - {key: path, value: /x, rate_limit: {unit: hour, requests_per_unit: 7}}
      - {key: path, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: wild, value: "a*z", rate_limit: {unit: DAY, requests_per_unit: 2}}
  - {key: shared, value: "a*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: low, rate_limit: {name: low, unit: day, requests_per_unit: 1}}
  - {key: high, rate_limit: {name: high, unit: day, requests_per_unit: 4, replaces: [{name: low}]}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: quota1, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: quota2, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: never, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: hits, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: other, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 10}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 10}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 10}}
"""
POLICY = """version: 1
arena: {path: "%s/arena", size: 4MiB}
listen: {threads: 1, grpc: 127.0.0.1:0}
envoy_ratelimit: {files: [shop.yaml]%s}
"""
SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK = range(1, 8)
ALL = (1 << 32) - 1


@pytest.fixture
def start(build, weir, tmp_path):
    if not (build / "venv/requirements.txt").exists():
        pytest.skip("no grpcio: scripts/venv.sh has not run")
    started = []

    def run(options=""):
        (tmp_path / "shop.yaml").write_text(SHOP)
        (tmp_path / "policy.yaml").write_text(POLICY % (tmp_path, options))
        daemon = Daemon([weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"]).ready()
        client = GrpcClient(build, "%s:%d" % daemon.address("grpc"))
        started.extend([daemon, client])

        def ask(*descriptors, hits=0):
            a = client.ask("shop", *[d if isinstance(d, bytes) else [d] if isinstance(d, tuple) else d
                                     for d in descriptors], hits=hits)
            return a["code"], [(s["code"], s.get("units"), s.get("unit"), s["remaining"]) for s in a["statuses"]]
        ask.client = client
        return ask

    yield run
    for thing in reversed(started):
        thing.close()


def test_levels_values_and_wildcards(start):
    today()
    ask = start()
    assert ask(("nested", "a")) == (OK, [(OK, 9, DAY, 8)])
    assert ask([("nested", "a"), ("path", "/x")]) == (OK, [(OK, 7, HOUR, 6)])
    assert ask([("nested", "a"), ("path", "/y")]) == (OK, [(OK, 5, MINUTE, 4)])
    for longer_or_other in ([("nested", "b")], [("nested", "a"), ("path", "/x"), ("ip", "1")], [("path", "/x")]):
        assert ask(longer_or_other) == (OK, [(OK, None, None, 0)])
    for value in ("az", "a-z", "a*z"):  # a counter for each value
        assert ask(("wild", value)) == (OK, [(OK, 2, DAY, 1)])
    assert ask(("wild", "azb")) == (OK, [(OK, None, None, 0)])
    assert [ask(("shared", v))[1][0][3] for v in ("a1", "a2", "a3")] == [2, 1, 0]  # one for all
    assert ask(("shared", "a4"))[0] == OVER


def test_unlimited_replaces_shadow_and_quota(start):
    today()
    ask = start()
    assert ask(("free", "x"), hits=1000) == (OK, [(OK, None, None, ALL)])
    assert ask(("never", "x"))[0] == OVER
    for left in (3, 2, 1):  # low is replaced where high is asked for as well, and not counted
        assert ask(("low", "x"), ("high", "x")) == (OK, [(OK, None, None, 0), (OK, 4, DAY, left)])
    assert ask(("low", "x")) == (OK, [(OK, 1, DAY, 0)])
    assert ask(("low", "x")) == (OVER, [(OVER, 1, DAY, 0)])
    for _ in range(3):
        assert ask(("trial", "x")) == (OK, [(OK, 1, DAY, 0)])
    # A quota that is over says so; the whole is over when all quotas are, or a limit that is none.
    assert ask(("quota1", "x"), ("quota2", "x")) == (OK, [(OK, 1, DAY, 0), (OK, 2, DAY, 1)])
    assert ask(("quota1", "x"), ("quota2", "x")) == (OK, [(OVER, 1, DAY, 0), (OK, 2, DAY, 0)])
    assert ask(("quota1", "x"), ("quota2", "x"))[0] == OVER
    assert ask(("quota1", "y"), ("low", "x"))[0] == OVER
    assert ask(("quota1", "y"))[0] == OK  # and the refused one took nothing of it


def test_hits_and_overrides(start):
    today()
    ask = start()
    one = [("hits", "x")]
    assert ask(descriptor(one, hits=4), [("other", "x")], hits=2)[1] == [(OK, 10, DAY, 6), (OK, 10, DAY, 8)]
    assert ask(descriptor(one, hits=0), hits=9)[1] == [(OK, 10, DAY, 6)]
    assert ask(descriptor(one, hits=7))[0] == OVER
    assert ask(descriptor(one, hits=3, negative=True)) == (OK, [(OK, 10, DAY, 9)])
    assert ask(descriptor(one, hits=99, negative=True)) == (OK, [(OK, 10, DAY, 10)])  # down to nothing, no further
    assert ask(descriptor([("nobody", "x")], limit=(3, HOUR))) == (OK, [(OK, 3, HOUR, 2)])
    assert ask(descriptor(one, limit=(20, MINUTE)), hits=5) == (OK, [(OK, 20, MINUTE, 15)])
    assert ask(descriptor([("trial", "o")], limit=(0, SECOND)))[0] == OVER  # an override is never in shadow


@pytest.mark.parametrize("options, left", [("", 8), (", count_over_limit: true", 4)])
def test_a_refused_question_consumes_nothing_or_all(start, options, left):
    today()
    ask = start(options)
    assert ask(("hits", "x"), hits=9)[0] == OK
    for _ in range(2):
        code, statuses = ask(("hits", "x"), ("other", "x"), hits=2)
        assert (code, [s[0] for s in statuses]) == (OVER, [OVER, OK])
    assert ask(("other", "x"), hits=2)[1][0][3] == left


def until(now, unit, epoch):
    """Seconds to the end of the window, by the calendar or by the reference's arithmetic."""
    if epoch:
        size = {WEEK: 604800, MONTH: 2592000, YEAR: 31536000}[unit]
        return size - now % size
    day = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    end = {WEEK: day + datetime.timedelta(7 - day.weekday()),
           MONTH: (day.replace(day=1) + datetime.timedelta(32)).replace(day=1),
           YEAR: day.replace(year=day.year + 1, month=1, day=1)}[unit]
    return end.timestamp() - now


@pytest.mark.parametrize("epoch", [False, True])
def test_windows_of_the_calendar_or_of_the_epoch(start, epoch):
    ask = start(", windows: epoch" if epoch else "")
    for name, unit in (("week", WEEK), ("month", MONTH), ("year", YEAR)):
        status = ask.client.ask("shop", [(name, "x")])["statuses"][0]
        assert status["unit"] == unit
        assert abs(status["reset"] - until(time.time(), unit, epoch)) < 20


def test_headers_and_global_shadow(start):
    today()
    ask = start(", headers: true, shadow_mode: true")
    assert ask(("low", "x"))[0] == OK
    a = ask.client.ask("shop", [("low", "x")], [("hits", "x")])
    assert a["code"] == OK and [s["code"] for s in a["statuses"]] == [OVER, OK]
    assert a["headers"]["RateLimit-Limit"] == "1" and a["headers"]["RateLimit-Remaining"] == "0"
    assert 1 <= int(a["headers"]["RateLimit-Reset"]) <= 86400
