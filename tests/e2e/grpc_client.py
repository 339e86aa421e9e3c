"""Rate limit questions over gRPC, by grpcio; and just enough of protobuf to write them and read the answers."""
import json
import pathlib
import subprocess

from http2_wire import DATA, END_HEADERS, END_STREAM, HEADERS, frame, request

SERVICE = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
HEALTH = "/grpc.health.v1.Health/Check"
OK, OVER = 1, 2


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def descriptor(entries, hits=None, limit=None, negative=False):
    out = b"".join(field(1, field(1, k.encode()) + field(2, v.encode())) for k, v in entries)
    if limit is not None:
        out += field(2, field(1, limit[0]) + field(2, limit[1]))
    if hits is not None:
        out += field(3, field(1, hits) if hits else b"")
    return out + (field(4, 1) if negative else b"")


def question(domain, *descriptors, hits=0):
    """Descriptors are lists of (key, value), or made by descriptor()."""
    out = field(1, domain.encode())
    for d in descriptors:
        out += field(2, d if isinstance(d, bytes) else descriptor(d))
    return out + (field(3, hits) if hits else b"")


def fields(data):
    """(number, value) of a message: ints, or bytes."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
        else:
            assert tag & 7 == 2
            size = number()
            yield tag >> 3, data[at:at + size]
            at += size


def answer(data):
    """{code, statuses: [{code, units, unit, name, remaining, reset}], headers, body}"""
    out = {"code": 0, "statuses": [], "headers": {}, "body": b""}
    for number, value in fields(data):
        if number == 1:
            out["code"] = value
        elif number == 2:
            status = {"code": 0, "remaining": 0, "reset": 0}
            for n, v in fields(value):
                if n == 2:
                    limit = dict(fields(v))
                    status |= {"units": limit.get(1, 0), "unit": limit.get(2, 0),
                               "name": limit.get(3, b"").decode()}
                elif n == 4:
                    status["reset"] = dict(fields(v))[1]
                else:
                    status["code" if n == 1 else "remaining"] = v
            out["statuses"].append(status)
        elif number == 3:
            pair = dict(fields(value))
            out["headers"][pair[1].decode()] = pair[2].decode()
        elif number == 5:
            out["body"] = value
    return out


def call_by_hand(connection, stream, message):
    """A question over an Http2 (http2_wire.py), without grpcio: its answer."""
    connection.send(frame(HEADERS, END_HEADERS, stream, request(SERVICE)) +
                    frame(DATA, END_STREAM, stream, b"\0" + len(message).to_bytes(4, "big") + message))
    while True:
        data = b"".join(f[3] for f in connection.frames if f[0] == DATA and f[2] == stream)
        if len(data) >= 5 and len(data) >= 5 + int.from_bytes(data[1:5], "big"):
            return answer(data[5:])
        assert connection.take(), f"no answer: {connection.frames[-5:]}"


class GrpcClient:
    def __init__(self, build, target, certificate=None, own=None):
        """Under TLS if there is the |certificate| of an authority; |own|: the client's certificate and key."""
        caller = pathlib.Path(__file__).with_name("grpc_caller.py")
        files = [str(f) for f in (certificate, *reversed(own or ())) if f]
        self.process = subprocess.Popen([build / "venv/bin/python", caller, target, *files], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, method, message, wait=False):
        self.process.stdin.write(json.dumps({"method": method, "message": message.hex(), "wait": wait}) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        if reply["code"] != "OK":
            return reply["code"], reply["details"]
        return "OK", bytes.fromhex(reply["message"])

    def ask(self, domain, *descriptors, hits=0):
        code, message = self.call(SERVICE, question(domain, *descriptors, hits=hits))
        assert code == "OK", message
        return answer(message)

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()
