"""docs/openapi-admin.json describes what the admin door answers."""
import re

import pytest

from admin_door import Admin
from openapi import DOCS, Described

DESCRIBED = Described("openapi-admin.json")
SPEC = DESCRIBED.document
OPERATIONS = [(path, method, operation) for path, methods in SPEC["paths"].items() for method, operation in methods.items()]
LIMITS = ["name: per-ip, by: [ip], rate: 60/hour, algorithm: token-bucket",
          "name: per-key, by: [api_key], match: {method: GET, path: /b}, rate: {free: 5/hour, pro: unlimited}",
          "name: user, by: [user], when_missing: skip, rate: 5/hour, mode: shadow",
          "name: need, by: [user], when_missing: deny, match: {path: /need}, rate: 5/hour",
          "name: zero, match: {path: /zero}, rate: 0/hour",
          "name: queue, match: {path: /queue}, rate: 5/hour queue 2"]
IDENTITY = ("identity: {api_key: {header: X-Api-Key}, user: {header: X-User-Id}, plan: {default: free, keys: {kp: pro}}}\n"
            "costs: [{match: {path: /b}, cost: 2}]\nbans: [{ip: 203.0.113.0/24}]\n")


@pytest.fixture(scope="module")
def door(weir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("admin")
    (directory / "envoy.yaml").write_text("{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 5}}]}\n")
    made = Admin(weir, directory / "policy.yaml", LIMITS, identity=IDENTITY, more="envoy_ratelimit: {files: [envoy.yaml]}\n")
    yield made
    made.close()


def is_described(operation, reply):
    """The reply's status is listed, with its type, and its body keeps to the schema."""
    assert str(reply.status) in operation["responses"], (reply.status, reply.body)
    response = operation["responses"][str(reply.status)]
    if "$ref" in response:
        response = SPEC["components"]["responses"][response["$ref"].split("/")[-1]]
    kind = reply.one("Content-Type")
    assert kind in response["content"]
    value = reply.json() if kind.endswith("json") else reply.body.decode()
    assert not DESCRIBED.complaints(value, response["content"][kind]["schema"])
    return value


def test_it_is_served(door):
    assert door.get("/v1/openapi.json") == SPEC


@pytest.mark.parametrize("path, method, operation", OPERATIONS, ids=[f"{m} {p}" for p, m, _ in OPERATIONS])
def test_every_operation(door, path, method, operation):
    """Each is there with its methods, and wants the token where that is said; bare, it answers as described."""
    reply = door.admin(method.upper(), path, token=None)
    assert (reply.status == 401) == (operation.get("security", SPEC["security"]) != []), reply.body
    is_described(operation, reply)
    is_described(operation, door.admin(method.upper(), path))
    allowed = {m.upper() for m in SPEC["paths"][path]}
    allowed |= {"HEAD"} & {"HEAD" for m in allowed if m == "GET"}
    reply = door.admin("PUT", path)
    assert reply.status == 405 and set(reply.one("Allow").split(", ")) == allowed


def test_nothing_is_undescribed():
    """Rows of the door's table are operations of the description."""
    source = (DOCS.parent / "src/doors/door_admin.c").read_text()
    rows = re.findall(r'^ *\{"([A-Z]+)", "(/[^"]*)", \w+, (NULL|"[^"]*")\},$', source, re.M)
    assert len(rows) >= 8
    for method, path, takes in rows:
        parameters = [p["name"] for p in SPEC["paths"][path][method.lower()].get("parameters", []) if p["in"] == "query"]
        assert takes == "NULL" or sorted(takes[1:-1].replace("*", "").replace("?", "").split()) == sorted(parameters), (method, path)
    rows = [(method, path) for method, path, _ in rows]
    assert sorted((path, method.lower()) for method, path in rows) == sorted((path, method) for path, method, _ in OPERATIONS)


EXAMPLES = {"ip": "192.0.2.1", "method": "GET", "path": "/b", "status": 200, "cost": 1, "headers": {"X-Api-Key": ["a", "b"]},
            "keys": {"user": "u"}, "plan": "pro", "peek": True}


def test_explanations(door):
    operation = SPEC["paths"]["/v1/explain"]["post"]
    schema = SPEC["components"]["schemas"]["Request"]

    def explain(**members):
        return is_described(operation, door.admin("POST", "/v1/explain", members))

    assert set(schema["properties"]) == set(EXAMPLES)
    assert explain(**EXAMPLES)["verdict"] == "allow"
    for member in EXAMPLES:
        said = explain(**{m: v for m, v in EXAMPLES.items() if m != member})
        assert ("verdict" in said) == (member not in schema["required"])
    assert explain(ip="192.0.2.1", other=1)["member"] == "other"
    verdicts = [explain(ip=ip, path=path) for ip, path in
                [("192.0.2.1", "/"), ("192.0.2.1", "/need"), ("192.0.2.1", "/zero"), ("203.0.113.1", "/"), ("a-host", "/b"),
                 ("192.0.2.1", "/queue")]]
    assert [v["reason"] for v in verdicts] == [None, "missing", "zero", "banned", None, None]
    door.check(ip="192.0.2.1", path="/queue")
    assert explain(ip="192.0.2.1", path="/queue")["verdict"] == "delay"
    for _ in range(6):
        door.check(ip="192.0.2.1", keys={"user": "v"})
    assert explain(ip="192.0.2.1", keys={"user": "v"})["verdict"] == "shadow"
    is_described(operation, door.admin("POST", "/v1/explain", "x" * (256 * 1024 + 1)))


@pytest.mark.parametrize("method", ["get", "delete"])
def test_keys(door, method):
    operation = SPEC["paths"]["/v1/keys"][method]
    assert {p["name"] for p in operation["parameters"]} == {"limit", "by", "key", "plan"}
    for query, status in [("limit=per-ip&by=ip:192.0.2.9", 200), ("limit=per-key&by=api_key:k&plan=pro", 200),
                          ("limit=per-key&by=api_key@ip:192.0.2.1", 200), ("limit=per-ip&key=x", 200), ("limit=zero", 200),
                          ("limit=x", 404), ("limit=per-key&by=api_key:k&plan=x", 404), ("limit=per-ip", 400)]:
        reply = door.admin(method.upper(), f"/v1/keys?{query}")
        is_described(operation, reply)
        assert reply.status == status


def test_bans(door):
    operations = SPEC["paths"]["/v1/bans"]
    assert {p["name"] for p in operations["delete"]["parameters"]} == {"id", "by"}
    orders = [({"ip": "198.51.100.0/24", "for": "1h", "reason": "r"}, 200), ({"api_key": "k-secret"}, 200),
              ({"user": "u", "until": "2199-01-01T00:00:00Z"}, 200), ({"ip": "x"}, 400), ({}, 400), ({"nobody": "x"}, 404),
              ("x" * (256 * 1024 + 1), 413)]
    for order, status in orders:
        reply = door.admin("POST", "/v1/bans", order)
        is_described(operations["post"], reply)
        assert reply.status == status, reply.body
    listed = is_described(operations["get"], door.admin("GET", "/v1/bans"))["bans"]
    assert len(listed) == 3 and "k-secret" not in str(listed)
    for query, status in [("by=api_key:k-secret", 200), ("by=api_key:k-secret", 404), (f"id={listed[0]['id']}", 200), ("id=7", 400),
                          ("by=ip:198.51.100.0/24", 200), ("by=ip:198.51.100.0", 404), ("", 400)]:
        reply = door.admin("DELETE", f"/v1/bans?{query}")
        is_described(operations["delete"], reply)
        assert reply.status == status, (query, reply.body)


def test_metrics_have_both_forms(door):
    operation = SPEC["paths"]["/metrics"]["get"]
    is_described(operation, door.admin("GET", "/metrics"))
    is_described(operation, door.admin("GET", "/metrics", headers={"Accept": "application/openmetrics-text"}))


# ---- members: those that are described are those that there are

CUSTOMERS = """identity:
  ip: {from: x-forwarded-for, trusted: [127.0.0.1]}
  api_key: {header: X-Api-Key}
  plan: {default: free}
customers: {directory: customers, by: [api_key], room: 100}
plans:
  free: {quotas: {daily: {limit: 10, on_exceed: upgrade}}, routes: {deny: ["/export/**"]}, upgrade_to: pro}
  pro: {quotas: {daily: {limit: 100, on_exceed: overage}}}
"""
QUOTAS = ["name: daily, by: [customer], quota: {limit: 10, per: day, zone: Europe/Istanbul, alert_at: [80%], count: {status: [2xx]}}",
          "name: monthly, by: [customer], quota: {limit: 5, per: month, anchor: customer, grace: 20%}",
          "name: shared-ip, by: [ip], quota: {limit: 3, per: week}"]


@pytest.fixture(scope="module")
def shop(weir, tmp_path_factory):
    made = Admin(weir, tmp_path_factory.mktemp("shop") / "policy.yaml", QUOTAS, identity=CUSTOMERS)
    for name, more in [("acme", {"plan": "free"}), ("best", {"plan": "pro", "partner": True})]:
        assert made.admin("POST", "/v1/customers", {"name": name, "value": f"k-{name}", **more}).status == 200
    yield made
    made.close()


def explained(door, **question):
    return is_described(SPEC["paths"]["/v1/explain"]["post"], door.admin("POST", "/v1/explain", {"ip": "192.0.2.1", **question}))


def never_seen(schema, answers):
    schema = SPEC["components"]["schemas"][schema]
    seen = set().union(*(DESCRIBED.members(answer, schema) for answer in answers))
    return sorted(name for _, name in DESCRIBED.described_members(schema) - seen)


def test_members_of_limits(door, shop):
    answers = [is_described(SPEC["paths"]["/v1/limits"]["get"], one.admin("GET", "/v1/limits")) for one in (door, shop)]
    assert never_seen("InForce", answers) == []
    daily, monthly, by_ip = answers[1]["limits"]
    assert daily["quota"] == {"per": "day", "zone": "Europe/Istanbul", "anchor": 1, "anchor_by_customer": False, "billed": True,
                              "alert_at": [80], "count": ["2xx"]}
    assert [(r["plan"], r["units"], r["on_exceed"], r["admitted_at_most"], r.get("upgrade_to")) for r in daily["rates"]] == \
        [("free", 10, "upgrade", 10, "pro"), ("pro", 100, "overage", None, None)]
    assert monthly["quota"]["anchor_by_customer"] and monthly["rates"][0]["admitted_at_most"] == 6  # 20 % of 5 is 1
    assert (by_ip["quota"]["billed"], by_ip["quota"]["per"]) == (False, "week")


def test_members_of_explanations(door, shop):
    acme, best = ({"headers": {"X-Api-Key": f"k-{name}"}} for name in ("acme", "best"))
    whole = explained(shop, **acme)
    assert whole["customer"]["partner"] is False and whole["plan"] == {"name": "free", "from": "customer"}
    assert [limit["key"][0]["part"] for limit in whole["limits"]] == ["customer", "customer", "ip"]
    assert whole["limits"][0]["key"][0]["id"] == whole["customer"]["id"]
    assert whole["limits"][0]["quota"].startswith("10 a day, Europe/Istanbul") and "quota" in whole["limits"][2]
    assert explained(shop)["customer"] is None
    answers = [whole, explained(shop), explained(shop, **best), explained(shop, **acme, path="/export/x"), explained(shop, ip="a-host"),
               explained(door, **EXAMPLES), explained(door, path="/b"), explained(door, path="/b", headers={"X-Api-Key": "k-1"}), explained(door, keys={"user": "u"})]
    assert never_seen("Explanation", answers) == []
    assert answers[3]["plan"] == {"name": "free", "from": "customer", "excludes": True, "included_in": "pro"}


def test_members_of_keys(door, shop):
    operation = SPEC["paths"]["/v1/keys"]["get"]
    number = explained(shop, headers={"X-Api-Key": "k-acme"})["customer"]["id"]
    for query, status in ((f"limit=daily&by=customer:{number}", 200), ("limit=daily&key=k-acme", 400), ("limit=shared-ip&by=ip:192.0.2.7", 200)):
        reply = shop.admin("GET", f"/v1/keys?{query}")
        is_described(operation, reply)
        assert reply.status == status, (query, reply.body)


def test_the_page_names_the_members_of_quotas():
    page = (DOCS / "admin.md").read_text()
    limit = SPEC["components"]["schemas"]["Limit"]["properties"]
    names = ["quota", "customer", "excludes", "included_in", *limit["quota"]["properties"],
             *(set(limit["rates"]["items"]["properties"]) - {"plan", "rate", "units", "capacity"})]
    assert [name for name in names if f"`{name}`" not in page and f'"{name}"' not in page] == []
