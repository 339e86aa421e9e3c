"""The admin door about the rules of envoy_ratelimit: what is in force, what a question would be answered and why, and
one counter. Numbers by hand: the rules are those of SHOP."""
import pytest

from admin_door import Admin
from test_admin_openapi import DESCRIBED, SPEC, is_described

SHOP = """domain: shop
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: low, rate_limit: {name: low, unit: hour, requests_per_unit: 1}}
  - {key: high, rate_limit: {name: high, unit: day, requests_per_unit: 4, replaces: [{name: low}]}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: paid, quota_mode: true, rate_limit: {unit: month, requests_per_unit: 2}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: all, value: "a*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 3}}
"""


@pytest.fixture
def door(weir, tmp_path):
    (tmp_path / "shop.yaml").write_text(SHOP)
    made = Admin(weir, tmp_path / "policy.yaml", ["name: any, by: [ip], rate: 1/second"],
                 more="envoy_ratelimit: {files: [shop.yaml]}\n")
    yield made
    made.close()


def question(*descriptors, **members):
    """Each descriptor: its entries, and what else is said of it."""
    return {"domain": "shop", "descriptors": [
        {"entries": [{"key": k, "value": v} for k, v in entries.items()], **more} for entries, more in descriptors], **members}


def ask(door, *descriptors):
    return door.ask("POST", "/json", question(*descriptors)).status


def explained(door, *descriptors, **members):
    return is_described(SPEC["paths"]["/v1/explain/envoy"]["post"],
                        door.admin("POST", "/v1/explain/envoy", question(*descriptors, **members)))


def key(door, query, status=200, method="GET"):
    reply = door.admin(method, f"/v1/keys/envoy?{query}")
    assert reply.status == status, reply.body
    return is_described(SPEC["paths"]["/v1/keys/envoy"][method.lower()], reply)


def test_rules_in_force(door):
    said = is_described(SPEC["paths"]["/v1/limits"]["get"], door.admin("GET", "/v1/limits"))["envoy_ratelimit"]
    assert {k: v for k, v in said.items() if k != "rules"} == {"count_over_limit": False, "epoch_windows": False,
                                                               "shadow_mode": False}
    rules = {rule["rule"]: rule for rule in said["rules"]}
    assert list(rules) == ["shop.user", "shop.low", "shop.high", "shop.trial", "shop.paid", "shop.free", "shop.all_a*"]
    assert rules["shop.high"] == {"rule": "shop.high", "name": "high", "unlimited": False, "requests_per_unit": 4, "unit": "day",
                                  "shadow_mode": False, "quota_mode": False, "replaces": ["low"]}
    assert rules["shop.free"] == {"rule": "shop.free", "name": None, "unlimited": True, "shadow_mode": False,
                                  "quota_mode": False, "replaces": []}
    assert (rules["shop.trial"]["shadow_mode"], rules["shop.paid"]["quota_mode"]) == (True, True)


def test_none_in_force(weir, tmp_path):
    door = Admin(weir, tmp_path / "policy.yaml", ["name: any, by: [ip], rate: 1/second"])
    assert door.get("/v1/limits")["envoy_ratelimit"] is None
    assert door.admin("POST", "/v1/explain/envoy", question(({"user": "u"}, {}))).status == 404
    door.close()


def test_a_question_is_explained_and_takes_nothing(door):
    user = ({"user": "alice"}, {})
    for _ in range(3):
        assert ask(door, user) == 200
    for _ in range(4):
        said = explained(door, user)
    (one,) = said["descriptors"]
    assert 0 < one.pop("reset_s") <= 86400
    assert (said["domain"], said["code"]) == ("shop", "OK")
    assert one == {"entries": [{"key": "user", "masked": "a", "bytes": 5}], "why": "meets", "rule": "shop.user", "hits": 1,
                   "counted": True, "requests_per_unit": 5, "unit": "day", "used": 3, "remaining": 1, "over_limit": False,
                   "refuses": False}
    # Three of five are used: two more fit, three do not, and then what is left is told.
    (one,) = explained(door, user, hitsAddend=2)["descriptors"]
    assert (one["hits"], one["remaining"], one["refuses"]) == (2, 0, False)
    said = explained(door, user, hitsAddend=3)
    assert (said["code"], said["descriptors"][0]["over_limit"], said["descriptors"][0]["refuses"]) == ("OVER_LIMIT", True, True)
    # Statistics are of questions that were asked.
    metrics = door.admin("GET", "/metrics").body.decode()
    assert 'weir_envoy_hits_total{limit="shop.user"} 3\n' in metrics


def test_why(door):
    said = explained(door, ({"low": "x"}, {}), ({"high": "x"}, {}), ({"nobody": "x"}, {}), ({"free": "x"}, {}),
                     ({"user": "u"}, {"limit": {"requestsPerUnit": 9, "unit": "HOUR"}}))["descriptors"]
    assert [(d["why"], d["rule"], d["counted"]) for d in said] == [
        ("replaced", "shop.low", False), ("meets", "shop.high", True), ("meets no rule", None, False),
        ("meets", "shop.free", False), ("override", None, True)]
    assert (said[4]["requests_per_unit"], said[4]["unit"], said[4]["remaining"]) == (9, "hour", 8)


def test_shadow_and_quota(door):
    trial, paid = ({"trial": "x"}, {}), ({"paid": "x"}, {})
    assert [ask(door, trial) for _ in range(2)] == [200, 200]
    (one,) = explained(door, trial)["descriptors"]
    assert (one["over_limit"], one["refuses"]) == (True, False)
    assert [ask(door, paid) for _ in range(3)] == [200, 200, 429]
    said = explained(door, paid)
    assert (said["code"], said["descriptors"][0]["used"]) == ("OVER_LIMIT", 2)


def test_a_key_is_looked_at_and_forgotten(door):
    assert ask(door, ({"user": "a:b c"}, {"hitsAddend": 4})) == 200
    said = key(door, "domain=shop&entry=user:a%3Ab+c")
    assert 0 < said.pop("reset_s") <= 86400
    assert said == {"domain": "shop", "rule": "shop.user", "unlimited": False, "requests_per_unit": 5, "unit": "day", "used": 4,
                    "remaining": 1}
    assert key(door, "domain=shop&entry=user:another")["used"] == 0
    assert key(door, "domain=shop&entry=user:a%3Ab+c", method="DELETE") == {"domain": "shop", "rule": "shop.user", "reset": True}
    assert key(door, "domain=shop&entry=user:a%3Ab+c", method="DELETE")["reset"] is False
    assert key(door, "domain=shop&entry=user:a%3Ab+c")["used"] == 0
    assert ask(door, ({"user": "a:b c"}, {"hitsAddend": 5})) == 200


def test_a_counter_that_values_share(door):
    assert ask(door, ({"all": "a1"}, {"hitsAddend": 2})) == 200
    assert key(door, "domain=shop&entry=all:a2")["used"] == 2
    assert key(door, "domain=shop&entry=free:x")["unlimited"] is True


@pytest.mark.parametrize("query, status, member", [
    ("", 400, "domain"), ("domain=shop", 400, "entry"), ("domain=shop&entry=user", 400, "entry"), ("domain=shop&entry=", 400, "entry"),
    ("domain=shop&entry=:x", 400, "entry"), ("domain=shop&domain=shop&entry=user:x", 400, "domain"), ("domain=shop&by=ip:x", 400, "by"),
    ("domain=shop&entry=%zz", 400, "entry=%zz"), ("domain=none&entry=user:x", 404, "domain"), ("domain=shop&entry=nobody:x", 404, "entry"),
    ("domain=shop" + "&entry=user:x" * 17, 400, "entry")])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_no_key(door, method, query, status, member):
    assert key(door, query, status, method).get("member") == member


@pytest.mark.parametrize("body, status, member", [
    ("x", 400, None), ("[]", 400, None), ('{"domain": "none", "descriptors": [{"entries": [{"key": "a", "value": "b"}]}]}', 404, "domain"),
    ('{"domain": "shop", "descriptors": [{"entries": [{"key": 1}]}]}', 400, "descriptors[0].entries[0].key")])
def test_no_question(door, body, status, member):
    reply = door.admin("POST", "/v1/explain/envoy", body)
    assert reply.status == status, reply.body
    assert is_described(SPEC["paths"]["/v1/explain/envoy"]["post"], reply).get("member") == member


def test_described_here_as_there():
    """The question is that of /json."""
    from openapi import Described
    assert DESCRIBED.document["components"]["schemas"]["RateLimitRequest"] == \
        Described("openapi.json").document["components"]["schemas"]["RateLimitRequest"]
