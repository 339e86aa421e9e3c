"""Small duties of the HTTP doors, and of the log: dates, empty lines, what was refused and why."""
import email.utils
import json
import socket
import time

import pytest

from certificates import Authority
from http_door import replies
from serving import DEADLINE, Daemon
from test_http_wire import post
from test_resp import command

POLICY = """version: 1
arena: {size: 1MiB}
listen:
  http: ["127.0.0.1:0", {address: "127.0.0.1:0", tls: {certificate: %s, key: %s}}]
  resp: 127.0.0.1:0
  admin: 127.0.0.1:0
  admin_token: a-token-of-the-tests-own
  threads: 1
limits: [{name: x, by: [ip], rate: 1/day}]
"""


@pytest.fixture
def daemon(weir, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY % Authority(tmp_path).issue("server"))
    daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json", "--log-level", "debug"]).ready()
    yield daemon
    daemon.close()


def ask(daemon, *pieces, door="http", index=0):
    with socket.create_connection(daemon.address(door, index), DEADLINE) as s:
        for piece in pieces:
            s.sendall(piece)
            time.sleep(0.05)
        got = b""
        while data := s.recv(65536):
            got += data
        return got


LAST = post(b"Connection: close")


@pytest.mark.parametrize("door, request_", [("http", LAST), ("http", b"nonsense\r\n\r\n"),
                                            ("admin", post(b"Connection: close", method=b"GET", path=b"/healthz"))])
def test_a_response_has_a_date(daemon, door, request_):
    before = int(time.time())
    fields = replies(ask(daemon, request_, door=door))[0][1]
    stamp = email.utils.parsedate_to_datetime(fields["date"])
    assert before - 1 <= stamp.timestamp() <= time.time()
    assert email.utils.format_datetime(stamp, usegmt=True) == fields["date"]


@pytest.mark.parametrize("pieces", [[b"\r\n" + post() + b"\r\n" + LAST], [b"\r", b"\n" + post(), b"\r", b"\n" + LAST]])
def test_one_empty_line_before_a_request_is_passed_over(daemon, pieces):
    assert [status for status, _, _ in replies(ask(daemon, *pieces))] == [200, 200]


def test_a_second_empty_line_is_not(daemon):
    assert [status for status, _, _ in replies(ask(daemon, b"\r\n\r\n" + LAST))] == [400]


def reasons(daemon, door):
    daemon.event("input refused")
    return [e["reason"] for e in daemon.events if e["event"] == "input refused" and e["door"] == door]


def test_refused_input_is_told_of_at_debug(daemon):
    ask(daemon, b"nonsense\r\n\r\n")
    assert json.loads(reasons(daemon, "http")[0])["status"] == 400
    ask(daemon, b"*-9\r\n", door="resp")
    ask(daemon, post(b"Connection: close", method=b"GET", path=b"/v1/limits"), door="admin")
    ask(daemon, post(), index=1)  # in clear, to a port of TLS
    assert daemon.event("input refused", 4)
    assert "Protocol error" in reasons(daemon, "resp")[0]
    assert '"status":401' in reasons(daemon, "admin")[0]
    assert reasons(daemon, "http")[1] == "http request"


def test_a_flood_of_refused_input_is_told_of_now_and_then(daemon):
    with socket.create_connection(daemon.address("resp"), DEADLINE) as s:
        s.sendall(command("PING"))
        assert s.recv(100) == b"+PONG\r\n"
    begin = time.monotonic()
    for _ in range(200):
        ask_fast(daemon)
    seconds = time.monotonic() - begin
    assert len(reasons(daemon, "http")) <= 20 * (int(seconds) + 2)


def ask_fast(daemon):
    with socket.create_connection(daemon.address("http"), DEADLINE) as s:
        s.sendall(b"nonsense\r\n\r\n")
        s.recv(65536)


def test_the_log_has_values_as_they_are(daemon):
    tls = [e["tls"] for e in daemon.events if e["event"] == "listening" and e["door"] == "http"]
    assert tls == [False, True]
    body = rb'{"ip":"192.0.2.1","path":"/evil\u0000x"}'
    ask(daemon, post(body=body), post(b"Connection: close", body=body))
    assert daemon.event("refused")["path"] == "/evil\0x"
    assert daemon.end() == 0
    assert daemon.events[-1]["event"] == "stopped"
