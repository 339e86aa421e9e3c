"""Messages that are no messages, or too much of one, through the gRPC door."""
import pytest

from grpc_client import OK, SERVICE, GrpcClient, answer, field, question, varint
from serving import Daemon

POLICY = """version: 1
arena: {path: "%(dir)s/arena", size: 1MiB}
listen: {threads: 1, grpc: 127.0.0.1:0}
limits: [{name: per-ip, by: [ip], rate: 1000000/minute}]
"""
GOOD = question("api", [("remote_address", "192.0.2.1"), ("path", "/")], hits=1)
INVALID, TOO_MUCH = "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"


@pytest.fixture(scope="module")
def client(build, weir, tmp_path_factory):
    if not (build / "venv/requirements.txt").exists():
        pytest.skip("no grpcio: scripts/venv.sh has not run")
    folder = tmp_path_factory.mktemp("protobuf")
    (folder / "policy.yaml").write_text(POLICY % {"dir": folder})
    daemon = Daemon([weir, "serve", "-c", folder / "policy.yaml", "--log-format", "json"]).ready()
    c = GrpcClient(build, "%s:%d" % daemon.address("grpc"))
    yield c
    c.close()
    daemon.close()


def entry(key, value):
    return field(1, field(1, key) + field(2, value))


@pytest.mark.parametrize("name, message, code", [
    ("a varint of eleven bytes", GOOD + b"\x18" + b"\x80" * 10 + b"\x01", INVALID),
    ("a varint without end", GOOD + b"\x18" + b"\xff" * 9, INVALID),
    ("a length of eleven bytes", GOOD + b"\x0a" + b"\x80" * 10 + b"\x01", INVALID),
    ("a length of 2^63", GOOD + b"\x0a" + b"\x80" * 9 + b"\x01", INVALID),
    ("a length of 2^32 - 1", GOOD + b"\x0a" + varint((1 << 32) - 1), INVALID),
    ("a tag of 2^64", GOOD + b"\xff" * 10 + b"\x01", INVALID),
    ("field 0", GOOD + b"\x02\x00", INVALID),
    ("wire type 6", GOOD + b"\x56\x00", INVALID),
    ("wire type 7", GOOD + b"\x57\x00", INVALID),
    ("half of a fixed64", GOOD + b"\x51" + bytes(4), INVALID),
    ("half of a fixed32", GOOD + b"\x55" + bytes(3), INVALID),
    ("the domain as a number", b"\x08\x01" + GOOD, INVALID),
    ("an unknown group", GOOD + b"\x53\x54", INVALID),
    ("unknown groups, 30 000 deep", GOOD + b"\x53" * 30000 + b"\x54" * 30000, INVALID),
    ("the end of a group that never began", GOOD + b"\x54", INVALID),
    ("unknown messages, 15 000 deep", GOOD + field(99, b"\x62\x80\x00" * 15000), "OK"),
    ("20 000 unknown numbers", GOOD + b"\x50\x01" * 20000, "OK"),
    ("60 000 bytes of an unknown field", GOOD + field(9, bytes(60000)), "OK"),
    ("a domain that is not UTF-8", question("x")[:2] + b"\xff" + GOOD[5:], INVALID),
    ("a key that is not UTF-8", field(1, b"api") + field(2, entry(b"\xc3(", b"x")), INVALID),
    ("a value that is a surrogate", field(1, b"api") + field(2, entry(b"k", b"\xed\xa0\x80")), INVALID),
    ("a value that is cut", field(1, b"api") + field(2, entry(b"k", b"\xe2\x82")), INVALID),
    ("an empty key", field(1, b"api") + field(2, entry(b"", b"x")), INVALID),
    ("30 000 descriptors", field(1, b"api") + field(2, b"") * 30000, TOO_MUCH),
    ("65 descriptors", field(1, b"api") + field(2, entry(b"k", b"v")) * 65, TOO_MUCH),
    ("64 descriptors", field(1, b"api") + field(2, entry(b"k", b"v")) * 64, "OK"),
    ("10 000 entries", field(1, b"api") + field(2, entry(b"k", b"v") * 7000), TOO_MUCH),
    ("17 entries", field(1, b"api") + field(2, entry(b"k", b"v") * 17), TOO_MUCH),
    ("20 000 domains", field(1, b"a") * 20000 + GOOD, "OK"),
    ("64 KiB and one", GOOD + field(9, bytes(65537 - len(GOOD) - 4)), TOO_MUCH),
    ("a value of 60 000 bytes", field(1, b"api") + field(2, entry(b"path", b"/" * 60000)), "OK"),
], ids=lambda value: value.replace(" ", "-") if isinstance(value, str) and len(value) < 60 else "")
def test_message(client, name, message, code):
    got, detail = client.call(SERVICE, message)
    assert got == code, (name, detail)
    got, detail = client.call(SERVICE, GOOD)  # and the next is answered
    assert got == "OK" and answer(detail)["code"] == OK


def test_a_message_cut_anywhere(client):
    """A cut at the border of a field is a message, and another error; anywhere else it is none."""
    whole = {0, 5, len(GOOD) - 2, len(GOOD)}
    for n in range(len(GOOD) + 1):
        code, detail = client.call(SERVICE, GOOD[:n])
        assert code == {0: "UNKNOWN", 5: "UNKNOWN"}.get(n, "OK" if n in whole else INVALID), (n, detail)


def test_every_byte_wrong_in_turn(client):
    for n in range(len(GOOD)):
        for byte in (0, 0x7f, 0x80, 0xff, GOOD[n] ^ 1):
            code, detail = client.call(SERVICE, GOOD[:n] + bytes([byte]) + GOOD[n + 1:])
            assert code in ("OK", "UNKNOWN", INVALID), (n, byte, detail)
    assert answer(client.call(SERVICE, GOOD)[1])["code"] == OK
