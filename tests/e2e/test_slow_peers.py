"""Who reads slowly, writes slowly or is gone without a word holds nobody else up, costs bounded memory, and is closed
by a deadline: of the HTTP and the RESP door, in clear and under TLS, on one loop with the others."""
import select
import socket
import ssl
import threading
import time

import pytest

from serving import DEADLINE, Daemon, wait_for
from test_http_wire import post
from test_resp import command
from together import Together

STALL, IDLE = 1.0, 2.0
GREEDY, UNSENT_MAX = 8, 5 << 20  # clients; bytes that one may cost
MILLION = 1000000
POLICY = """version: 1
arena: {size: 1MiB}
listen:
  http: ["127.0.0.1:0", {address: "127.0.0.1:0", tls: {certificate: %s, key: %s}}]
  resp: ["127.0.0.1:0", {address: "127.0.0.1:0", tls: {certificate: %s, key: %s}}]
  threads: 1
  stall_timeout: 1s
  idle_timeout: 2s
limits: [{name: x, by: [ip], rate: 100000/day}]
"""
at_once = Together("authority", "daemon")
REQUEST = {"http": post(), "resp": command("ECHO", "z" * 100)}
# Much is answered to little.
ASKING = {"http": post(method=b"GET", path=b"/v1/openapi.json", body=b""), "resp": command("ECHO", "z" * 100)}


@pytest.fixture(scope="module")
def daemon(weir, authority, tmp_path_factory):
    path = tmp_path_factory.mktemp("slow") / "policy.yaml"
    path.write_text(POLICY % (authority.issue("server") * 2))
    daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"]).ready()
    yield daemon
    daemon.close()


@pytest.fixture(params=["http", "resp", "https", "resps"])
def door(request):
    return request.param


def connect(daemon, authority, door, wrapped=True):
    kind, secure = door[:4], len(door) > 4
    s = socket.create_connection(daemon.address(kind, int(secure)), DEADLINE)
    if secure and wrapped:
        return ssl.create_default_context(cafile=authority.certificate).wrap_socket(s, server_hostname="localhost")
    return s


class Other(threading.Thread):
    """Somebody else on the same loop: asks all the while, and remembers the longest wait."""

    def __init__(self, daemon, authority, door):
        super().__init__()
        self.socket, self.request = connect(daemon, authority, door), REQUEST[door[:4]]
        self.longest, self.asked, self.stopped = 0.0, 0, threading.Event()

    def run(self):
        while not self.stopped.is_set():
            before = time.monotonic()
            self.socket.sendall(self.request)
            if not self.socket.recv(65536):
                return
            self.longest = max(self.longest, time.monotonic() - before)
            self.asked += 1
            time.sleep(0.01)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.join()
        self.socket.close()
        assert self.asked > 10 and self.longest < STALL, (self.asked, self.longest)


def rss(daemon):
    with open(f"/proc/{daemon.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def gone(s):
    """Has the other side closed it? Without reading: unread answers are kept."""
    poll = select.poll()
    poll.register(s, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))


def flood(s, request):
    """Ask without reading until the other side takes no more, a million times at most. Returns the bytes it took."""
    s.settimeout(0.3)
    taken, piece = 0, request * 100
    try:
        while taken < MILLION * len(request):
            taken += s.send(piece)
    except (TimeoutError, ssl.SSLWantWriteError):
        pass
    return taken


def test_who_reads_nothing(daemon, authority, door):
    with Other(daemon, authority, door):
        before = rss(daemon)
        greedy, request = [], ASKING[door[:4]]
        for _ in range(GREEDY):
            greedy.append(connect(daemon, authority, door))
            assert flood(greedy[-1], request) < MILLION * len(request)
        assert rss(daemon) - before < GREEDY * UNSENT_MAX
        for s in greedy:
            wait_for("the end of who reads nothing", lambda s=s: gone(s))
            s.close()


def test_who_reads_a_little_now_and_then(daemon, authority, door):
    """Too little: what it takes in a deadline's time is less than what waits for it."""
    with Other(daemon, authority, door):
        s = connect(daemon, authority, door)
        flood(s, ASKING[door[:4]])
        begin = time.monotonic()
        while not gone(s) and time.monotonic() < begin + DEADLINE:
            s.recv(10)
            time.sleep(0.05)
        assert gone(s)
        s.close()


@at_once
def test_who_sends_half_a_request(daemon, authority, door):
    with Other(daemon, authority, door):
        s = connect(daemon, authority, door)
        s.sendall(REQUEST[door[:4]] + REQUEST[door[:4]][:-3])
        begin = time.monotonic()
        got = b""
        while data := s.recv(65536):
            got += data
        assert got  # the whole one is answered
        assert STALL - 0.1 < time.monotonic() - begin < IDLE
        s.close()


@at_once
def test_who_sends_a_byte_now_and_then(daemon, authority, door):
    """A byte does not begin the time anew."""
    with Other(daemon, authority, door):
        s = connect(daemon, authority, door)
        begin = time.monotonic()
        with pytest.raises((ConnectionError, ssl.SSLError)):
            for i in range(400):
                s.sendall((REQUEST[door[:4]] * 10)[i:i + 1] if i < len(REQUEST[door[:4]]) - 3 else b"z")
                time.sleep(0.1)
                if gone(s):
                    raise ConnectionError
        assert STALL - 0.1 < time.monotonic() - begin < IDLE
        s.close()


@at_once
def test_who_is_gone_without_a_word(daemon, authority, door):
    """Half-open: it says nothing, not even that it has ended. So are those who never began, under TLS."""
    with Other(daemon, authority, door):  # more than silent: stays
        begin = time.monotonic()
        silent = [connect(daemon, authority, door), connect(daemon, authority, door, wrapped=False)]
        silent[0].sendall(REQUEST[door[:4]])
        assert silent[0].recv(65536)
        for s in silent:
            assert s.recv(1) == b""
            s.close()
        assert IDLE - 0.1 < time.monotonic() - begin < 2 * IDLE


def test_who_ends_its_half(daemon, authority, door):
    """A half-closed connection is answered what it asked for, then closed."""
    s = connect(daemon, authority, door)
    s.sendall(REQUEST[door[:4]])
    begin = time.monotonic()
    socket.socket.shutdown(s, socket.SHUT_WR)  # of TCP alone: TLS is not told
    assert s.recv(65536)
    wait_for("the end", lambda: gone(s))
    assert time.monotonic() - begin < STALL
    s.close()
