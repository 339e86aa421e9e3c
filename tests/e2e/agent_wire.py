"""The protocol between processes of a host and their weir serve, written from docs/formats/agent.md: a client of the
door, and a daemon that can be told how to behave."""
import hashlib
import os
import socket
import struct
import threading

from serving import DEADLINE

VERSION, ASK, ANSWER, RELEASE = 1, 1, 2, 3
DECIDED, OTHER_POLICY, BUSY = 0, 1, 2
ALLOW, DELAY, DENY, SHADOW = range(4)
ABSENT = 0xFFFFFFFF


def fingerprint(fields=(), limits=(), plans=("default",)):
    """|fields| as the library names them: ("h", header) or ("k", key that the host program gives)."""
    names = [*fields, *(("l", n) for n in limits), *(("p", n) for n in plans)]
    total = hashlib.sha256(b"".join(f"{kind}{name}\0".encode() for kind, name in names)).digest()
    return struct.unpack("<Q", total[:8])[0]


def frame(kind, number, mark, rest, version=VERSION):
    return struct.pack("<IBBHQQ", 20 + len(rest), version, kind, 0, number, mark) + rest


def ask(number, mark, path="/", peer="192.0.2.1", method="GET", fields=(), cost=-1, plan=-1, peek=False):
    texts = [t.encode() for t in (method, path, peer)]
    values = [None if f is None else f.encode() for f in fields]
    return frame(ASK, number, mark, b"".join([
        struct.pack("<qiBBH", cost, plan, peek, 0, len(fields)),
        *(struct.pack("<I", len(t)) for t in texts),
        *(struct.pack("<I", ABSENT if v is None else len(v)) for v in values),
        *texts, *(v or b"" for v in values)]))


def answer(number, mark, outcome=ALLOW, reason=0, verdicts=(), status=DECIDED, hold=b"", retry_ns=0, delay_ns=0):
    rest = struct.pack("<BBBBhBBqqq16s", status, outcome, reason, 0, 0 if verdicts else -1, len(verdicts), 0,
                       1, delay_ns, retry_ns, hold)
    for v in verdicts:
        rest += struct.pack("<BBBBHHqqqqqq", v.get("outcome", ALLOW), v.get("reason", 0), 0, 0, v.get("limit", 0), 0,
                            v.get("capacity", 10), v.get("remaining", 5), v.get("retry_ns", 0), v.get("delay_ns", 0),
                            v.get("next_ns", 0), v.get("reset_ns", 0))
    return frame(ANSWER, number, mark, rest)


def read_exactly(sock, n):
    got = b""
    while len(got) < n:
        piece = sock.recv(n - len(got))
        if not piece:
            return None
        got += piece
    return got


def read_frame(sock):
    """(kind, id, fingerprint, rest), or None at the end."""
    head = read_exactly(sock, 4)
    if head is None:
        return None
    body = read_exactly(sock, struct.unpack("<I", head)[0])
    if body is None:
        return None
    version, kind, zero, number, mark = struct.unpack("<BBHQQ", body[:20])
    assert version == VERSION and zero == 0
    return kind, number, mark, body[20:]


class Answer:
    def __init__(self, number, mark, rest):
        self.id, self.mark = number, mark
        (self.status, self.outcome, self.reason, self.plan, self.decisive, count, zero, self.cost, self.delay_ns,
         self.retry_ns, self.hold) = struct.unpack("<BBBBhBBqqq16s", rest[:48])
        assert zero == 0 and len(rest) == 48 + 56 * count
        names = ("outcome", "reason", "shadow", "plan", "limit", "zero", "capacity", "remaining", "retry_ns",
                 "delay_ns", "next_ns", "reset_ns")
        self.verdicts = [dict(zip(names, struct.unpack("<BBBBHHqqqqqq", rest[48 + 56 * i:104 + 56 * i])))
                         for i in range(count)]


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(str(path))

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def receive(self):
        """An answer; None: the door has closed."""
        got = read_frame(self.socket)
        if got is None:
            return None
        assert got[0] == ANSWER
        return Answer(*got[1:])

    def ask(self, number, mark, **what):
        self.send(ask(number, mark, **what))
        return self.receive()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class FakeDaemon:
    """Answers each ask by |reply|(number, mark, rest): bytes to be sent, or None for silence."""

    def __init__(self, path, reply):
        self.path, self.reply = str(path), reply
        self.asked, self.released, self.connections = [], [], []
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)  # nginx's workers are not root
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(conn)
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        try:
            while (got := read_frame(conn)) is not None:
                kind, number, mark, rest = got
                if kind == RELEASE:
                    self.released.append(rest)
                    continue
                self.asked.append(rest)
                out = self.reply(number, mark, rest)
                if out is not None:
                    with self.lock:
                        conn.sendall(out)
        except OSError:
            pass

    def cut(self):
        """End all connections."""
        for conn in self.connections:
            try:
                conn.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.connections.clear()

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.cut()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
