"""The HTTP door: /v1/auth, as proxies ask it."""
import http.client
import json
import socket
import threading
import time

import pytest

from http_door import replies
from serving import DEADLINE, wait_for

BY_PATH = "name: a, match: {method: POST, path: /a/*}, by: [ip], rate: 2/hour, algorithm: token-bucket"
BY_KEY = "name: k, by: [api_key], when_missing: skip, rate: 1/hour, algorithm: token-bucket"


def test_allowed_and_denied_have_no_body(door):
    d = door(BY_KEY)
    allowed = d.auth(headers={"X-Api-Key": "k"})
    assert (allowed.status, allowed.body, allowed.one("Content-Length")) == (200, b"", "0")
    assert allowed.one("X-RateLimit-Remaining") == "0"
    assert allowed.one("RateLimit-Policy") == '"k";q=1;w=3600'
    denied = d.auth(headers={"X-Api-Key": "k"})
    assert (denied.status, denied.body, denied.one("Content-Length")) == (429, b"", "0")
    assert [denied.one(f"X-Weir-{name}") for name in ("Status", "Reason", "Limit")] == ["429", "limit", "k"]
    assert 3590 <= int(denied.one("Retry-After")) <= 3600
    assert denied.one("Cache-Control") == "no-store"
    assert denied.one("RateLimit").startswith('"k";r=0;t=')
    assert len({name.lower() for name, _ in denied.fields}) == len(denied.fields)  # each field once


def test_options(door):
    d = door(BY_KEY)
    key = {"X-Api-Key": "k"}
    assert d.auth(headers=key).status == 200
    as_nginx = d.auth("?deny=403", headers=key)
    assert (as_nginx.status, as_nginx.one("X-Weir-Status"), as_nginx.body) == (403, "429", b"")
    with_body = d.auth("?body=1&deny=503", headers=key)
    assert with_body.one("Content-Type") == "application/problem+json"
    assert (with_body.status, with_body.json()["status"], with_body.json()["limit"]) == (503, 503, "k")
    assert d.auth("?body=0", headers=key).body == b""
    for wrong in ("?deny=200", "?deny=40", "?deny=x99", "?body=2", "?body", "?other=1", "?from=x-real-ip",
                  "?from=x-original-uri&from=x-forwarded-uri", "?body=1&body=1", "?deny=403&deny=403"):
        reply = d.auth(wrong)
        assert (reply.status, reply.json()["member"]) == (400, wrong[1:].split("&")[-1])


def test_refusals_are_no_failures(door):
    """Proxies take 5xx for a daemon that fails, and many let the request pass then: only who asks for it gets it."""
    d = door("name: k, by: [api_key], when_missing: skip, rate: 0/hour",
             more="answers: {status: 503, ban_status: 500}\nbans: [{api_key: bad}]\n")
    for key, policys in (("k", "503"), ("bad", "500")):
        denied = d.auth("?body=1", headers={"X-Api-Key": key})
        assert (denied.status, denied.json()["status"], denied.one("X-Weir-Status")) == (429, 429, policys)
        assert d.ask("GET", "/v1/auth/any/path", headers={"X-Api-Key": key}).status == 429
        assert d.auth("?deny=503", headers={"X-Api-Key": key}).status == 503


@pytest.mark.parametrize("headers", [
    {"X-Original-URL": "https://api.example:8443/a/1?q", "X-Original-Method": "POST"},
    {"X-Original-URI": "/a/2?q=/b", "X-Original-Method": "POST"},
    {"X-Forwarded-Uri": "/a/3", "X-Forwarded-Method": "POST"},
    {"X-Original-URL": "http://h/a/1", "X-Original-URI": "/a/1", "X-Original-Method": "POST", "X-Forwarded-Method": "POST"},
])
def test_the_original_request(door, headers):
    d = door(BY_PATH)
    headers["X-Forwarded-For"] = "192.0.2.7"
    assert [d.auth(headers=headers).status for _ in range(3)] == [200, 200, 429]
    assert d.auth(headers={**headers, "X-Forwarded-For": "192.0.2.8"}).status == 200
    assert not d.auth(headers={"X-Forwarded-For": "192.0.2.7"}).all("RateLimit")  # GET /: no limit


def test_any_method_is_answered(door):
    d = door(BY_PATH)
    headers = {"X-Original-URI": "/a/1"}
    for method in ("GET", "HEAD", "PUT", "PROPFIND"):
        assert d.ask(method, "/v1/auth", headers=headers).all("RateLimit") == []
    assert [d.ask("POST", "/v1/auth", "a body that nobody reads", headers).status for _ in range(3)] == [200, 200, 429]
    assert d.ask("OPTIONS", "/v1/auth", headers=headers).status == 200


def test_envoy_asks_by_the_path(door):
    """ext_authz: path_prefix before the path, the client's own method; no field tells anything."""
    d = door(BY_PATH)
    lie = {"X-Original-URI": "/b", "X-Original-Method": "GET", "X-Forwarded-Uri": "/c"}
    got = [d.ask("POST", "/v1/auth/a/1?deny=200", headers=lie).status for _ in range(3)]
    assert got == [200, 200, 429]


def test_fields_are_believed_from_trusted_peers_only(door):
    d = door(BY_PATH, identity="identity: {ip: {from: x-forwarded-for, trusted: [10.0.0.0/8]}}\n")
    headers = {"X-Original-URI": "/a/1", "X-Original-Method": "POST"}
    assert not any(d.auth(headers=headers).all("RateLimit") for _ in range(3))


def test_fields_that_disagree_are_refused(door):
    """Behind Traefik, X-Original-URI comes from the client."""
    d = door(BY_PATH)
    headers = {"X-Forwarded-Uri": "/a/1", "X-Forwarded-Method": "POST", "X-Original-URI": "/free"}
    reply = d.auth(headers=headers)
    assert (reply.status, "disagree" in reply.json()["detail"]) == (400, True)
    assert d.auth(headers={**headers, "X-Original-URI": "nonsense"}).status == 400
    assert d.auth(headers={"X-Forwarded-Uri": "/a/1", "X-Forwarded-Method": "POST", "X-Original-Method": "GET"}).status == 400
    # Where the policy's owner says which to believe, the others are not looked at.
    got = [d.auth("?from=x-forwarded-uri", headers=headers).status for _ in range(3)]
    assert got == [200, 200, 429]


def test_lines_of_one_field_are_joined(door):
    d = door("name: x, by: [ip], rate: 1/hour, algorithm: token-bucket")
    request = (b"GET /v1/auth HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\nX-Other: y\r\n"
               b"X-Forwarded-For: 192.0.2.7, 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert [replies(d.raw(request))[0][0] for _ in range(2)] == [200, 429]
    assert d.check(ip="192.0.2.7")["verdict"] == "deny"
    assert d.check(ip="6.6.6.6")["verdict"] == "allow"


def test_many_lines_of_one_field(door):
    d = door("name: x, by: [ip], rate: 1/hour, algorithm: token-bucket", BY_KEY)
    lines = b"".join(b"X-Forwarded-For: 192.0.2.%d\r\n" % i for i in range(49))
    assert replies(d.raw(b"GET /v1/auth HTTP/1.1\r\nHost: x\r\n" + lines + b"Connection: close\r\n\r\n"))[0][0] == 200
    assert d.check(ip="192.0.2.48")["verdict"] == "deny"


def test_a_field_that_tells_one_caller_comes_once(door):
    """Two lines would be a fresh key here, and the old one to an API that looks at the first or the last."""
    d = door(BY_KEY, more="bans: [{api_key: bad}]\n")
    for first, second in (("bad", "x"), ("x", "bad"), ("bad", "bad"), ("k", "")):
        request = (f"GET /v1/auth?body=1 HTTP/1.1\r\nHost: x\r\nX-Api-Key: {first}\r\nA: b\r\n"
                   f"x-api-KEY: {second}\r\nConnection: close\r\n\r\n")
        (status, _, body), = replies(d.raw(request.encode()))
        assert status == 400 and json.loads(body)["member"] == "X-Api-Key"
    assert d.auth(headers={"X-Api-Key": "k"}).status == 200  # nothing was taken


def test_bans_have_their_status(door):
    d = door("name: x, by: [ip], rate: 100/hour", more="bans: [{ip: 192.0.2.66}]\nanswers: {ban_status: 403}\n")
    reply = d.auth(headers={"X-Forwarded-For": "192.0.2.66"})
    assert (reply.status, reply.one("X-Weir-Reason"), reply.all("Retry-After")) == (403, "banned", [])


# ---- delays -------------------------------------------------------------------------------------

QUEUE = "name: q, by: [ip], rate: 10/second queue %d, algorithm: leaky-bucket"


def test_delays_are_held_and_evenly_spaced(door):
    d = door(QUEUE % 5)
    times, start = [], time.monotonic()

    def one():
        c = http.client.HTTPConnection(*d.address, timeout=DEADLINE)
        c.request("GET", "/v1/auth", headers={"X-Forwarded-For": "192.0.2.1"})
        response = c.getresponse()
        times.append((time.monotonic() - start, response.status))
        response.read()
        c.close()

    threads = [threading.Thread(target=one) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    passed = sorted(at for at, status in times if status == 200)
    assert sum(status == 429 for _, status in times) in (1, 2)  # 1 at once, 5 wait; one more if this took 100 ms
    for i, at in enumerate(passed):
        assert at >= 0.1 * i - 0.005, passed


def test_what_is_pipelined_behind_a_held_answer_waits(door):
    d = door(QUEUE % 5)
    one = b"GET /v1/auth HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    start = time.monotonic()
    got = replies(d.raw(one * 3 + last))
    assert [status for status, _, _ in got] == [200] * 4
    assert len(got[3][2]) > 1000
    assert time.monotonic() - start >= 0.195


def test_callers_that_leave_while_they_wait(door):
    d = door("name: q, by: [ip], rate: 5/second queue 100, algorithm: leaky-bucket")
    for reset in (False, True):
        sockets = []
        for _ in range(20):
            s = socket.create_connection(d.address, DEADLINE)
            s.sendall(b"GET /v1/auth HTTP/1.1\r\nHost: x\r\n\r\n")
            sockets.append(s)
        time.sleep(0.1)
        for s in sockets:
            if reset:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
    time.sleep(0.5)
    assert d.ask("POST", "/v1/check", {"ip": "a"}, fresh=True).status == 200
    assert d.daemon.end() == 0


def test_longer_than_is_held_is_refused_and_takes_nothing(door):
    d = door("name: q, by: [ip], rate: 1/minute queue 5, algorithm: leaky-bucket")
    assert d.auth().status == 200
    for _ in range(2):  # the second finds the same: the first took nothing
        reply = d.auth()
        assert (reply.status, reply.one("X-Weir-Reason")) == (429, "busy")
        assert 55 <= int(reply.one("Retry-After")) <= 60


def test_draining_answers_what_is_held(door):
    d = door("name: q, by: [ip], rate: 1/second queue 5, algorithm: leaky-bucket", listen="http: 127.0.0.1:0, threads: 1, drain: 20s")
    s = socket.create_connection(d.address, DEADLINE)
    s.sendall(b"GET /v1/auth HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
    assert wait_for("the first", lambda: s.recv(65536)).startswith(b"HTTP/1.1 200 OK")
    d.daemon.process.terminate()
    assert s.recv(65536).startswith(b"HTTP/1.1 200 OK")
    assert s.recv(1) == b""
    assert d.daemon.wait() == 0
