"""The HTTP door: connections, framing, and input that is malformed."""
import socket
import time

import pytest

from http_door import Door, replies
from serving import DEADLINE, wait_for

LIMIT = "name: x, by: [ip], rate: 1000/hour, algorithm: token-bucket"
BODY = b'{"ip":"192.0.2.1"}'


@pytest.fixture(scope="module")
def door(build, tmp_path_factory):
    d = Door(build / "weir", tmp_path_factory.mktemp("door") / "policy.yaml", [LIMIT])
    yield d
    d.close()


def post(*fields, body=BODY, path=b"/v1/check", method=b"POST"):
    lines = [method + b" " + path + b" HTTP/1.1", b"Host: x", b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


LAST = b"Connection: close"


# ---- well-formed --------------------------------------------------------------------------------


def test_a_connection_is_kept(door):
    local = None
    for _ in range(5):
        assert door.ask("POST", "/v1/check", {"ip": "a"}).status == 200
        local = local or door.connection.sock.getsockname()
        assert door.connection.sock.getsockname() == local


def test_pipelined_requests_are_answered_in_order(door):
    got = replies(door.raw(post(body=b'{"ip":"p1","cost":5}') * 3 + post(path=b"/nope") + post(LAST)))
    assert [status for status, _, _ in got] == [200, 200, 200, 404, 200]
    assert b'"remaining":985' in got[2][2]
    assert got[4][1]["connection"] == "close"


def test_a_thousand_pipelined(door):
    got = replies(door.raw(post(body=b'{"ip":"p2"}') * 999 + post(LAST, body=b'{"ip":"p2"}')))
    assert len(got) == 1000
    assert b'"remaining":0,' in got[999][2]


def test_pipelined_answers_larger_than_what_is_kept(door):
    """Reading stops while a megabyte of answers is unsent, and goes on."""
    count = 200
    with socket.create_connection(door.address, DEADLINE) as s:
        s.sendall(post(method=b"GET", path=b"/v1/openapi.json", body=b"") * (count - 1) +
                  post(LAST, method=b"GET", path=b"/v1/openapi.json", body=b""))
        time.sleep(0.1)
        got = b""
        while data := s.recv(1 << 20):
            got += data
    assert [status for status, _, _ in replies(got)] == [200] * count


def test_byte_by_byte(door):
    request = post(LAST)
    assert replies(door.raw(*(request[i:i + 1] for i in range(len(request)))))[0][0] == 200


def test_chunks(door):
    head = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    got = replies(door.raw(head, b"3;a=b\r\n{\"i\r\n", b"D\r\np\":\"192.0.2.1\r\n2\r\n\"}\r\n0\r\nT: x\r\n\r\n"))
    assert got[0][0] == 200


def test_100_continue(door):
    with socket.create_connection(door.address, DEADLINE) as s:
        s.sendall(post(b"Expect: 100-continue", LAST)[:-len(BODY)])
        assert s.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(BODY)
        assert s.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


def test_http_1_0(door):
    head = b"POST /v1/check HTTP/1.0\r\nContent-Length: %d\r\n" % len(BODY)
    got = replies(door.raw(head + b"Connection: keep-alive\r\n\r\n" + BODY + head + b"\r\n" + BODY))
    assert [fields["connection"] for _, fields, _ in got] == ["keep-alive", "close"]


def test_half_closed(door):
    with socket.create_connection(door.address, DEADLINE) as s:
        s.sendall(post())
        s.shutdown(socket.SHUT_WR)
        got = b""
        while data := s.recv(65536):
            got += data
    assert replies(got)[0][0] == 200


def test_unix_sockets(build, tmp_path):
    path = tmp_path / "http.sock"
    d = Door(build / "weir", tmp_path / "policy.yaml", ["name: x, by: [ip], rate: 5/hour"],
             listen=f'http: "unix:{path}"')
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(path))
            # A process of this host: what it forwards is believed where 127.0.0.1 is trusted.
            s.sendall(b"GET /v1/auth HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.9\r\nX-Original-URI: /a\r\n\r\n")
            assert s.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
    finally:
        d.close()


# ---- malformed ----------------------------------------------------------------------------------

GET = b"GET /v1/openapi.json HTTP/1.1\r\n"
POST = b"POST /v1/check HTTP/1.1\r\nHost: x\r\n"
MALFORMED = {
    "nonsense": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    "bare LF": (400, b"GET /v1/openapi.json HTTP/1.1\nHost: x\n\n"),
    "no version": (400, b"GET /v1/openapi.json\r\nHost: x\r\n\r\n"),
    "HTTP/2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/1.9": (505, b"GET / HTTP/1.9\r\nHost: x\r\n\r\n"),
    "no host": (400, GET + b"\r\n"),
    "two hosts": (400, GET + b"Host: x\r\nHost: y\r\n\r\n"),
    "blank before colon": (400, GET + b"Host : x\r\n\r\n"),
    "folded": (400, GET + b"Host: x\r\nA: b\r\n c\r\n\r\n"),
    "NUL": (400, GET + b"Host: x\r\nA: b\0c\r\n\r\n"),
    "CR": (400, GET + b"Host: x\r\nA: b\rc\r\n\r\n"),
    "both lengths": (400, POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "two lengths": (400, POST + b"Content-Length: 18\r\nContent-Length: 18\r\n\r\n" + BODY),
    "two equal lengths in one": (400, POST + b"Content-Length: 18, 18\r\n\r\n" + BODY),
    "signed length": (400, POST + b"Content-Length: +18\r\n\r\n" + BODY),
    "huge length": (413, POST + b"Content-Length: 99999999999999999999999999\r\n\r\n"),
    "large body": (413, POST + b"Content-Length: 262145\r\n\r\n"),
    "large chunk": (413, POST + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n"),
    "gzip, chunked": (501, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n"),
    "xchunked": (501, POST + b"Transfer-Encoding: xchunked\r\n\r\n"),
    "chunk longer than its size": (400, POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}}\r\n0\r\n\r\n"),
    "chunk with LF": (400, POST + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n"),
    "long target": (414, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
    "large head": (431, GET + b"Host: x\r\n" + b"A: " + b"b" * 17000 + b"\r\n\r\n"),
    "many fields": (431, GET + b"Host: x\r\n" + b"A: b\r\n" * 101 + b"\r\n"),
    "endless head": (431, GET + b"Host: x\r\n" + b"A: b\r\n" * 5000),
    "expectation": (417, POST + b"Expect: more\r\n\r\n"),
    "CONNECT": (400, b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(door, name):
    """One problem, and the end: what follows, be it a request or a part of one, is not looked at."""
    status, sent = MALFORMED[name]
    got = replies(door.raw(sent + post(body=b'{"ip":"smuggled"}')))
    assert len(got) == 1, got
    assert (got[0][0], got[0][1]["connection"]) == (status, "close")
    assert got[0][1]["content-type"] == "application/problem+json"
    assert b'"status":%d,"detail":' % status in got[0][2]


def test_nothing_was_smuggled(door):
    assert door.check(ip="smuggled", cost=0)["remaining"] == 1000


def test_other_methods_and_paths(door):
    for method, target, status, allow in [("GET", "/v1/check", 405, "POST"), ("POST", "/v1/openapi.json", 405, "GET, HEAD"),
                                          ("DELETE", "/v1/settle", 405, "POST"), ("GET", "/", 404, None),
                                          ("GET", "/v1/authority", 404, None), ("OPTIONS", "*", 404, None)]:
        reply = door.ask(method, target)
        assert (reply.status, reply.all("Allow")) == (status, [allow] if allow else []), target
    assert door.ask("HEAD", "/v1/check").body == b""


def test_callers_that_vanish(door):
    for sent in (b"", b"P", post()[:-3], post()):
        for _ in range(20):
            with socket.create_connection(door.address, DEADLINE) as s:
                s.sendall(sent)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
    assert door.ask("POST", "/v1/check", {"ip": "a"}, fresh=True).status == 200


def test_draining_answers_what_is_in_flight(build, tmp_path):
    d = Door(build / "weir", tmp_path / "policy.yaml", [LIMIT])
    try:
        idle, busy = (socket.create_connection(d.address, DEADLINE) for _ in range(2))
        whole = post()
        busy.sendall(whole[:-5])
        idle.sendall(post())
        assert idle.recv(65536).startswith(b"HTTP/1.1 200 OK")
        time.sleep(0.05)
        d.daemon.process.terminate()
        assert idle.recv(1) == b""  # idle: closed
        busy.sendall(whole[-5:])
        got = wait_for("the answer", lambda: busy.recv(65536))
        assert replies(got)[0][:1] == (200,) and replies(got)[0][1]["connection"] == "close"
        assert d.daemon.wait() == 0
    finally:
        d.close()
