"""A route that the caller's plan excludes, at each door: refused before any limit, with a way on, and nothing is taken.
(nginx: test_quota_gateway.py.)"""
import http.client
import json

import pytest

from grpc_client import OK, OVER, call_by_hand, question
from http2_wire import Http2
from http_door import Door, Reply
from serving import DEADLINE
from test_resp import Client

IDENTITY = """identity:
  ip: {from: x-forwarded-for, trusted: [127.0.0.1]}
  api_key: {header: X-Api-Key}
  plan: {default: free, keys: {k-start: starter, k-pro: pro, k-lone: lone}}
"""
MORE = """plans:
  free: {routes: {deny: ["/export/**", "/v1/{tenant}/audit"]}, upgrade_to: starter}
  starter: {routes: {deny: ["/export/all"]}, upgrade_to: pro}
  pro: {}
  lone: {routes: {allow: ["/search/**"]}}
answers: {upgrade_url: "https://example.com/plans", status: 503}
"""
LIMITS = ["name: per-ip, by: [ip], rate: 100/hour, algorithm: token-bucket"]
LISTEN = "http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 1"

# key, path, plan that has it (None: none)
EXCLUDED = [(None, "/export/day", "starter"), (None, "/export/all", "pro"), ("k-start", "/export/all", "pro"),
            (None, "/v1/acme/audit?x=1", "starter"), ("k-lone", "/items", None)]
INCLUDED = [("k-start", "/export/day"), ("k-pro", "/export/all"), (None, "/v1/acme"), ("k-lone", "/search/x")]


@pytest.fixture(scope="module")
def door(weir, tmp_path_factory):
    door = Door(weir, tmp_path_factory.mktemp("plans") / "policy.yaml", LIMITS, IDENTITY, MORE, LISTEN)
    yield door
    door.close()


def fields(key, **more):
    return {**more, **({"X-Api-Key": key} if key else {})}


def left(door):
    return door.check(cost=0)["remaining"]


def check_problem(problem, plan, wanted, status=403):
    assert (problem["status"], problem["error"], problem["plan"]) == (status, "plan_excludes_route", plan)
    assert problem["upgrade_url"] == "https://example.com/plans"
    assert problem.get("upgrade_to") == wanted and "retry_after" not in problem and problem["violated-policies"] == []


def plan_of(key):
    return {None: "free", "k-start": "starter", "k-lone": "lone", "k-pro": "pro"}[key]


@pytest.mark.parametrize("key, path, wanted", EXCLUDED)
def test_excluded(door, key, path, wanted):
    before = left(door)
    said = door.check(path=path, headers=fields(key))
    assert (said["verdict"], said["reason"], said["limit"], said["retry_after_ms"], said["limits"], said["plan"]) == \
        ("deny", "plan", None, None, [], plan_of(key))
    told = fields(key, **{"X-Original-URI": path, "X-Original-Method": "GET"})
    for target, status in (("/v1/auth", 403), ("/v1/auth?body=1", 403), ("/v1/auth?deny=401&body=1", 401)):
        answer = door.ask("GET", target, headers=told)
        assert (answer.status, answer.one("X-Weir-Status"), answer.one("X-Weir-Reason")) == (status, "403", "plan")
        assert answer.all("X-Weir-Limit") == answer.all("Retry-After") == []
        if "body" in target:
            check_problem(answer.json(), plan_of(key), wanted, status)
        else:
            assert answer.body == b""
    assert door.ask("GET", f"/v1/auth{path.partition('?')[0]}", headers=fields(key)).status == 403  # Envoy's ext_authz
    entries = [{"key": "path", "value": path}] + ([{"key": "api_key", "value": key}] if key else [])
    answer = door.ask("POST", "/json", {"domain": "any", "descriptors": [{"entries": entries}]})
    assert answer.status == 429 and answer.json()["overallCode"] == "OVER_LIMIT"
    assert left(door) == before


@pytest.mark.parametrize("key, path", INCLUDED)
def test_included(door, key, path):
    assert door.check(path=path, headers=fields(key))["verdict"] == "allow"
    assert door.ask("GET", f"/v1/auth{path}", headers=fields(key)).status == 200


def test_an_encoded_slash_is_no_way_round(door):
    """%2F is a slash to some: read either way, no path gets at what is excluded."""
    for path in ("/export%2Fall", "/v1/acme%2Faudit", "/v1%2facme/audit", "/x/../export/all", "//export//all"):
        assert door.check(path=path)["reason"] == "plan", path


def test_grpc(door):
    with Http2(door.daemon.address("grpc")) as connection:
        def ask(stream, path, *more):
            entries = [("remote_address", "192.0.2.9"), ("path", path), *more]
            return call_by_hand(connection, stream, question("any", entries))
        refused = ask(1, "/export/all")
        assert refused["code"] == OVER and [s["code"] for s in refused["statuses"]] == [OVER]
        assert "name" not in refused["statuses"][0]  # no limit is over
        check_problem(json.loads(refused["body"]), "free", "pro")
        assert refused["headers"]["content-type"] == "application/problem+json"
        assert not any(name.lower() == "retry-after" for name in refused["headers"])
        assert ask(3, "/export/all", ("api_key", "k-pro"))["code"] == OK
        assert ask(5, "/export/all", ("plan", "pro"))["code"] == OK


def test_resp_has_no_routes(door):
    """A key is all that is said there: neither match nor a plan's routes are looked at."""
    client = Client(door.daemon.address("resp"))
    assert client("WEIR.CHECK", "per-ip", "k-lone")[0] == 1
    assert client("CL.THROTTLE", "k-lone", 1, 1, 60)[0] == 0
    client.close()


def test_explained(door):
    def explain(**question):
        connection = http.client.HTTPConnection(*door.daemon.address("admin"), timeout=DEADLINE)
        connection.request("POST", "/v1/explain", json.dumps({"ip": "192.0.2.1", **question}))
        response = connection.getresponse()
        return Reply(response, response.read()).json()
    said = explain(path="/export/all")
    assert (said["verdict"], said["reason"], said["limit"]) == ("deny", "plan", None)
    assert said["plan"] == {"name": "free", "from": "default", "excludes": True, "included_in": "pro"}
    assert explain(path="/items", headers={"X-Api-Key": "k-lone"})["plan"]["included_in"] is None
    assert "excludes" not in explain(path="/items")["plan"]
