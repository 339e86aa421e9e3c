"""The HTTP door: /json, as envoyproxy/ratelimit answers it."""
import base64
import signal

import pytest

from http_door import Door
from test_http_check import complaints

SHOP = """domain: shop
descriptors:
  - key: plan
    value: free
    rate_limit: {name: free_day, unit: day, requests_per_unit: 60}
    descriptors: [{key: path, rate_limit: {unit: hour, requests_per_unit: 2}}]
"""


@pytest.fixture
def door(weir, tmp_path):
    (tmp_path / "shop.yaml").write_text(SHOP)
    d = Door(weir, tmp_path / "policy.yaml", ["name: mine, by: [api_key], rate: 1/hour, algorithm: token-bucket"],
             more="envoy_ratelimit: [shop.yaml]\n")
    yield d
    d.close()


def ask(door, *descriptors, domain="shop", method="POST", **members):
    descriptors = [{"entries": [{"key": k, "value": v} for k, v in entries]} for entries in descriptors]
    reply = door.ask(method, "/json", {"domain": domain, "descriptors": descriptors, **members})
    assert not complaints(reply.json(), {"$ref": "#/components/schemas/RateLimitResponse"})
    return reply


@pytest.mark.parametrize("target", ["/json", "/v1/check", "/v1/reserve", "/v1/settle", "/v1/release"])
def test_an_encoded_body_is_not_taken(door, target):
    body = {"domain": "shop", "descriptors": [{"entries": [{"key": "plan", "value": "free"}]}]}
    assert door.ask("POST", target, body, {"Content-Encoding": "gzip"}).status == 415
    assert door.ask("POST", target, body, {"Content-Encoding": "identity"}).status != 415
    assert door.auth(headers={"Content-Encoding": "gzip"}).status == 200  # as the gateway's request had it


@pytest.mark.parametrize("body,member", [
    ({"domain": "d", "descriptors": [{"entries": [{"key": "a", "valeu": "x"}]}]}, "descriptors[0].entries[0].valeu"),
    ({"domain": "", "descriptors": [{"entries": [{"key": "a"}]}]}, "domain"),
    ({"domain": "d"}, "descriptors")])
def test_a_problem_names_the_member(door, body, member):
    reply = door.ask("POST", "/json", body)
    assert reply.status == 400 and reply.json()["member"] == member


def test_within_and_over(door):
    first = ask(door, [("plan", "free")])
    body = first.json()
    assert (first.status, first.one("Content-Type")) == (200, "application/json")
    status = body["statuses"][0]
    assert 1 <= int(status.pop("durationUntilReset").removesuffix("s")) <= 86400
    assert body["overallCode"] == "OK"
    assert status == {"code": "OK", "currentLimit": {"name": "free_day", "requestsPerUnit": 60, "unit": "DAY"},
                      "limitRemaining": 59}
    over = ask(door, [("plan", "free")], hitsAddend=60)
    assert (over.status, over.json()["overallCode"], over.json()["statuses"][0]["code"]) == (429, "OVER_LIMIT", "OVER_LIMIT")
    assert ask(door, [("plan", "gold")]).json()["statuses"] == [{"code": "OK"}]  # no rule: nothing but the code


def test_nested_and_several(door):
    a, free = [("plan", "free"), ("path", "/a")], [("plan", "free")]
    assert [ask(door, a).status for _ in range(3)] == [200, 200, 429]
    got = ask(door, [("plan", "free"), ("path", "/b")], free).json()
    assert [s["code"] for s in got["statuses"]] == ["OK", "OK"]
    assert got["statuses"][1]["limitRemaining"] == 59  # the child's hits are not the parent's


def test_any_method_and_both_spellings(door):
    assert ask(door, [("plan", "free")], method="PUT", hits_addend="2").json()["statuses"][0]["limitRemaining"] == 58
    for method in "GET", "DELETE", "OPTIONS":  # POST is not missed, but the question
        reply = door.ask(method, "/json")
        assert (reply.status, reply.all("Allow"), reply.one("Content-Type")) == (400, [], "application/problem+json")
    head = door.ask("HEAD", "/json")
    assert (head.status, head.body) == (400, b"")


def test_an_empty_key_is_refused_as_at_the_grpc_door(door):
    for domain in "shop", "mine":
        reply = door.ask("POST", "/json", {"domain": domain, "descriptors": [{"entries": [{"key": "", "value": "x"}]}]})
        assert (reply.status, reply.json()["detail"]) == (400, "a descriptor entry has an empty key")


def test_a_limit_in_shadow_mode_has_no_status(door):
    door.write(["name: tried, by: [api_key], rate: 1/hour, mode: shadow, algorithm: token-bucket",
                "name: mine, by: [api_key], rate: 9/hour, algorithm: token-bucket"])
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded")
    for left in 8, 7, 6:
        got = ask(door, [("api_key", "k")], [("path", "/")], domain="mine").json()
        assert got["overallCode"] == "OK"
        assert [s.get("currentLimit", {}).get("name") for s in got["statuses"]] == ["mine", None]
        assert got["statuses"][0]["limitRemaining"] == left


def test_weirs_own_limits_are_reached_too(door):
    statuses = [ask(door, [("api_key", "k")], domain="other") for _ in range(2)]
    assert [s.status for s in statuses] == [200, 429]
    body = statuses[1].json()
    assert b"quota-exceeded" in base64.b64decode(body["rawBody"])


@pytest.mark.parametrize("body", ["", "{", "[]", '{"domain":"shop","x":1}', '{"domain":"","descriptors":[{}]}',
                                  '{"domain":"shop","descriptors":[]}', '{"domain":"shop","descriptors":[{"limit":{"unit":9}}]}'])
def test_what_is_no_question(door, body):
    reply = door.ask("POST", "/json", body)
    assert (reply.status, reply.one("Content-Type")) == (400, "application/problem+json")
    assert reply.json()["detail"]
