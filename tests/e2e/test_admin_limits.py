"""The admin door: what is in force, why a request is decided as it is, one key's state."""
import json
import signal
import socket
import urllib.parse

import pytest

from admin_door import Admin
from serving import wait_for

IDENTITY = """identity:
  ip: {from: x-forwarded-for, trusted: [127.0.0.1]}
  api_key: {header: X-Api-Key}
  user: {header: X-User-Id}
  plan: {default: free, keys: {k-pro-0123456789: pro}}
costs:
  - {match: {path: /never}, cost: 2}
  - {match: {method: POST, path: "/reports/**"}, cost: 4}
"""
LIMITS = [
    "name: per-ip, by: [ip], rate: 60/hour, algorithm: token-bucket",
    "name: per-key, by: [api_key, route], match: {path: [\"/reports/**\", /b]}, rate: {free: 5/hour, pro: unlimited}, algorithm: token-bucket",
    "name: mine, by: [user], when_missing: skip, rate: 9/hour",
    "name: strict, by: [user], when_missing: deny, rate: 9/hour, mode: shadow",
    "name: get, match: {method: [GET, HEAD]}, rate: 9/hour, count_denied: true",
    "name: places, match: {path: /upload}, by: [ip], concurrent: 2, hold: 1m",
]
SECRET = "k-this-is-a-secret"


@pytest.fixture
def door(weir, tmp_path):
    made = Admin(weir, tmp_path / "policy.yaml", LIMITS, identity=IDENTITY)
    yield made
    made.close()


def explained(door, **members):
    reply = door.admin("POST", "/v1/explain", {"ip": "192.0.2.1", **members})
    assert reply.status == 200, reply.body
    return reply.json()


def limit(said, name):
    return next(each for each in said["limits"] if each["name"] == name)


# ---- /v1/limits ---------------------------------------------------------------------------------

def test_what_is_in_force(door):
    said = door.get("/v1/limits")
    assert said["generation"] == 1
    assert [(d["door"], d["tls"]) for d in said["doors"]] == [("http", False), ("admin", False)]
    assert said["doors"][0]["address"] == "%s:%d" % door.address
    assert said["arena"]["path"] is None and said["arena"]["bytes"] == 4 << 20
    assert 0 < said["arena"]["slots"] * 16 < 4 << 20
    assert (said["plans"], said["default_plan"], said["envoy_ratelimit"]) == (["free", "pro"], "free", None)
    assert [each["name"] for each in said["limits"]] == ["per-ip", "per-key", "mine", "strict", "get", "places"]
    assert limit(said, "per-key") == {
        "name": "per-key", "mode": "enforce", "by": ["api_key", "route"], "when_missing": "ip",
        "match": {"method": [], "path": ["/reports/**", "/b"]}, "algorithm": "token-bucket", "count_denied": False,
        "rates": [{"plan": "free", "rate": "5 per hour", "units": 5, "window_ms": 3600000, "capacity": 5},
                  {"plan": "pro", "rate": "unlimited"}]}
    assert limit(said, "get")["match"] == {"method": ["GET", "HEAD"], "path": []}
    assert limit(said, "get")["count_denied"] is True
    assert (limit(said, "per-ip")["when_missing"], limit(said, "mine")["when_missing"]) == (None, "skip")
    assert (limit(said, "strict")["mode"], limit(said, "strict")["when_missing"]) == ("shadow", "deny")
    assert limit(said, "places")["rates"][0]["capacity"] == 2 and limit(said, "places")["algorithm"] == "concurrency"


def test_two_thousand_limits(weir, tmp_path):
    made = Admin(weir, tmp_path / "policy.yaml",
                 [f"name: l{i}, match: {{path: [/a{i}, /b{i}/**]}}, rate: {i + 1}/hour" for i in range(2000)])
    try:
        said = made.get("/v1/limits")
        assert [each["match"]["path"] for each in said["limits"]] == [[f"/a{i}", f"/b{i}/**"] for i in range(2000)]
        told = made.admin("POST", "/v1/explain", {"ip": "192.0.2.1", "path": "/b1999/x"}).json()
        assert [each["name"] for each in told["limits"] if each["matches"]] == ["l1999"]
        assert len(made.admin("GET", "/v1/keys?limit=none").json()["known"]) == 2000
    finally:
        made.close()


# ---- /v1/explain --------------------------------------------------------------------------------

def test_why(door):
    asked = {"method": "POST", "path": "/reports/7", "headers": {"X-Api-Key": SECRET, "X-Forwarded-For": "2001:db8:1:2:3::4"}}
    door.check(ip="127.0.0.1", **asked)  # takes 4 of each
    said = explained(door, ip="127.0.0.1", **asked)
    assert (said["verdict"], said["limit"], said["reason"], said["counted"]) == ("deny", "per-key", "limit", True)
    # 4 of 5 are gone, 4 are wanted: 3 must come back, at 12 minutes each.
    assert said["retry_after_ms"] == pytest.approx(36 * 60000, abs=5000)
    assert said["client"] == {"peer": "127.0.0.1", "trusted": True, "ip": "2001:db8:1:2:3::4", "banned": False}
    assert said["identities"] == [{"name": "api_key", "from": "headers", "masked": "k-th", "bytes": 18},
                                  {"name": "user", "from": "missing"}]
    assert said["plan"] == {"name": "free", "from": "default"}
    assert said["cost"] == {"units": 4, "from": "costs", "rule": 1}
    assert said["route"] == "/reports/**"
    per_ip, per_key = limit(said, "per-ip"), limit(said, "per-key")
    assert per_ip["key"] == [{"part": "ip", "value": "2001:db8:1:2::/64"}]
    assert (per_ip["verdict"], per_ip["limit"], per_ip["remaining"], per_ip["decides"]) == ("allow", 60, 52, False)
    assert per_key["key"] == [{"part": "api_key", "masked": "k-th", "bytes": 18}, {"part": "route", "value": "/reports/**"}]
    assert (per_key["path"], per_key["verdict"], per_key["limit"], per_key["remaining"], per_key["decides"]) == \
        ("/reports/**", "deny", 5, 1, True)
    assert per_key["reset_ms"] == pytest.approx(48 * 60000, abs=5000)
    assert limit(said, "mine") == {"name": "mine", "matches": False, "why": "missing", "missing": "user"}
    strict = limit(said, "strict")
    assert (strict["matches"], strict["missing"], strict["verdict"], strict["reason"], strict["shadow"]) == \
        (True, "user", "deny", "missing", True)
    assert limit(said, "get") == {"name": "get", "matches": False, "why": "method"}
    assert limit(said, "places") == {"name": "places", "matches": False, "why": "path"}


def test_nothing_is_taken_and_the_check_says_the_same(door):
    asked = {"path": "/b", "headers": {"X-Api-Key": "k"}, "keys": {"user": "u"}}
    for i in range(7):
        for _ in range(3):
            told = explained(door, **asked)
        checked = door.check(ip="192.0.2.1", **asked)
        assert told["verdict"] == checked["verdict"] == ("allow" if i < 5 else "deny")
        assert told["limit"] == checked["limit"] == "per-key"
        met = [each for each in told["limits"] if each["matches"]]
        for ours, theirs in zip(met, checked["limits"], strict=True):
            for member in "name", "verdict", "limit", "remaining", "shadow":
                assert ours[member] == theirs[member]


def test_who_says_plan_cost_and_identity(door):
    said = explained(door, headers={"X-Api-Key": "k-pro-0123456789", "X-User-Id": "u17"}, cost=3, path="/b")
    assert said["plan"] == {"name": "pro", "from": "keys"}
    assert said["cost"] == {"units": 3, "from": "request"}
    assert limit(said, "per-key")["why"] == "unlimited"
    # The peer is not trusted to name a user.
    assert said["identities"][1] == {"name": "user", "from": "not believed", "value": "u17"}
    assert limit(said, "mine")["why"] == "missing"
    said = explained(door, keys={"user": "u17"}, plan="pro")
    assert said["plan"] == {"name": "pro", "from": "request"}
    assert said["identities"][1] == {"name": "user", "from": "keys", "value": "u17"}
    assert limit(said, "mine")["key"] == [{"part": "user", "value": "u17"}]
    said = explained(door, path="/b")
    assert limit(said, "per-key")["key"][0] == {"part": "api_key", "instead": "ip", "value": "192.0.2.1"}
    assert said["cost"] == {"units": 1, "from": "default"}
    said = explained(door, ip="a-host.example")
    assert said["client"]["host"] == "a-host.example"
    assert limit(said, "per-ip")["key"] == [{"part": "ip", "value": "a-host.example"}]
    assert explained(door, method="OPTIONS")["counted"] is False


def test_secrets_are_masked(door):
    for secret in "k-pro-0123456789", SECRET, "short", "x" * 4000:
        body = door.admin("POST", "/v1/explain", {"ip": "192.0.2.1", "headers": {"X-Api-Key": secret}, "path": "/b"}).body.decode()
        assert secret not in body and secret[:5] not in body
        query = urllib.parse.urlencode([("limit", "per-key"), ("by", f"api_key:{secret}"), ("by", "route:/b")])
        body = door.admin("GET", f"/v1/keys?{query}").body.decode()
        assert '"key"' in body and secret not in body and secret[:5] not in body


def test_banned(weir, tmp_path):
    made = Admin(weir, tmp_path / "policy.yaml", LIMITS[:1], more="bans: [{ip: 192.0.2.0/24}]\n")
    try:
        said = explained(made)
        assert (said["verdict"], said["reason"], said["client"]["banned"]) == ("deny", "banned", True)
        assert limit(said, "per-ip") == {"name": "per-ip", "matches": True, "key": [{"part": "ip", "value": "192.0.2.1"}]}
    finally:
        made.close()


@pytest.mark.parametrize("body, member", [
    ("", None), ("{", None), ("[]", None), ("  [{\"ip\":\"192.0.2.1\"}]", None), ("7", None), ("{}", "ip"),
    ('{"ip":1}', "ip"), ('{"ip":"a","nothing":1}', "nothing"), ('{"ip":"a","plan":"gold"}', "plan"),
    ('{"ip":"a","keys":{"nobody":"x"}}', "keys.nobody"), ('{"ip":"a"}x', None), ("[" * 1000, None)])
def test_no_question(door, body, member):
    reply = door.admin("POST", "/v1/explain", body)
    assert (reply.status, reply.one("Content-Type")) == (400, "application/problem+json")
    assert reply.json().get("member") == member


# ---- /v1/keys -----------------------------------------------------------------------------------

def keys(door, method="GET", status=200, **parameters):
    query = urllib.parse.urlencode(parameters, doseq=True)
    reply = door.admin(method, f"/v1/keys?{query}")
    assert reply.status == status, (reply.status, reply.body)
    return reply.json()


def test_peek_and_reset(door):
    for _ in range(3):
        door.check(ip="127.0.0.1", headers={"X-Forwarded-For": "2001:db8:1:2::1"})
    for spelling in "2001:db8:1:2::1", "2001:DB8:1:2:9:9:9:9", "2001:db8:1:2::/64", "[2001:db8:1:2::1]:80":
        said = keys(door, limit="per-ip", by=f"ip:{spelling}")
        assert said["key"] == [{"part": "ip", "value": "2001:db8:1:2::/64"}]
        assert (said["limit"], said["plan"], said["unlimited"]) == ("per-ip", "free", False)
        assert (said["capacity"], said["remaining"], said["used"]) == (60, 57, 3)
        assert said["next_ms"] == pytest.approx(60000, abs=5000)
        assert said["reset_ms"] == pytest.approx(180000, abs=5000)
    assert keys(door, limit="per-ip", by="ip:2001:db8:1:3::")["used"] == 0
    assert keys(door, "DELETE", limit="per-ip", by="ip:2001:db8:1:2::") == {
        "limit": "per-ip", "key": [{"part": "ip", "value": "2001:db8:1:2::/64"}], "reset": True}
    assert keys(door, limit="per-ip", by="ip:2001:db8:1:2::")["used"] == 0
    assert keys(door, "DELETE", limit="per-ip", by="ip:2001:db8:1:2::")["reset"] is False
    logged = door.daemon.event("key reset")
    assert (logged["limit"], logged["found"]) == ("per-ip", 1)


def test_keys_of_several_parts_and_plans(door):
    asked = {"path": "/reports/1", "method": "POST"}
    door.check(ip="192.0.2.1", headers={"X-Api-Key": "a key & more%"}, **asked)
    door.check(ip="192.0.2.1", **asked)
    parts = ["route:/reports/**", "api_key:a key & more%"]
    for by in parts, parts[::-1]:
        assert keys(door, limit="per-key", by=by)["used"] == 4
    assert keys(door, limit="per-key", by=parts, plan="pro")["unlimited"] is True
    assert "used" not in keys(door, limit="per-key", by=parts, plan="pro")
    assert keys(door, limit="per-key", by=parts, plan="free")["capacity"] == 5
    assert keys(door, limit="per-key", by=["route:/b", parts[1]])["used"] == 0
    # Of one without a key the address stands in.
    said = keys(door, limit="per-key", by=["route:/reports/**", "api_key@ip:192.0.2.1"])
    assert said["used"] == 4 and said["key"][0] == {"part": "api_key", "instead": "ip", "value": "192.0.2.1"}
    assert keys(door, limit="get")["key"] == []
    door.check(ip="192.0.2.1", method="GET")
    assert keys(door, limit="get")["used"] == 1


def test_places(door):
    door.check(ip="192.0.2.1", path="/upload")
    said = keys(door, limit="places", by="ip:192.0.2.1")
    assert (said["capacity"], said["used"]) == (2, 1)
    assert said["reset_ms"] == pytest.approx(60000, abs=5000)
    keys(door, "DELETE", limit="places", by="ip:192.0.2.1")
    assert keys(door, limit="places", by="ip:192.0.2.1")["used"] == 0


def test_a_key_that_a_program_names_itself(weir, tmp_path):
    made = Admin(weir, tmp_path / "policy.yaml", LIMITS[:1], token=None,
                 listen="http: 127.0.0.1:0, admin: 127.0.0.1:0, resp: 127.0.0.1:0, threads: 1")
    try:
        with socket.create_connection(made.daemon.address("resp"), 20) as s:
            s.sendall(b"WEIR.CHECK per-ip 192.0.2.1 7\r\n")
            assert s.recv(1000)
        said = keys(made, limit="per-ip", key="192.0.2.1")
        assert (said["used"], said["key"]) == (7, [{"part": None, "masked": "19", "bytes": 9}])
        assert keys(made, limit="per-ip", by="ip:192.0.2.1")["used"] == 0  # an address's own
    finally:
        made.close()


@pytest.mark.parametrize("query, status, member", [
    ("", 400, "limit"), ("limit=", 400, "limit"), ("limit=nobody&by=ip:a", 404, "limit"),
    ("limit=per-ip", 400, "ip"), ("limit=per-key&by=route:/b", 400, "api_key"), ("limit=per-key&by=api_key:k", 400, "route"),
    ("limit=per-ip&by=ip", 400, "by"), ("limit=per-ip&by=ip:", 400, "ip"), ("limit=per-ip&by=user:u", 400, "user"),
    ("limit=per-ip&by=ip:a&by=ip:b", 400, "ip"), ("limit=per-ip&limit=per-ip", 400, "limit"),
    ("limit=per-ip&by=ip:a&key=b", 400, "key"), ("limit=per-ip&by=ip:a&plan=gold", 404, "plan"),
    ("limit=per-ip&by=ip:a&what=1", 400, "what"), ("limit=per-ip&by=ip:%4", 400, "by=ip:%4"),
    ("limit=per-ip&by=ip:%00", 400, "ip"), ("limit=per-ip&by=ip:192.0.2.1:x:y", 400, "ip"), ("limit=per-ip&by=ip:a%20b", 400, "ip"),
    ("limit=per-key&by=api_key:k&by=route:/nope", 400, "route"), ("limit=per-key&by=api_key@ip:a/b&by=route:/b", 400, "api_key@ip"),
    ("limit=mine&by=user@ip:192.0.2.1", 400, "user@ip"), ("&".join(["limit=per-ip"] + ["by=ip:a"] * 5), 400, "by")])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_no_key(door, method, query, status, member):
    reply = door.admin(method, f"/v1/keys?{query}")
    assert (reply.status, reply.one("Content-Type")) == (status, "application/problem+json")
    said = reply.json()
    assert (said["status"], said["member"]) == (status, member)
    assert said.get("known") == {"limit": ["per-ip", "per-key", "mine", "strict", "get", "places"],
                                 "plan": ["free", "pro"]}.get(member if status == 404 else None)


def test_keys_has_two_methods(door):
    reply = door.admin("POST", "/v1/keys?limit=per-ip&by=ip:a")
    assert (reply.status, reply.one("Allow")) == (405, "GET, HEAD, DELETE")
    assert door.admin("HEAD", "/v1/keys?limit=per-ip&by=ip:a").body == b""


def test_after_a_reload_the_new_policy_is_told(door):
    door.write(["name: other, by: [user], rate: 1/hour"])
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded")
    wait_for("the new limits", lambda: door.get("/v1/limits")["generation"] == 2)
    assert [each["name"] for each in door.get("/v1/limits")["limits"]] == ["other"]
    assert keys(door, limit="per-ip", by="ip:a", status=404)["known"] == ["other"]
    assert json.dumps(explained(door)).count("per-ip") == 0
