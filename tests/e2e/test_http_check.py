"""The HTTP door: /v1/check, /v1/reserve, /v1/settle, /v1/release, and the text that describes them."""
import re
import signal

import pytest

from http_door import Door
from openapi import Described

# ---- /v1/check ----------------------------------------------------------------------------------


def test_one_request(door):
    d = door("name: per-ip, by: [ip], rate: 600/minute, algorithm: token-bucket",
             "name: per-key, by: [api_key], rate: 2/hour, algorithm: token-bucket")
    headers = {"X-Api-Key": "k1"}
    first = d.check(headers=headers, method="GET", path="/x", status=200)
    limits = first.pop("limits")
    assert first == dict(verdict="allow", limit="per-key", remaining=1, retry_after_ms=None, delay_ms=0, reason=None,
                         plan=None)
    assert [limit["name"] for limit in limits] == ["per-ip", "per-key"]
    assert limits[1] == dict(name="per-key", verdict="allow", limit=2, remaining=1, retry_after_ms=None, delay_ms=0,
                             reset_ms=1800000, shadow=False)
    assert d.check(headers=headers)["remaining"] == 0
    third = d.check(headers=headers)
    assert (third["verdict"], third["limit"], third["reason"]) == ("deny", "per-key", "limit")
    assert 1790000 < third["retry_after_ms"] <= 1800000
    # A refusal took nothing from the other limit: 600 less the two that were let through, and some came back.
    assert d.check(cost=0)["limits"][0]["remaining"] >= 598
    assert d.check(headers={"X-Api-Key": "k2"})["remaining"] == 1


def test_an_array_is_decided_in_order_at_one_moment(door):
    d = door("name: x, by: [ip], rate: 3/second, algorithm: token-bucket")
    one = {"ip": "192.0.2.1"}
    got = d.check(one, {**one, "cost": 2}, one, {"ip": "192.0.2.2"}, {**one, "method": "OPTIONS"})
    assert [v["verdict"] for v in got] == ["allow", "allow", "deny", "allow", "allow"]
    assert [v["remaining"] for v in got] == [2, 0, 0, 2, None]
    assert got[2]["retry_after_ms"] == 334  # a third of a second, rounded up
    assert got[4]["limits"] == []  # OPTIONS is not counted


def test_many_in_one_array(door):
    d = door("name: x, by: [ip], rate: 500/hour, algorithm: token-bucket")
    got = d.check(*[{"ip": "192.0.2.1"}] * 1000)
    assert [v["remaining"] for v in got[:500]] == list(range(499, -1, -1))
    assert {v["verdict"] for v in got[500:]} == {"deny"}
    assert d.ask("POST", "/v1/check", []).json() == []


def test_peek_takes_nothing(door):
    d = door("name: x, by: [ip], rate: 2/hour, algorithm: token-bucket")
    assert [d.check(peek=True)["remaining"] for _ in range(2)] == [1, 1]
    assert d.check(peek=False)["remaining"] == 1
    assert d.check(cost=0)["remaining"] == 1
    assert d.check(cost=3)["reason"] == "capacity"


def test_what_a_program_vouches_for(door):
    d = door("name: x, by: [user], rate: {free: 1/hour, pro: 5/hour}, algorithm: token-bucket",
             identity="identity: {user: {header: X-User}, plan: {header: X-Plan, default: free}}\n")
    assert d.check(keys={"user": "a"})["remaining"] == 0
    pro = d.check(keys={"user": "b"}, plan="pro")
    assert (pro["remaining"], pro["plan"]) == (4, "pro")
    # A key wins over a header; a header from an untrusted address is not believed.
    assert d.check(keys={"user": "c"}, headers={"X-User": "a"})["verdict"] == "allow"


def test_leaky_buckets_are_told_not_held(door):
    d = door("name: q, by: [ip], rate: 2/second queue 2, algorithm: leaky-bucket")
    got = d.check(*[{"ip": "192.0.2.1"}] * 4)
    assert [(v["verdict"], v["delay_ms"]) for v in got] == [("allow", 0), ("delay", 500), ("delay", 1000), ("deny", 0)]


def test_shadow_and_bans(door):
    d = door("name: s, by: [ip], rate: 1/hour, mode: shadow, algorithm: token-bucket")
    assert [d.check()["verdict"] for _ in range(2)] == ["allow", "shadow"]
    assert d.check()["limits"][0]["shadow"] is True


def test_a_window_of_stamps_is_told_as_long_as_it_is(door):
    """Stamps lie on ticks: 56 ns of a minute, which must not become a millisecond, or the 61st second."""
    d = door("name: log, by: [ip], rate: 3/minute, algorithm: sliding-log",
             "name: places, by: [ip], concurrent: 2, hold: 5s")
    resets = [[limit["reset_ms"] for limit in d.check(ip=f"192.0.2.{i}")["limits"]] for i in range(30)]
    assert resets == [[60000, 5000]] * 30


def test_what_is_tried_out_is_not_told_to_callers(door):
    d = door("name: tried, by: [ip], rate: 1/hour, mode: shadow, algorithm: token-bucket",
             "name: old, by: [ip], rate: 9/hour, algorithm: token-bucket",
             "name: far, by: [ip], rate: 90/hour, algorithm: token-bucket")
    got = [d.check() for _ in range(3)]
    assert [(v["verdict"], v["limit"], v["remaining"], v["retry_after_ms"], v["reason"]) for v in got] == [
        ("allow", "old", 8, None, None), ("shadow", "old", 7, None, None), ("shadow", "old", 6, None, None)]
    alone = door("name: tried, by: [ip], rate: 0/hour, mode: shadow").check()
    assert [alone[m] for m in ("verdict", "limit", "remaining", "retry_after_ms")] == ["shadow", None, None, None]


def test_a_delay_that_cannot_be_held_is_not_laid_on_a_shadow_limit(door):
    d = door("name: tried, by: [ip], rate: 0/hour, mode: shadow",
             "name: slow, by: [ip], rate: 1/hour queue 2, algorithm: leaky-bucket")
    assert [d.auth().status for _ in range(2)] == [200, 429]
    assert d.auth().one("X-Weir-Limit") == "slow"


def test_a_reload_is_met_with_the_next_request(door):
    d = door("name: x, by: [ip], rate: 2/hour, algorithm: token-bucket")
    assert d.check()["remaining"] == 1
    d.text = d.text.replace("api_key: {header: X-Api-Key}", "api_key: {header: X-Other}")
    d.write(["name: y, by: [api_key], when_missing: skip, rate: 7/hour, algorithm: token-bucket"])
    d.daemon.signal(signal.SIGHUP)
    d.daemon.event("reloaded")
    got = d.check(headers={"X-Api-Key": "k", "X-Other": "o"})
    assert (got["limit"], got["remaining"]) == ("y", 6)


# ---- reservations -------------------------------------------------------------------------------


def test_reserve_and_settle(door):
    d = door("name: x, by: [ip], rate: 100/hour, algorithm: token-bucket")
    got = d.check(door="/v1/reserve", cost=40, ttl="30s")
    assert (got["verdict"], got["remaining"]) == ("allow", 60)
    assert re.fullmatch("[0-9a-f]{32}", got["id"])
    reply = d.ask("POST", "/v1/settle", {"id": got["id"], "cost": 25})
    assert (reply.status, reply.json()) == (200, {"settled": True})
    assert d.check(peek=True, cost=0)["remaining"] == 75
    again = d.ask("POST", "/v1/settle", {"id": got["id"], "cost": 25})
    assert (again.status, again.json()["member"]) == (410, "id")
    assert d.ask("POST", "/v1/settle", {"id": "0" * 32, "cost": 25}).status == 404
    assert d.ask("POST", "/v1/settle", {"id": "short", "cost": 25}).status == 404
    denied = d.check(door="/v1/reserve", cost=80, ttl=30)
    assert (denied["verdict"], denied["id"]) == ("deny", None)
    nothing = d.ask("POST", "/v1/reserve", {"ip": "192.0.2.1", "cost": 0, "ttl": 30})
    assert (nothing.status, nothing.json()["member"]) == (400, "cost")


def test_release_frees_a_place(door):
    d = door("name: c, by: [ip], concurrent: 1, hold: 1h")
    first = d.check(door="/v1/reserve", ttl="1m")
    assert d.check(door="/v1/reserve", ttl="1m")["verdict"] == "deny"
    reply = d.ask("POST", "/v1/release", {"id": first["id"]})
    assert (reply.status, reply.json()) == (200, {"released": True})
    assert d.check(door="/v1/reserve", ttl="1m")["verdict"] == "allow"
    assert d.ask("POST", "/v1/release", {"id": first["id"]}).status == 410


@pytest.mark.parametrize("ttl", ["", "soon", "0s", 0, "2d", 86401, "-1s", 1.5, None])
def test_times_to_live_that_are_none(door, ttl):
    d = door("name: x, by: [ip], rate: 100/hour")
    reply = d.ask("POST", "/v1/reserve", {"ip": "192.0.2.1", "ttl": ttl})
    assert (reply.status, reply.json()["member"]) == (400, "ttl")


# ---- bad input: the codec's own tests have every case; here, that it comes out as a problem -----


@pytest.mark.parametrize("body,member", [
    ("", None), ("{", None), ("[1]", "[0]"), ("nonsense", None), ('{"ip": 1}', "ip"),
    ('{"ip": "a", "cost": "1"}', "cost"), ('{"ip": "a", "time": 1700000000}', "time"),
    ('{"ip": "a", "headers": {"X-Api-Key": {}}}', "headers.X-Api-Key"), ('[{"ip": "a"}, {"ip": "a", "costs": 1}]', "[1].costs"),
    ('{"ip": "a", "plan": "nope"}', "plan"), ("[" * 100000, "[0]"), ('{"a":' * 20000, "a"), ("{}", "ip"),
    ('{"ip": "\\ud800"}', "ip"), (b'{"ip": "\xff"}', None),
])
def test_a_body_that_is_no_request(door, body, member):
    d = door("name: x, by: [ip], rate: 1/hour, algorithm: token-bucket")
    reply = d.ask("POST", "/v1/check", body)
    problem = reply.json()
    assert (reply.status, problem["status"], problem.get("member")) == (400, 400, member)
    assert reply.one("Content-Type") == "application/problem+json"
    assert problem["detail"]
    # The connection stays, and nobody was charged: the first of an array neither.
    assert d.check(ip="a")["remaining"] == 0


def test_too_large(door):
    d = door("name: x, by: [ip], rate: 1/hour")
    reply = d.ask("POST", "/v1/check", "x" * (256 * 1024 + 1), fresh=True)
    assert (reply.status, reply.one("Connection")) == (413, "close")
    assert d.ask("POST", "/v1/check", [{"ip": "a"}] * 1001, fresh=True).json()["detail"].startswith("more than 1000")


# ---- the description ----------------------------------------------------------------------------

DESCRIBED = Described("openapi.json")
SPEC, complaints, content = DESCRIBED.document, DESCRIBED.complaints, DESCRIBED.content
EXAMPLES = {"ip": "192.0.2.1", "method": "GET", "path": "/", "status": 200, "cost": 1, "headers": {"X-Api-Key": ["a", "b"]},
            "keys": {"api_key": "k"}, "plan": "default", "peek": True, "ttl": "1s", "id": "0" * 32}


def test_the_description_is_served(door):
    d = door("name: x, by: [ip], rate: 1/hour")
    reply = d.ask("GET", "/v1/openapi.json")
    assert reply.json() == SPEC
    head = d.ask("HEAD", "/v1/openapi.json")
    assert (head.status, head.body, head.one("Content-Length")) == (200, b"", str(len(reply.body)))


@pytest.mark.parametrize("path", [path for path in SPEC["paths"] if "post" in SPEC["paths"][path] and path != "/json"])
def test_what_is_described_is_what_is_served(door, path):
    d = door("name: x, by: [ip], rate: 10/hour", "name: k, by: [api_key], rate: 5/hour queue 1, algorithm: leaky-bucket")
    spec = SPEC["paths"][path]["post"]
    name = spec["requestBody"]["content"]["application/json"]["schema"]
    schema = SPEC["components"]["schemas"][name.get("$ref", "/Request").split("/")[-1]]
    # Every member that is described is taken, and each that is required is.
    whole = {member: EXAMPLES[member] for member in schema["properties"]}
    for body in [whole] + [{**whole}] * 2:
        reply = d.ask("POST", path, body)
        kind, described = content(spec, reply.status)
        assert reply.one("Content-Type") == kind
        assert not complaints(reply.json(), described["schema"])
        assert reply.status == (404 if "id" in whole else 200)
    for member in schema["required"]:
        reply = d.ask("POST", path, {m: v for m, v in whole.items() if m != member})
        assert (reply.status, reply.json()["member"]) == (400, member)
        assert not complaints(reply.json(), content(spec, 400)[1]["schema"])
    # No other member is, and no other method.
    for member in [*EXAMPLES, "other"]:
        if member not in schema["properties"]:
            assert d.ask("POST", path, {**whole, member: EXAMPLES.get(member, 1)}).json()["member"] == member
    reply = d.ask("GET", path)
    assert (reply.status, reply.one("Allow")) == (405, "POST")
    assert not complaints(reply.json(), content(spec, 405)[1]["schema"])


def test_verdicts_of_every_kind_are_as_described(door):
    d = door("name: s, by: [ip], rate: 1/hour, mode: shadow", "name: q, by: [ip], rate: 1/second queue 1, algorithm: leaky-bucket",
             "name: z, match: {path: /zero}, by: [ip], rate: 0/hour")
    got = d.check(*[{"ip": "a", "path": p} for p in ("/", "/", "/", "/zero")])
    assert {v["verdict"] for v in got} >= {"allow", "shadow", "deny"}
    assert got[3]["reason"] == "zero"
    assert not complaints(got, {"type": "array", "items": {"$ref": "#/components/schemas/Verdict"}})
    reserved = d.check(door="/v1/reserve", ip="b", ttl="1s")
    assert not complaints(reserved, {"$ref": "#/components/schemas/ReservedVerdict"})


@pytest.mark.parametrize("body, byte, what", [
    ('{"ip":"1.2.3.9","cost":01}', 24, "expected a comma or the end of the object or array"),  # 0 is whole; the 1 is too much
    ('{"ip":"1.2.3.9"', 15, "the text ends within the JSON object"),
    ('[{"ip":"1.2.3.4"} {"ip":"1.2.3.5"}]', 18, "expected a comma or the end of the object or array"),
    ('{"ip" "x"}', 6, "expected a colon after the member's name")])
def test_what_is_no_json_is_told_by_its_byte(weir, tmp_path, body, byte, what):
    d = Door(weir, tmp_path / "policy.yaml", ["name: a, by: [ip], rate: 5/second"])
    try:
        reply = d.ask("POST", "/v1/check", body)
        assert (reply.status, reply.json()["detail"]) == (400, f"{what}, at byte {byte} of the body")
    finally:
        d.close()
