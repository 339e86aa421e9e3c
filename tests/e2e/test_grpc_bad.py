"""HTTP/2 that is bad, or meant to be a burden, against the gRPC door: each client costs bounded memory, is told to
go, or closed, within a deadline; and others notice nothing."""
import contextlib
import os
import signal
import socket
import struct
import time

import pytest

import http2_wire as h2
from grpc_client import SERVICE, question
from http2_wire import Http2, frame
from serving import Daemon
from together import Together

POLICY = """version: 1
arena: {path: "%(dir)s/arena", size: 1MiB}
listen: {threads: 1, stall_timeout: 3s, grpc: 127.0.0.1:0}
limits:
  - {name: per-ip, by: [ip], rate: 1000000/minute, algorithm: fixed-window}
"""
ASK = question("api", [("remote_address", "192.0.2.1")])
MESSAGE = b"\0" + len(ASK).to_bytes(4, "big") + ASK
HEAD = h2.request(SERVICE)
# Bytes, for all that one test does; a sanitizer's shadow is several times what it follows.
GROWTH_MAX = (96 if {"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ) else 24) << 20


def resident(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))


def call(stream):
    return frame(h2.HEADERS, h2.END_HEADERS, stream, HEAD) + frame(h2.DATA, h2.END_STREAM, stream, MESSAGE)


@contextlib.contextmanager
def served(weir, tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY % {"dir": tmp_path})
    d = Daemon([weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"]).ready()
    try:
        yield d
    finally:
        d.close()


@contextlib.contextmanager
def watched(daemon):
    """Its address; afterwards it answers as ever, and has not grown."""
    address, pid = daemon.address("grpc"), daemon.process.pid
    asked(address)
    before = resident(pid)
    yield address
    asked(address)
    assert resident(pid) - before < GROWTH_MAX


@pytest.fixture(scope="module")
def daemon(weir, tmp_path_factory):
    with served(weir, tmp_path_factory.mktemp("grpc")) as d:
        yield d


@pytest.fixture
def door(daemon):
    with watched(daemon) as address:
        yield address


at_once = Together(daemon=served, door=watched)  # of those that wait for deadlines: each has a daemon of its own


def asked(address):
    """An honest call is answered."""
    with Http2(address) as c:
        c.send(call(1))
        assert c.until(h2.DATA)[3][:7] == b"\0" + c.until(h2.DATA)[3][1:5] + b"\x08\x01"


def flood(address, pieces, settings=b""):
    """Send until it is not taken any more; all GOAWAY codes."""
    with Http2(address, settings=settings) as c:
        for piece in pieces:
            if not c.send(piece):
                break
            c.take(0.0001)
            if any(f[0] == h2.GOAWAY for f in c.frames):
                break
        return c.until_closed()


def test_rapid_reset(door):
    """CVE-2023-44487: open, reset, 100 000 times."""
    def attack():
        for i in range(1000):
            yield b"".join(frame(h2.HEADERS, h2.END_HEADERS, stream, HEAD) +
                           frame(h2.RST_STREAM, 0, stream, struct.pack(">I", 8))
                           for stream in range(1 + 200 * i, 1 + 200 * (i + 1), 2))
    assert h2.ENHANCE_YOUR_CALM in flood(door, attack())


def test_reset_of_answered_calls(door):
    """Complete calls, reset behind their answer."""
    def attack():
        for i in range(2000):
            yield b"".join(frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, stream, HEAD) +
                           frame(h2.RST_STREAM, 0, stream, struct.pack(">I", 8))
                           for stream in range(1 + 100 * i, 1 + 100 * (i + 1), 2))
    assert h2.ENHANCE_YOUR_CALM in flood(door, attack())


def test_continuation_flood(door):
    """CVE-2024-28182: a header block without end."""
    field = h2.hpack(("x", "y" * 100)) * 100

    def attack():
        yield frame(h2.HEADERS, 0, 1, HEAD)
        for _ in range(2000):
            yield frame(h2.CONTINUATION, 0, 1, field)
    assert flood(door, attack()) != []


def test_empty_continuations(door):
    def attack():
        yield frame(h2.HEADERS, 0, 1, HEAD)
        for _ in range(20):
            yield frame(h2.CONTINUATION, 0, 1) * 1000
    assert flood(door, attack()) != []


@pytest.mark.parametrize("name, piece", [
    ("settings", frame(h2.SETTINGS, payload=struct.pack(">HI", 3, 100))),
    ("settings_acks", frame(h2.SETTINGS, h2.ACK)),
    ("ping", frame(h2.PING, payload=b"12345678")),
    ("priority", frame(h2.PRIORITY, 0, 1, struct.pack(">IB", 0, 16))),
    ("window_update", frame(h2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))),
    ("unknown", frame(77, 255, 0, b"x" * 20)),
    ("priority_update", frame(16, 0, 0, b"\0\0\0\1u=1")),
], ids=lambda value: value if isinstance(value, str) else "")
def test_floods(door, name, piece):
    codes = flood(door, (piece * 500 for _ in range(200)))
    assert h2.ENHANCE_YOUR_CALM in codes or (name == "settings_acks" and h2.PROTOCOL_ERROR in codes)


def test_unknown_frames_are_passed_over(door):
    with Http2(door) as c:
        assert c.send(frame(77, 255, 0, b"x" * 20) * 1000)
        c.send(call(1))
        assert c.until(h2.DATA)[2] == 1


def test_a_flood_in_one_write(door):
    """More frames in a single read than a budget has: it is told all the same."""
    with Http2(door) as c:
        c.send(frame(h2.PING, payload=b"12345678") * 3500)
        assert h2.ENHANCE_YOUR_CALM in c.until_closed()


def test_empty_data(door):
    def attack():
        yield frame(h2.HEADERS, h2.END_HEADERS, 1, HEAD)
        for _ in range(200):
            yield frame(h2.DATA, 0, 1) * 500
    assert h2.ENHANCE_YOUR_CALM in flood(door, attack())


def test_padding_only(door):
    def attack():
        yield frame(h2.HEADERS, h2.END_HEADERS, 1, HEAD)
        for _ in range(200):
            yield frame(h2.DATA, 0x8, 1, b"\x03\0\0\0") * 500  # PADDED: a length, and as much of nothing
    assert h2.ENHANCE_YOUR_CALM in flood(door, attack())


def test_empty_headers(door):
    """Requests without any field, and trailers that do not end."""
    assert flood(door, (b"".join(frame(h2.HEADERS, h2.END_HEADERS, stream) for stream in
                                 range(1 + 1000 * i, 1 + 1000 * (i + 1), 2)) for i in range(200))) != []
    assert flood(door, (frame(h2.HEADERS, h2.END_HEADERS, 1, HEAD if i == 0 else b"") for i in range(9000))) != []


def test_oversized_headers(door):
    """One costs its stream; many cost the connection."""
    large = HEAD + h2.hpack(*[("x", "y" * 100)] * 124)
    assert len(large) < 16384
    more = h2.hpack(*[("x", "y" * 100)] * 100)
    one = lambda stream: frame(h2.HEADERS, 0, stream, large) + frame(h2.CONTINUATION, h2.END_HEADERS, stream, more)
    with Http2(door) as c:
        c.send(one(1))
        assert c.until(h2.RST_STREAM)[2] == 1
        c.send(call(3))
        assert c.until(h2.DATA)[2] == 3
    assert h2.ENHANCE_YOUR_CALM in flood(door, (one(1 + 2 * i) for i in range(5000)))


def test_headers_that_hpack_unfolds(door):
    """One field of 4 KB in the dynamic table, then named 16 000 times by a byte each."""
    name = b"\x40" + b"\x01x" + b"\x7f" + bytes([0x80 | (3900 - 127) & 127, (3900 - 127) >> 7]) + b"y" * 3900
    bomb = frame(h2.HEADERS, 0, 1, HEAD + name) + frame(h2.CONTINUATION, h2.END_HEADERS, 1, b"\xbe" * 16000)
    with Http2(door) as c:
        c.send(bomb)
        assert c.until(h2.RST_STREAM)[2] == 1


@pytest.mark.parametrize("block", ids=range(6), argvalues=[b"\xff\xff\xff\xff\xff\xff", b"\x80", b"\xbf", b"\x00\x85aa",
                                   b"\x3f\xff\xff\xff\xff\x0f", b"\x00\x81\x00\x01x"])
def test_bad_hpack(door, block):
    with Http2(door) as c:
        c.send(frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 1, HEAD + block))
        assert h2.COMPRESSION_ERROR in c.until_closed()


@pytest.mark.parametrize("piece", ids=range(9), argvalues=[
    frame(h2.DATA, 0, 0, b"x"), frame(h2.HEADERS, 4, 2, HEAD), frame(h2.PUSH_PROMISE, 4, 1, b"\0\0\0\2"),
    frame(h2.PING, 0, 0, b"short"), frame(h2.SETTINGS, 0, 0, b"odd"), frame(h2.RST_STREAM, 0, 5, b"\0\0\0\0"),
    frame(h2.WINDOW_UPDATE, 0, 0, b"\0\0\0\0"), frame(h2.CONTINUATION, 4, 1), b"\xff\xff\xff" + bytes(6)])
def test_frames_against_the_rules(door, piece):
    with Http2(door) as c:
        c.send(piece)
        codes = c.until_closed()
        assert codes != [] and h2.NO_ERROR not in codes


@at_once
def test_a_window_that_stays_shut(door):
    """Answers of a thousand calls wait; no more are taken in; after a while it is over."""
    start = time.monotonic()
    with Http2(door, settings=struct.pack(">HI", h2.INITIAL_WINDOW_SIZE, 0)) as c:
        for i in range(20):
            c.send(b"".join(call(stream) for stream in range(1 + 200 * i, 1 + 200 * (i + 1), 2)))
            c.take(0.01)
        codes = c.until_closed(40)
        assert codes != [] and not any(f[0] == h2.DATA for f in c.frames)
    assert time.monotonic() - start < 30


@at_once
def test_a_window_that_stays_shut_and_pings(door):
    """Few calls, and signs of life all the time: they do not count."""
    with Http2(door, settings=struct.pack(">HI", h2.INITIAL_WINDOW_SIZE, 0)) as c:
        c.send(call(1) + call(3))
        end = time.monotonic() + 40
        while not c.ended and time.monotonic() < end:
            c.send(frame(h2.PING, payload=b"12345678"))
            c.take(0.5)
        assert h2.ENHANCE_YOUR_CALM in c.until_closed(1)


@at_once
def test_slow_starts_are_closed(door):
    """Silence, a preface byte by byte, and half a preface: none is waited for longer than others."""
    clients = [Http2(door, greet=False) for _ in range(3)]
    clients[2].send(h2.PREFACE)
    start = time.monotonic()
    while not all(c.ended for c in clients) and time.monotonic() - start < 40:
        at = int(time.monotonic() - start)
        clients[1].send(h2.PREFACE[at:at + 1])
        time.sleep(max(0, start + at + 1 - time.monotonic()))
        for c in clients:
            while c.take(0.01):
                pass
    assert all(c.until_closed(1) == [h2.ENHANCE_YOUR_CALM] for c in clients)
    for c in clients:
        c.close()


def test_what_is_not_http2(door):
    for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n"):
        with Http2(door, greet=False) as c:
            c.send(text)
            c.until_closed()


@at_once
def test_a_reader_that_reads_nothing(door, daemon):
    """Its answers fill the kernel's buffers, then ours to their bound, then nothing more is read of it."""
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.connect(door)
    c.settimeout(0.2)
    window = frame(h2.WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 70000))
    try:
        c.sendall(h2.PREFACE + frame(h2.SETTINGS) + window)
        for i in range(1, 400000, 2):
            c.sendall(call(i))
        raise AssertionError("all of it was taken")
    except OSError:
        pass  # it is not read any more
    asked(door)
    end = time.monotonic() + 40
    closed = False
    while not closed and time.monotonic() < end:  # without reading: writing meets the reset in the end
        try:
            c.send(b"\0")
        except TimeoutError:
            pass
        except OSError:
            closed = True
        time.sleep(0.1)
    c.close()
    assert closed


@at_once
def test_many_bad_clients_at_once(door, daemon):
    """Two hundred, each holding what it can; the memory is that of all their bounds together, and then given back."""
    settings = struct.pack(">HI", h2.INITIAL_WINDOW_SIZE, 0)
    clients = [Http2(door, settings=settings) for _ in range(200)]
    for c in clients:
        c.send(b"".join(call(stream) for stream in range(1, 41, 2)))
    asked(door)
    for c in clients:
        assert c.until_closed(60) == [h2.ENHANCE_YOUR_CALM]
        c.close()


@pytest.mark.parametrize("open_call", [False, True])
@at_once
def test_a_drain_that_nobody_answers(weir, tmp_path, open_call):
    """A client that answers neither PING nor GOAWAY: without a call it does not hold the end up."""
    (tmp_path / "policy.yaml").write_text(POLICY.replace("threads: 1", "threads: 1, drain: 60s") % {"dir": tmp_path})
    d = Daemon([weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"]).ready()
    try:
        with Http2(d.address("grpc")) as c:
            c.send(call(1))
            c.until(h2.DATA)
            if open_call:
                c.send(frame(h2.HEADERS, h2.END_HEADERS, 3, HEAD) + frame(h2.PING, payload=b"12345678"))
                c.until(h2.PING)
            d.signal(signal.SIGTERM)
            assert struct.unpack(">I", c.until(h2.GOAWAY)[3][:4])[0] == 0x7fffffff
            last = struct.unpack(">II", c.until(h2.GOAWAY, 2)[3][:8])
            assert last == (3 if open_call else 1, h2.NO_ERROR)
            if open_call:  # what is in flight is answered
                c.send(frame(h2.DATA, h2.END_STREAM, 3, MESSAGE))
                assert c.until(h2.DATA, 2)[2] == 3
            assert c.until_closed() == [h2.NO_ERROR, h2.NO_ERROR]
            assert d.wait() == 0  # DEADLINE is 20 s, the drain's 60
    finally:
        d.close()
