"""The RESP door by its bytes, and by redis-cli and redis-benchmark."""
import shutil
import signal
import socket
import subprocess
import time

import pytest

from serving import DEADLINE, Daemon, wait_for

POLICY = """version: 1
arena: {size: 4MiB}
listen:
  resp: ["127.0.0.1:0", "unix:%(dir)s/resp.sock"]
  threads: 1
%(listen)s
identity:
  api_key: {header: X-Api-Key}
limits:
  - {name: three, by: [api_key], rate: 3/hour, algorithm: token-bucket}
  - {name: five, by: [api_key], rate: 5/hour, algorithm: fixed-window}
  - {name: slow, by: [api_key], rate: 1/minute queue 2, algorithm: leaky-bucket}
  - {name: log, by: [api_key], rate: 2/hour, algorithm: sliding-log}
  - {name: places, by: [api_key], concurrent: 2, hold: 60s}
  - {name: tried, by: [api_key], rate: 1/hour, algorithm: token-bucket, mode: shadow}
  - {name: paced, by: [api_key], rate: 1/hour queue 2, algorithm: leaky-bucket, mode: shadow}
  - {name: zero, by: [api_key], rate: 0/hour, algorithm: token-bucket}
"""
HELLO_FIELDS = [b"server", b"version", b"proto", b"id", b"mode", b"role", b"modules"]


class Client:
    """Just enough of the protocol, written apart from the daemon's."""

    def __init__(self, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(address)
        self.file = self.socket.makefile("rb")

    def send(self, *args):
        self.socket.sendall(command(*args))

    def raw(self, data):
        self.socket.sendall(data)

    def receive(self):
        line = self.file.readline()
        assert line.endswith(b"\r\n"), line
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            return RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.receive() for _ in range(int(rest))]
        if kind == b"%":
            return {self.receive(): self.receive() for _ in range(int(rest))}
        raise AssertionError(line)

    def __call__(self, *args):
        self.send(*args)
        return self.receive()

    def error(self, *args):
        reply = self(*args)
        assert isinstance(reply, RuntimeError), reply
        return str(reply)

    def ended(self):
        return self.file.read() == b""

    def close(self):
        self.file.close()
        self.socket.close()


def command(*args):
    args = [a if isinstance(a, bytes) else str(a).encode() for a in args]
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in args)


def start(weir, directory, listen=""):
    policy = directory / "policy.yaml"
    policy.write_text(POLICY % {"dir": directory, "listen": listen})
    return Daemon([weir, "serve", "-c", policy, "--log-format", "json"]).ready()


@pytest.fixture(scope="module")
def daemon(weir, tmp_path_factory):
    daemon = start(weir, tmp_path_factory.mktemp("resp"))
    yield daemon
    daemon.close()


@pytest.fixture
def client(daemon):
    client = Client(daemon.address("resp"))
    yield client
    client.close()


@pytest.fixture(scope="module")
def locked(weir, tmp_path_factory):
    daemon = start(weir, tmp_path_factory.mktemp("locked"), "  resp_password: open sesame")
    yield daemon
    daemon.close()


def test_throttle(client):
    # 100 seconds a unit, 16 of them: nothing comes back while the test runs.
    call = ("CL.THROTTLE", "user1", 15, 30, 3000)
    assert client(*call) == [0, 16, 15, -1, 100]
    assert client(*call, 15) == [0, 16, 0, -1, 1600]
    assert client(*call, 1) == [1, 16, 0, 100, 1600]
    assert client(*call, 0) == [0, 16, 0, -1, 1600]
    assert client(*call, 17) == [1, 16, 0, -1, 1600]
    assert client("cl.throttle", b"\xff\x00\r\n", 0, 1, 60) == [0, 1, 0, -1, 60]
    assert client("Cl.Throttle", b"\xff\x00\r\n", 0, 1, 60) == [1, 1, 0, 60, 60]


def test_throttle_recovers(client):
    for _ in range(2):
        while client("CL.THROTTLE", "fast", 0, 10, 1)[0] == 1:
            time.sleep(0.005)


@pytest.mark.parametrize("args, text", [
    ((), "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"),
    (("k", 1, 1), "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"),
    (("k", 1, 1, 1, 1, 1),
     "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"),
    (("k", "x", 1, 1), "Cell error: Store error: Couldn't parse as integer: x"),
    (("k", 1, "1.5", 1), "Cell error: Store error: Couldn't parse as integer: 1.5"),
    (("k", 1, 1, "9223372036854775808"), "Cell error: Store error: Couldn't parse as integer: 9223372036854775808"),
    (("k", 1, 1, 1, ""), "Cell error: Store error: Couldn't parse as integer: "),
    (("k", 1, 1, 1, b"a\r\n+OK"), "Cell error: Store error: Couldn't parse as integer: a  +OK"),
    (("k", 1, 0, 1), "Cell error: Store error: Zero rates are not supported"),
    (("k", 1, 1, 0), "Cell error: Store error: Zero rates are not supported"),
    (("k", -1, 1, 1), "ERR max_burst must be 0 to 999999999999"),
    (("k", 1, 1, 1, -1), "ERR quantity must not be negative"),
    (("k", 1, 2000000000, 1), "ERR count per period must be at most 1000000000 a second"),
    (("k", 9223372036854775807, 1, 9223372036854775807), "ERR max_burst must be 0 to 999999999999"),
])
def test_throttle_errors(client, args, text):
    assert client.error("CL.THROTTLE", *args) == text
    assert client("PING") == b"PONG"


def test_check(client):
    assert client("WEIR.CHECK", "three", "a") == [1, 3, 2, 0, 1200000, 0]
    allowed, limit, remaining, retry, reset, delay = client("WEIR.CHECK", "three", "a", 3)
    assert (allowed, limit, remaining, delay) == (0, 3, 2, 0)
    assert 1100000 < retry <= 1200000 and 1100000 < reset <= 1200000
    assert client("WEIR.CHECK", "three", "a", 4)[:4] == [0, 3, 2, -1]
    assert client("WEIR.PEEK", "three", "a")[:4] == [1, 3, 2, 0]
    assert client("WEIR.CHECK", "three", "a", 2)[:4] == [1, 3, 0, 0]
    assert client("WEIR.CHECK", "three", "b")[:3] == [1, 3, 2]
    assert client("WEIR.RESET", "three", "a") == 1
    assert client("WEIR.RESET", "three", "a") == 0
    assert client("WEIR.PEEK", "three", "a") == [1, 3, 3, 0, 0, 0]


def test_check_by_every_algorithm(client):
    assert [client("WEIR.CHECK", "five", "k")[:3] for _ in range(6)] == \
        [[1, 5, 4], [1, 5, 3], [1, 5, 2], [1, 5, 1], [1, 5, 0], [0, 5, 0]]
    assert [client("WEIR.CHECK", "log", "k")[:3] for _ in range(3)] == [[1, 2, 1], [1, 2, 0], [0, 2, 0]]
    assert [client("WEIR.CHECK", "places", "k")[:3] for _ in range(3)] == [[1, 2, 1], [1, 2, 0], [0, 2, 0]]
    slow = [client("WEIR.CHECK", "slow", "k") for _ in range(4)]
    assert [v[:3] for v in slow] == [[1, 3, 2], [1, 3, 1], [1, 3, 0], [0, 3, 0]]
    assert slow[0][5] == 0 and 59000 < slow[1][5] <= 60000 and 119000 < slow[2][5] <= 120000
    # In shadow mode it lets pass, and so there is nothing to wait for.
    tried = [client("WEIR.CHECK", "tried", "k") for _ in range(2)]
    assert [(v[0], v[2], v[3]) for v in tried] == [(1, 0, 0), (1, 0, 0)]


def test_a_queue_in_shadow_mode_delays_nobody(client):
    assert [(v[0], v[3], v[5]) for v in (client("WEIR.CHECK", "paced", "k") for _ in range(4))] == [(1, 0, 0)] * 4


def test_a_peek_says_whether_a_unit_would_pass(client):
    assert client("WEIR.CHECK", "log", "p", 2)[:3] == [1, 2, 0]
    for limit, cost in (("log", 0), ("five", 5), ("three", 3)):
        assert cost == 0 or client("WEIR.CHECK", limit, "p", cost)[0] == 1
        allowed, _, remaining, retry, reset, delay = client("WEIR.PEEK", limit, "p")
        assert (allowed, remaining, delay) == (0, 0, 0) and 0 < retry <= reset, limit
        assert client("WEIR.CHECK", limit, "p")[0] == 0
    for _ in range(2):
        assert client("WEIR.CHECK", "places", "p")[0] == 1
    assert client("WEIR.PEEK", "places", "p")[:3] == [0, 2, 0]
    assert client("WEIR.PEEK", "zero", "p")[:4] == [0, 0, 0, -1]
    assert client("WEIR.CHECK", "tried", "p")[0] == 1
    assert client("WEIR.PEEK", "tried", "p")[:4] == [1, 1, 0, 0]


def test_reservations(client):
    first = client("WEIR.RESERVE", "five", "r", 4, 60000)
    assert first[:3] == [1, 5, 1] and len(first[6]) == 32
    assert client("WEIR.RESERVE", "five", "r", 2, 60000)[6] is None
    assert client("WEIR.SETTLE", first[6], 1) == b"OK"
    assert client("WEIR.PEEK", "five", "r")[2] == 4
    assert "settled before" in client.error("WEIR.SETTLE", first[6], 1)
    assert client.error("WEIR.SETTLE", "0" * 32, 1) == "ERR no such reservation"
    assert client.error("WEIR.RELEASE", "short") == "ERR no such reservation"
    place = client("WEIR.RESERVE", "places", "r", 1, 60000)
    assert place[2] == 1
    assert client("WEIR.RELEASE", place[6]) == b"OK"
    assert client("WEIR.PEEK", "places", "r")[2] == 2
    brief = client("WEIR.RESERVE", "three", "r", 1, 1)
    time.sleep(0.01)
    assert "expired" in client.error("WEIR.SETTLE", brief[6], 0)


@pytest.mark.parametrize("args, text", [
    (("WEIR.CHECK", "none", "k"), "ERR the policy has no limit named 'none'"),
    (("WEIR.CHECK", "three", "k", -1), "ERR the cost must be an integer from 0 to 1000000000"),
    (("WEIR.CHECK", "three", "k", "x"), "ERR the cost must be an integer from 0 to 1000000000"),
    (("WEIR.CHECK", "three"), "ERR wrong number of arguments for 'WEIR.CHECK' command"),
    (("WEIR.CHECK", "three", "k", 1, 2), "ERR usage: WEIR.CHECK <limit> <key> [<cost>]"),
    (("WEIR.SETTLE", "0" * 32, 1, 99), "ERR the status must be an integer from 100 to 599"),
    (("WEIR.SETTLE", "0" * 32, 1, 600), "ERR the status must be an integer from 100 to 599"),
    (("WEIR.SETTLE", "0" * 32, 1, "ok"), "ERR the status must be an integer from 100 to 599"),
    (("WEIR.SETTLE", "0" * 32, 1, 200, 1), "ERR usage: WEIR.SETTLE <name> <cost> [<status>]"),
    (("WEIR.SETTLE", "0" * 32), "ERR wrong number of arguments for 'WEIR.SETTLE' command"),
    (("WEIR.SETTLE", "0" * 32, 1, 200), "ERR no such reservation"),
    (("WEIR.RESERVE", "three", "k", 1, 0), "ERR the time to live must be 1 to 86400000 ms"),
    (("WEIR.RESERVE", "three", "k", 1), "ERR wrong number of arguments for 'WEIR.RESERVE' command"),
])
def test_weir_errors(client, args, text):
    assert client.error(*args) == text


def test_hello(client):
    two = client("HELLO")
    assert two[0::2] == HELLO_FIELDS and two[5] == 2 and two[13] == []
    three = client("HELLO", 3, "SETNAME", "tester")
    assert list(three) == HELLO_FIELDS and three[b"proto"] == 3 and three[b"modules"] == []
    assert client("CLIENT", "GETNAME") == b"tester"
    assert client("CLIENT", "ID") == three[b"id"] == two[7]
    assert client("WEIR.CHECK", "three", "hello")[:3] == [1, 3, 2]
    assert client("HELLO", 2)[5] == 2
    assert client.error("HELLO", 4) == "NOPROTO unsupported protocol version"
    assert client.error("HELLO", "x").startswith("ERR Protocol version is not an integer")
    assert client.error("HELLO", 3, "WHAT").startswith("ERR Syntax error in HELLO option")
    assert client("RESET") == b"RESET"
    assert client("CLIENT", "GETNAME") is None


def test_greetings(client):
    assert client("PING") == b"PONG" and client("ping", "x") == b"x"
    assert client("ECHO", "y" * 100000) == b"y" * 100000
    assert client("SELECT", 0) == b"OK"
    assert client.error("SELECT", 1) == "ERR DB index is out of range"
    assert client("CLIENT", "SETINFO", "LIB-NAME", "x") == b"OK"
    assert client("CLIENT", "NO-EVICT", "on") == b"OK"
    assert client.error("CLIENT", "TRACKING", "on") == "ERR unknown subcommand 'TRACKING'. Try CLIENT HELP."
    assert b"loading:0\r\n" in client("INFO")
    assert client("COMMAND", "COUNT") == len(client("COMMAND"))
    assert client("COMMAND", "INFO", "cl.throttle", "get") == [
        [b"cl.throttle", -1, [b"write", b"fast"], 1, 1, 1], None]
    assert client("COMMAND", "DOCS") == []
    assert client("CONFIG", "GET", "save") == [b"save", b""] and client("CONFIG", "GET", "x*") == []
    assert client.error("READONLY") == client.error("CLUSTER", "SLOTS") == \
        "ERR This instance has cluster support disabled"
    seconds, micros = client("TIME")
    assert abs(int(seconds) - time.time()) < 60 and 0 <= int(micros) < 1000000
    assert client.error("GET", "a", "b") == "ERR unknown command 'GET', with args beginning with: 'a' 'b' "
    assert client.error("AUTH", "x").startswith(
        "ERR AUTH <password> called without any password configured for the default user.")
    assert client("QUIT") == b"OK" and client.ended()


def test_password(locked):
    client = Client(locked.address("resp"))
    assert client.error("PING") == client.error("NOSUCH") == "NOAUTH Authentication required."
    assert client.error("HELLO", 3).startswith("NOAUTH HELLO must be called")
    wrong = "WRONGPASS invalid username-password pair or user is disabled."
    assert client.error("AUTH", "open") == client.error("AUTH", "open sesameopen sesame") == wrong
    assert client.error("AUTH", "other", "open sesame") == client.error("HELLO", 3, "AUTH", "default", "") == wrong
    # What stands behind AUTH in the same read is run as one who is known.
    client.raw(command("AUTH", "open sesame") + command("CL.THROTTLE", "k", 0, 1, 60) + command("RESET")
               + command("PING"))
    assert client.receive() == b"OK" and client.receive()[0] == 0 and client.receive() == b"RESET"
    assert str(client.receive()) == "NOAUTH Authentication required."
    assert client("HELLO", 3, "AUTH", "default", "open sesame")[b"proto"] == 3
    stranger = Client(locked.address("resp"))
    stranger.raw(b"*11\r\n")
    assert str(stranger.receive()) == "ERR Protocol error: invalid multibulk length" and stranger.ended()


def test_password_file(weir, tmp_path):
    """The file is read again at SIGHUP; who is in stays in."""
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    daemon = start(weir, tmp_path, f"  resp_password_file: {secret}")
    client = Client(daemon.address("resp"))
    assert client.error("PING") == "NOAUTH Authentication required."
    assert client("AUTH", "open sesame") == b"OK" and client("PING") == b"PONG"
    secret.write_text("another\n")
    daemon.signal(signal.SIGHUP)
    daemon.event("reloaded")
    fresh = Client(daemon.address("resp"))
    assert fresh.error("AUTH", "open sesame").startswith("WRONGPASS") and fresh("AUTH", "another") == b"OK"
    assert client("PING") == b"PONG"
    secret.unlink()
    daemon.signal(signal.SIGHUP)
    assert str(secret) in daemon.event("reload refused, the old policy stays")["reason"]
    assert fresh("AUTH", "another") == b"OK"
    assert "another" not in "".join(daemon.raw)
    client.close()
    fresh.close()
    daemon.close()


def test_pipeline(client):
    """Thousands of commands written at once: replies in order, equal keys see each other."""
    calls = [c for i in range(3000) for c in (
        command("CL.THROTTLE", "pipe", 9999, 1, 3600), command("WEIR.CHECK", "five", f"pipe{i // 10}"),
        command("PING", i))]
    client.raw(b"".join(calls))
    for i in range(3000):
        assert client.receive()[:3] == [0, 10000, 9999 - i]
        left = 4 - i % 10
        assert client.receive()[:3] == ([1, 5, left] if left >= 0 else [0, 5, 0])
        assert client.receive() == b"%d" % i


def test_byte_by_byte(client):
    for byte in command("ECHO", "a\r\nb") + b"ping\r\n" + b"\r\n" + b'echo "q q"\n':
        client.raw(bytes([byte]))
    assert [client.receive() for _ in range(3)] == [b"a\r\nb", b"PONG", b"q q"]


@pytest.mark.parametrize("data, text", [
    (b"*1\r\n$-1\r\n", "ERR Protocol error: invalid bulk length"),
    (b"*1\r\n$536870912\r\n", "ERR Protocol error: invalid bulk length"),
    (b"*1\r\n$99999999999999999999999999\r\n", "ERR Protocol error: invalid bulk length"),
    (b"*1048577\r\n", "ERR Protocol error: invalid multibulk length"),
    (b"*-5\r\n", "ERR Protocol error: invalid multibulk length"),
    (b"*1\r\n+PING\r\n", "ERR Protocol error: expected '$', got '+'"),
    (b"*1\r\n$4\r\nPINGPONG", "ERR Protocol error: expected CRLF behind a bulk string"),
    (b'ping "x\r\n', "ERR Protocol error: unbalanced quotes in request"),
    (b"x" * 70000, "ERR Protocol error: too big inline request"),
])
def test_bad_input(daemon, data, text):
    """What came before is answered, then the error, then the end; others do not notice."""
    client, other = Client(daemon.address("resp")), Client(daemon.address("resp"))
    client.raw(command("PING") + data)
    assert client.receive() == b"PONG"
    assert str(client.receive()) == text and client.ended()
    assert other("PING") == b"PONG"
    client.close()
    other.close()


def test_other_protocols(daemon):
    client = Client(daemon.address("resp"))
    client.raw(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nWEIR.RESET three a\r\n")
    assert "unknown command 'POST'" in str(client.receive()) and client.ended()
    client = Client(daemon.address("resp"))
    client.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nWEIR.RESET three a\r\n")
    assert "unknown command 'GET'" in str(client.receive())
    assert "unknown command 'Host:'" in str(client.receive()) and client.ended()
    for junk in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", bytes(range(256)) + b"\n"):
        client = Client(daemon.address("resp"))
        client.raw(junk + command("PING"))
        reply = client.receive()
        assert isinstance(reply, RuntimeError) and ("unknown command" in str(reply) or "Protocol" in str(reply))
        client.close()


def test_slow_reader(daemon):
    """Who does not read what he asks for is read no more, and holds nobody up."""
    greedy, other = Client(daemon.address("resp")), Client(daemon.address("resp"))
    greedy.socket.settimeout(0.5)
    sent = 0
    with pytest.raises(TimeoutError):
        for _ in range(10000):
            sent += greedy.socket.send(command("ECHO", "z" * 60000))
    assert sent < 64 << 20
    assert other("PING") == b"PONG"
    greedy.close()
    other.close()


def test_unix_socket(daemon):
    client = Client(daemon.address("resp", 1))
    assert client("PING") == b"PONG"
    client.close()


def test_drain(weir, tmp_path):
    daemon = start(weir, tmp_path)
    client = Client(daemon.address("resp"))
    assert client("PING") == b"PONG"
    assert daemon.end() == 0 and client.ended()
    daemon.close()


@pytest.mark.parametrize("address", ["127.0.0.1:0", "0.0.0.0:0"])
def test_a_reload_does_not_take_the_password_of_a_door_that_is_open(weir, tmp_path, address):
    """What it says of another address is for the next start: others can reach the one that is open."""
    policy = tmp_path / "policy.yaml"
    text = POLICY % {"dir": tmp_path, "listen": ""}
    locked = text.replace('"127.0.0.1:0"', '"0.0.0.0:0"').replace("  threads: 1", "  threads: 1\n  resp_password: open sesame")
    policy.write_text(locked)
    daemon = Daemon([weir, "serve", "-c", policy, "--log-format", "json"]).ready()
    client = Client(("127.0.0.1", daemon.address("resp")[1]))
    policy.write_text(text.replace("127.0.0.1:0", address))
    daemon.signal(signal.SIGHUP)
    reason = daemon.event("reload refused, the old policy stays")["reason"]
    assert reason.endswith(f"resp: 0.0.0.0:{daemon.address('resp')[1]} is open to other machines and needs its "
                           "resp_password or client_ca; another address takes effect at a restart"), reason
    assert client.error("PING") == "NOAUTH Authentication required."
    policy.write_text(locked.replace('"0.0.0.0:0"', '"127.0.0.1:0"'))
    daemon.signal(signal.SIGHUP)
    daemon.event("reloaded")
    assert client.error("PING") == "NOAUTH Authentication required."
    client.close()
    daemon.close()


def test_a_door_on_loopback_may_lose_its_password(weir, tmp_path):
    daemon = start(weir, tmp_path, "  resp_password: open sesame")
    client = Client(daemon.address("resp"))
    assert client.error("PING") == "NOAUTH Authentication required."
    (tmp_path / "policy.yaml").write_text(POLICY % {"dir": tmp_path, "listen": ""})
    daemon.signal(signal.SIGHUP)
    daemon.event("reloaded")
    wait_for("no password", lambda: client("PING") == b"PONG")
    daemon.close()


def test_reload(weir, tmp_path):
    """Connections, counts and what the policy does not know of stay; the limits are the new ones."""
    daemon = start(weir, tmp_path)
    client = Client(daemon.address("resp"))
    call = ("CL.THROTTLE", "reloaded", 15, 30, 3000)
    assert client(*call)[2] == 15 and client("WEIR.CHECK", "three", "reloaded")[2] == 2
    text = (tmp_path / "policy.yaml").read_text()
    (tmp_path / "policy.yaml").write_text(text.replace("name: three, by: [api_key], rate: 3/hour", "name: three, by: [api_key], rate: 9/hour")
                                          .replace("name: five", "name: renamed"))
    daemon.signal(signal.SIGHUP)
    daemon.event("reloaded")
    assert client(*call)[2] == 14
    assert client("WEIR.CHECK", "three", "reloaded")[:3] == [1, 9, 7]
    assert "no limit named 'five'" in client.error("WEIR.CHECK", "five", "k")
    client.close()
    daemon.close()


def redis_tool(name):
    if shutil.which(name) is None:
        pytest.skip(f"no {name}")
    return name


def test_redis_cli(daemon):
    host, port = daemon.address("resp")
    def cli(*args, text=None):
        return subprocess.run([redis_tool("redis-cli"), "-h", host, "-p", str(port), *args], text=True, check=True,
                              input=text, capture_output=True, timeout=DEADLINE).stdout
    assert cli("CL.THROTTLE", "cli", "15", "30", "3000") == "0\n16\n15\n-1\n100\n"
    assert cli("-3", "CL.THROTTLE", "cli", "15", "30", "3000") == "0\n16\n14\n-1\n200\n"
    assert cli(text="PING\nWEIR.PEEK three cli\nNOSUCH x\n").split("\n")[:8] == \
        ["PONG", "1", "3", "3", "0", "0", "0", "ERR unknown command 'NOSUCH', with args beginning with: 'x' "]
    piped = b"".join(command("CL.THROTTLE", "piped", 99999, 1, 60) for _ in range(5000))
    out = subprocess.run([redis_tool("redis-cli"), "-h", host, "-p", str(port), "--pipe"], input=piped, check=True,
                         capture_output=True, timeout=DEADLINE).stdout
    assert b"errors: 0, replies: 5000" in out


def test_redis_benchmark(daemon):
    host, port = daemon.address("resp")
    run = subprocess.run([redis_tool("redis-benchmark"), "-h", host, "-p", str(port), "-c", "16", "-P", "16", "-n", "20000",
                          "-r", "1000", "-q", "CL.THROTTLE", "key:__rand_int__", "100", "100", "60"],
                         capture_output=True, text=True, timeout=60, check=True)
    assert "requests per second" in run.stdout and "rror" not in run.stdout and run.stderr == ""
