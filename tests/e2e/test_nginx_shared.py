"""Limits shared with other hosts, behind real gateways: the module against a daemon that is played here, then two
gateways, two daemons and one Redis."""
import concurrent.futures
import os
import re
import shutil
import signal
import socket
import threading
import time

import pytest

from agent_wire import (ALLOW, DENY, OTHER_POLICY, BUSY, FakeDaemon, answer, fingerprint, frame)
from gateway import Gateway, gateway  # noqa: F401 (a fixture)
from redis_servers import Redis
from serving import Daemon, wait_for

DEADLINE_MS = 200
SLACK_S = 1.5  # a loaded machine

FIELDS = [("k", "api_key"), ("h", "X-Api-Key")]
MARK = fingerprint(FIELDS, ["keys"])
SERVER = "location = /file { }"
LOG = "log_format agent '$status $weir_agent $weir_verdict $weir_reason'; access_log %(dir)s/agent.log agent;"


def policy(agent, redis_port=1, when_gone="closed", limit="rate: 10/hour, algorithm: fixed-window", mode="strict", more="",
           deadline=DEADLINE_MS, listen=""):
    return f"""
{listen}
store:
  redis: {{url: "redis://127.0.0.1:{redis_port}/0"}}
  agent: "unix:{agent}"
  deadline: {deadline}ms
  mode: {mode}
  nodes: 2
  when_gone: {when_gone}
  shared: true
identity: {{api_key: {{header: X-Api-Key}}}}
limits:
  - {{name: keys, by: [api_key], {limit}}}
{more}"""


@pytest.fixture
def sockets(tmp_path_factory):
    """A folder that workers, which are not root, can reach."""
    import tempfile
    path = tempfile.mkdtemp(prefix="weir-agent-")
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def said(gate, lines, seconds=60):
    path = gate.dir / "agent.log"
    gate.wait_for(lambda: path.exists() and len(path.read_text().splitlines()) >= lines, seconds)
    return path.read_text().splitlines()


def many(gate, count, at_once=32, path="/file", key="ann"):
    """Statuses, and the seconds of the slowest."""
    def one(_):
        began = time.monotonic()
        status = gate.get(path, headers={"X-Api-Key": key}).status
        return status, time.monotonic() - began
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        got = list(pool.map(one, range(count)))
    return [s for s, _ in got], max(t for _, t in got)


def all_answered(gate):
    """Twenty more requests: has the daemon answered each?"""
    before = len((gate.dir / "agent.log").read_text().splitlines())
    many(gate, 20, 20)
    return {line.split()[1] for line in said(gate, before + 20)[before:]} == {"answered"}


# ---- against a daemon that does as it is told -------------------------------------------------------------

def test_answers_are_obeyed(gateway, sockets):
    path = f"{sockets}/a.sock"
    replies = iter([
        dict(verdicts=[dict(capacity=10, remaining=7, next_ns=10**9, reset_ns=30 * 10**9)]),
        dict(outcome=DENY, reason=1, retry_ns=42 * 10**9,
             verdicts=[dict(outcome=DENY, reason=1, remaining=0, retry_ns=42 * 10**9, reset_ns=42 * 10**9)]),
        dict(outcome=1, delay_ns=300 * 10**6, verdicts=[dict(outcome=1, delay_ns=300 * 10**6)]),
    ])
    with FakeDaemon(path, lambda number, mark, rest: answer(number, MARK, **next(replies))) as daemon:
        gate = gateway(policy(path, when_gone="open"), server=SERVER, http=LOG)
        got = gate.get("/file", headers={"X-Api-Key": "ann"})
        assert got.status == 200 and got.one("X-RateLimit-Remaining") == "7"
        got = gate.get("/file", headers={"X-Api-Key": "ann"})
        assert got.status == 429 and got.one("Retry-After") == "42"
        began = time.monotonic()
        assert gate.get("/file", headers={"X-Api-Key": "ann"}).status == 200
        assert time.monotonic() - began >= 0.3
        assert daemon.asked[0].endswith(b"GET/file127.0.0.1ann") and len(daemon.connections) == 1
        assert said(gate, 3) == ["200 answered allow -", "429 answered deny limit", "200 answered delay -"]


def test_not_asked_twice(gateway, sockets):
    """Internal redirects and error pages go on with the decision that was made."""
    path = f"{sockets}/a.sock"
    server = """
        error_page 429 /sorry; location = /sorry { internal; try_files /file =404; }
        location = /twice { try_files /none /file; }
        location = /file { }
    """
    outcome = [ALLOW]
    with FakeDaemon(path, lambda n, mark, rest: answer(n, MARK, outcome=outcome[0], reason=outcome[0] and 1)) as daemon:
        gate = gateway(policy(path), server=server, http=LOG)
        assert gate.get("/twice").status == 200
        assert len(daemon.asked) == 1
        outcome[0] = DENY
        assert gate.get("/twice").status == 429
        assert len(daemon.asked) == 2


@pytest.mark.parametrize("status, how", [(OTHER_POLICY, "other-policy"), (BUSY, "busy")])
def test_not_decided(gateway, sockets, status, how):
    path = f"{sockets}/a.sock"
    with FakeDaemon(path, lambda n, mark, rest: answer(n, MARK, status=status)):
        gate = gateway(policy(path), server=SERVER + "weir_status 418;", http=LOG)
        for _ in range(5):
            got = gate.get("/file")
            assert got.status == 503 and got.one("Retry-After") == "1"
        assert said(gate, 5) == [f"503 {how} deny store"] * 5
        assert gate.errors().count("policy with other names") == (status == OTHER_POLICY)


def test_silence(gateway, sockets):
    """The first waits for the deadline; the others do not, while it is silent; it recovers by itself."""
    path = f"{sockets}/a.sock"
    silent = [True]
    with FakeDaemon(path, lambda n, mark, rest: None if silent[0] else answer(n, MARK)):
        gate = gateway(policy(path, when_gone="open"), server=SERVER, http=LOG)
        statuses, slowest = many(gate, 300)
        assert set(statuses) == {200}
        assert slowest < DEADLINE_MS / 1000 + SLACK_S
        began = time.monotonic()
        statuses, _ = many(gate, 300, at_once=1)
        assert time.monotonic() - began < 300 * DEADLINE_MS / 1000 / 2  # of which each alone would take
        silent[0] = False
        gate.wait_for(lambda: gate.get("/file").status == 200 and said(gate, 1)[-1].split()[1] == "answered")
        assert gate.errors().count("does not answer") == 1
        assert gate.errors().count("answers again") == 1


def test_lost_and_found(gateway, sockets):
    path = f"{sockets}/a.sock"
    gate = gateway(policy(path), server=SERVER, http=LOG)
    assert [gate.get("/file").status for _ in range(20)] == [503] * 20
    assert set(said(gate, 20)) == {"503 unreachable deny store"}
    assert gate.errors().count("cannot be reached") == 1
    with FakeDaemon(path, lambda n, mark, rest: answer(n, MARK)) as daemon:
        gate.wait_for(lambda: gate.get("/file").status == 200)
        daemon.reply = lambda n, mark, rest: None
        slow = [threading.Thread(target=gate.get, args=("/file",)) for _ in range(5)]
        [t.start() for t in slow]
        wait_for("five asks", lambda: len(daemon.asked) >= 6)
        began = time.monotonic()
        daemon.cut()
        [t.join() for t in slow]
        assert time.monotonic() - began < SLACK_S
        daemon.reply = lambda n, mark, rest: answer(n, MARK)
        gate.wait_for(lambda: gate.get("/file").status == 200)


def test_nonsense(gateway, sockets):
    path = f"{sockets}/a.sock"
    bad = [b"HTTP/1.1 400 Bad Request\r\n\r\n", frame(2, 1, MARK, b""), frame(2, 1, MARK, b"", version=9),
           answer(1, MARK, verdicts=[dict(limit=9)]), b"\xff" * 100]
    turn = [0]

    def reply(number, mark, rest):
        turn[0] += 1
        return bad[turn[0] % len(bad)] if turn[0] % 2 else answer(number ^ (7 << 32), MARK) + answer(number, MARK)

    with FakeDaemon(path, reply):
        gate = gateway(policy(path), server=SERVER, http=LOG)
        for _ in range(10):
            assert gate.get("/file").status in (200, 503)
            time.sleep(0.12)


def test_callers_that_leave(gateway, sockets):
    """While they wait, and with pipelined requests behind: nothing is left, places that come too late go back."""
    path = f"{sockets}/a.sock"
    with FakeDaemon(path, lambda n, mark, rest: None) as daemon:
        gate = gateway(policy(path, deadline=1000), server=SERVER, http=LOG)
        held = {}

        def keep(number, mark, rest):
            held[number] = b"%016d" % (number & 0xffffffff)

        daemon.reply = keep
        for _ in range(20):
            before = len(held)
            with socket.create_connection(("127.0.0.1", gate.port)) as s:
                s.sendall(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n" * 2)
                wait_for("asked", lambda: len(held) > before)
        time.sleep(0.1)
        late = dict(held)
        daemon.reply = lambda n, mark, rest: b"".join(answer(k, MARK, hold=v) for k, v in late.items()) + answer(n, MARK)
        assert gate.get("/file").status == 200
        wait_for("releases", lambda: len(daemon.released) >= 20)
        assert set(daemon.released) <= set(held.values())


def test_places(gateway, sockets):
    """What the daemon took is released there when the request ends, and when the worker does."""
    path = f"{sockets}/a.sock"
    number = iter(range(1, 1000))
    with FakeDaemon(path, lambda n, mark, rest: answer(n, MARK, hold=b"%016d" % next(number))) as daemon:
        gate = gateway(policy(path, limit="concurrent: 5"), server=SERVER, http=LOG)
        for i in range(1, 4):
            assert gate.get("/file").status == 200
            wait_for("release", lambda: len(daemon.released) == i)
        assert daemon.released == [b"%016d" % i for i in (1, 2, 3)]
        gate.stop()
        gate.check_log()


def test_thousand_at_once(gateway, sockets):
    path = f"{sockets}/a.sock"
    waiting, lock = [], threading.Lock()

    def reply(number, mark, rest):
        with lock:
            waiting.append(number)
            return b"".join(answer(n, MARK) for n in reversed(waiting)) if len(waiting) == 1000 else None

    with FakeDaemon(path, reply) as daemon:
        gate = gateway(policy(path, deadline=10000), server=SERVER, http=LOG,
                       main="worker_rlimit_nofile 8192;")
        gate.conf.write_text(gate.conf.read_text().replace("worker_connections 1000", "worker_connections 4000"))
        gate.reload()
        connections = [socket.create_connection(("127.0.0.1", gate.port)) for _ in range(1000)]
        for s in connections:
            s.sendall(b"GET /file HTTP/1.0\r\n\r\n")
        for s in connections:
            s.settimeout(60)
            assert s.recv(100).startswith(b"HTTP/1.1 200")
            s.close()
        assert len(daemon.asked) == 1000


def test_valgrind(gateway, sockets):
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind: scripts/setup.sh check")
    path = f"{sockets}/a.sock"
    turn = [0]

    def reply(number, mark, rest):
        turn[0] += 1
        return [answer(number, MARK, hold=b"h" * 16), None, answer(number, MARK, outcome=DENY, reason=1),
                answer(number, MARK, status=BUSY)][turn[0] % 4]

    with FakeDaemon(path, reply) as daemon:
        gate = gateway(policy(path), start=False, server=SERVER, http=LOG, main="master_process off;")
        log = gate.dir / "valgrind.log"
        gate.start(command=["valgrind", "--error-exitcode=99", f"--log-file={log}", "--gen-suppressions=all"])
        for _ in range(24):
            gate.get("/file")
        with socket.create_connection(("127.0.0.1", gate.port)) as s:
            s.sendall(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n")
            time.sleep(0.3)
        daemon.cut()
        for _ in range(8):
            gate.get("/file")
        gate.stop(signal.SIGTERM)
        text = log.read_text()
        ours = [block for block in re.split(r"\n==\d+== \n", text) if "weir" in block and
                re.search(r"Invalid|uninitialised|Mismatched", block)]
        assert not ours, "\n".join(ours)


# ---- two gateways, two daemons, one Redis -----------------------------------------------------------------

class Host:
    """A gateway and its daemon, with one arena."""

    def __init__(self, weir, sockets, name, redis, limit, workers=4, **more):
        self.socket = f"{sockets}/{name}.sock"
        self.weir = weir
        self.gate = Gateway(policy(self.socket, redis.port, limit=limit, **more), workers=workers, server=SERVER,
                            http=LOG)
        self.daemon = None
        self.serve()
        self.gate.start()

    def serve(self):
        self.daemon = Daemon([self.weir, "serve", "-c", self.gate.policy_file, "--log-format", "json"]).ready()
        os.chmod(self.socket, 0o666)  # instead of a group for the daemon and nginx's workers

    def close(self):
        try:
            self.gate.stop()
            self.gate.check_log()
        finally:
            self.gate.cleanup()
            self.daemon.close()


@pytest.fixture
def hosts(weir, sockets):
    made = []
    redis = Redis()

    def make(**more):
        made.append(Host(weir, sockets, f"h{len(made)}", redis, **more))
        return made[-1]

    make.redis = redis
    try:
        yield make
        for host in made:
            host.close()
    finally:
        for host in made:
            host.gate.cleanup()
            host.daemon.close()
        redis.close()


def hammer(hosts, count, at_once=16, key="ann"):
    """The statuses of |count| requests to each."""
    got = []
    threads = [threading.Thread(target=lambda h=h: got.append(many(h.gate, count, at_once, key=key))) for h in hosts]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return [s for statuses, _ in got for s in statuses], max(slowest for _, slowest in got)


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "sliding-log", "token-bucket"])
def test_strict_admits_exactly_the_limit(hosts, algorithm):
    limit = f"rate: 100/day, algorithm: {algorithm}"
    both = [hosts(limit=limit), hosts(limit=limit)]
    statuses, _ = hammer(both, 150)
    assert statuses.count(200) == 100 and statuses.count(429) == 200
    assert {line.split()[1] for h in both for line in said(h.gate, 150)} == {"answered"}


def test_leased_admits_never_more_and_close_to_it(hosts):
    limit = "rate: 4000/day, algorithm: fixed-window"
    both = [hosts(limit=limit, mode="leased"), hosts(limit=limit, mode="leased")]
    allowed, lines = 0, []
    for _ in range(20):
        statuses, _ = hammer(both, 150)
        allowed += statuses.count(200)
        if statuses.count(200) == 0:
            break
    assert 3600 <= allowed <= 4000, allowed
    lines = [line.split()[1] for h in both for line in said(h.gate, 1)]
    assert lines.count("-") > len(lines) / 2  # by leases in the arena, without asking


@pytest.mark.parametrize("when_gone, status", [("open", 200), ("closed", 503)])
def test_daemon_killed(hosts, when_gone, status):
    host = hosts(limit="rate: 100000/day, algorithm: fixed-window", when_gone=when_gone)
    assert set(many(host.gate, 50)[0]) == {200}
    host.daemon.process.kill()
    host.daemon.wait()
    statuses, slowest = many(host.gate, 200)
    assert set(statuses) == {status} and slowest < DEADLINE_MS / 1000 + SLACK_S
    host.daemon.close()
    host.serve()
    host.gate.wait_for(lambda: all_answered(host.gate))


def test_local_is_a_part_of_the_limit(hosts):
    """Two nodes: each half of the limit by itself."""
    host = hosts(limit="rate: 100/day, algorithm: fixed-window", when_gone="local")
    host.daemon.process.kill()
    host.daemon.wait()
    statuses, _ = many(host.gate, 200)
    assert statuses.count(200) == 50 and statuses.count(429) == 150


def test_daemon_stopped(hosts):
    host = hosts(limit="rate: 100000/day, algorithm: fixed-window", when_gone="open")
    assert set(many(host.gate, 50)[0]) == {200}
    host.daemon.signal(signal.SIGSTOP)
    try:
        statuses, slowest = many(host.gate, 400)
        assert set(statuses) == {200} and slowest < DEADLINE_MS / 1000 + SLACK_S
    finally:
        host.daemon.signal(signal.SIGCONT)
    host.gate.wait_for(lambda: all_answered(host.gate))


def test_reloads_under_load(hosts):
    """Of nginx and of the daemon: exactly the limit all the same, and no request fails."""
    host = hosts(limit="rate: 300/day, algorithm: fixed-window")
    end, statuses = threading.Event(), []

    def load():
        while not end.is_set():
            statuses.append(host.gate.get("/file", headers={"X-Api-Key": "ann"}).status)

    threads = [threading.Thread(target=load) for _ in range(8)]
    [t.start() for t in threads]
    for i in range(3):
        host.gate.reload()
        host.daemon.signal(signal.SIGHUP)
        host.daemon.event("reloaded", i + 1)
    wait_for("all units", lambda: len(statuses) > 500)
    end.set()
    [t.join() for t in threads]
    assert statuses.count(200) == 300 and set(statuses) == {200, 429}


def test_policies_that_differ(hosts):
    host = hosts(limit="rate: 100000/day, algorithm: fixed-window", when_gone="closed")
    host.gate.set_policy(policy(host.socket, hosts.redis.port, when_gone="closed",
                                more="  - {name: more, rate: 5/day, match: {path: /x}}\n"))
    host.gate.reload()
    assert set(many(host.gate, 20)[0]) == {503}
    host.daemon.signal(signal.SIGHUP)
    host.daemon.event("reloaded")
    host.gate.wait_for(lambda: host.gate.get("/file", headers={"X-Api-Key": "bob"}).status == 200)
    assert 1 <= host.gate.errors().count("has a policy with other names") <= 4  # a worker each


def test_shared_places(hosts):
    """Three places over both hosts, each given back when its request ends, or its caller has left."""
    slow = "location = /slow { limit_rate 1000; }"
    both = [hosts(limit="concurrent: 3, hold: 1h", deadline=1000) for _ in range(2)]
    for host in both:
        host.gate.configure(server=SERVER + slow)
        (host.gate.dir / "html" / "slow").write_text("x" * 100000)
        host.gate.reload()
    ask = b"GET /slow HTTP/1.1\r\nHost: a\r\nX-Api-Key: ann\r\n\r\n"
    held = []
    for host in (both[0], both[1], both[0]):
        s = socket.create_connection(("127.0.0.1", host.gate.port))
        s.settimeout(60)
        s.sendall(ask)
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        held.append(s)
    assert [h.gate.get("/file", headers={"X-Api-Key": "ann"}).status for h in both] == [429, 429]
    assert both[1].gate.get("/file", headers={"X-Api-Key": "bob"}).status == 200
    held.pop().close()
    both[1].gate.wait_for(lambda: both[1].gate.get("/file", headers={"X-Api-Key": "ann"}).status == 200)
    for s in held:
        s.close()
