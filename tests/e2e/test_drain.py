"""The end of connections that are kept: what was asked before the end is answered, and said to be the last."""
import collections
import signal
import socket
import threading

import pytest

from serving import DEADLINE
from test_http_wire import post
from test_resp import command

CLIENTS = 40
POLICY = """version: 1
arena: {size: 1MiB}
listen: {http: 127.0.0.1:0, resp: 127.0.0.1:0, threads: 2, drain: 20s}
limits: [{name: x, by: [ip], rate: 100000/day}]
"""


def receive(s, end):
    """Up to |end|, or to the other side's end."""
    got = b""
    while not got.endswith(end):
        data = s.recv(65536)
        if not data:
            break
        got += data
    return got


def test_who_asks_all_the_time_is_told_which_answer_is_the_last(daemon):
    how = collections.Counter()
    asking = threading.Barrier(CLIENTS + 1)

    def ask():
        with socket.create_connection(daemon.address("http"), DEADLINE) as s:
            for n in range(1000000):
                s.sendall(b"GET /v1/auth HTTP/1.1\r\nHost: x\r\n\r\n")
                got = receive(s, b"\r\n\r\n")
                if n == 0:
                    asking.wait(DEADLINE)
                if not got or b"Connection: close" in got:
                    break
        how["answered" if got else "thrown away"] += 1

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for t in threads:
        t.start()
    asking.wait(DEADLINE)
    daemon.signal(signal.SIGTERM)
    for t in threads:
        t.join()
    assert how == {"answered": CLIENTS}
    assert daemon.wait() == 0
    daemon.event("drained")


@pytest.mark.parametrize("door, request_, last", [("http", post(), b"Connection: close"),
                                                  ("resp", command("PING"), b"+PONG\r\n")])
def test_what_arrives_at_the_moment_of_the_end_is_answered(daemon, door, request_, last):
    """Asked on connections that were kept, just when the drain has begun: one answer, then the end."""
    kept = [socket.create_connection(daemon.address(door), DEADLINE) for _ in range(CLIENTS)]
    for s in kept:
        s.sendall(command("PING") if door == "resp" else post())
        assert s.recv(65536)
    daemon.signal(signal.SIGTERM)
    daemon.event("signal")
    for s in kept:
        s.sendall(request_)
    for s in kept:
        got = receive(s, b"no such end")
        assert last in got
        s.close()
    assert daemon.wait() == 0


def test_a_command_whose_beginning_has_come_is_answered(daemon):
    whole = command("ECHO", "x" * 100)
    with socket.create_connection(daemon.address("resp"), DEADLINE) as s:
        s.sendall(whole + whole[:50])
        assert receive(s, b"x\r\n")
        daemon.signal(signal.SIGTERM)
        daemon.event("signal")
        threading.Timer(1.0, s.sendall, [whole[50:]]).start()  # long after idle ones are closed
        assert receive(s, b"no such end") == b"$100\r\n" + b"x" * 100 + b"\r\n"
    assert daemon.wait() == 0


def test_who_says_nothing_is_let_go_soon(daemon):
    with socket.create_connection(daemon.address("http"), DEADLINE) as s:
        s.sendall(post())
        assert s.recv(65536)
        daemon.signal(signal.SIGTERM)
        assert receive(s, b"no such end") == b""
    assert daemon.wait() == 0
    daemon.event("drained")
