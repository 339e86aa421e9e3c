"""HTTP/2 by hand: frames of any bytes, as no library would send them."""
import socket
import struct
import time

from serving import DEADLINE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
NO_ERROR, PROTOCOL_ERROR, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 0, 1, 9, 11
INITIAL_WINDOW_SIZE = 4


def frame(kind, flags=0, stream=0, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def hpack(*fields):
    """Literals without indexing: as long as they are, and leaving no state behind."""
    out = b""
    for name, value in fields:
        assert len(name) < 127 and len(value) < 127
        out += b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    return out


def request(path, content_type="application/grpc"):
    return hpack((":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", path),
                 ("content-type", content_type), ("te", "trailers"))


class Http2:
    """A connection. What the other side sends is kept in |frames|: (kind, flags, stream, payload)."""

    def __init__(self, address, greet=True, settings=b"", wrap=None):
        self.socket = socket.create_connection(address, DEADLINE)
        if wrap is not None:
            self.socket = wrap(self.socket)
        self.held, self.frames, self.ended = b"", [], False
        if greet:
            self.send(PREFACE + frame(SETTINGS, payload=settings))

    def send(self, data):
        """True if the other side has taken it."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def take(self, wait=DEADLINE):
        """Read once. False: nothing came, or it has ended."""
        self.socket.settimeout(wait)
        try:
            piece = self.socket.recv(1 << 16)
        except TimeoutError:
            return False
        except OSError:
            piece = b""
        self.ended = self.ended or not piece
        self.held += piece
        while len(self.held) >= 9 and len(self.held) >= 9 + int.from_bytes(self.held[:3], "big"):
            size = int.from_bytes(self.held[:3], "big")
            self.frames.append((self.held[3], self.held[4], int.from_bytes(self.held[5:9], "big"),
                                self.held[9:9 + size]))
            self.held = self.held[9 + size:]
        return bool(piece)

    def until(self, kind, count=1):
        """The count-th frame of that kind."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            found = [f for f in self.frames if f[0] == kind]
            if len(found) >= count:
                return found[count - 1]
            if not self.take(1) and self.ended:
                break
        raise AssertionError(f"no frame {kind} in {self.frames[-20:]}, ended: {self.ended}")

    def until_closed(self, within=DEADLINE):
        """The error codes of all GOAWAYs, once the other side has closed."""
        end = time.monotonic() + within
        while not self.ended:
            assert time.monotonic() < end, f"still open: {self.frames[-20:]}"
            self.take(0.1)
        return [struct.unpack(">II", f[3][:8])[1] for f in self.frames if f[0] == GOAWAY]

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
