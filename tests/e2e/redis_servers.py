"""Redis servers, and the driver that asks them, for test_redis_*.py."""
import json
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading

import pytest

from serving import DEADLINE, free_port, send, wait_for

DEADLINE_MS = 200  # of a call, unless a test says otherwise
SLACK_US = 1_000_000  # a machine under load wakes up late: 574 and 1156 ms were measured


def free_cluster_port():
    """One whose bus port, 10000 above, is free as well."""
    while True:
        port = free_port()
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port + 10000))
                return port
            except OSError:
                pass


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: scripts/setup.sh check")


def text(reply):
    if isinstance(reply, list):
        return [text(r) for r in reply]
    return reply.decode(errors="replace") if isinstance(reply, bytes) else reply


class Wire:
    """A connection that speaks RESP, as far as tests need."""

    def __init__(self, port, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=DEADLINE)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        return text(self.raw(*words))

    def raw(self, *words):
        """The same, with strings as bytes."""
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self.read()

    def read(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest.decode()
        size = int(rest)
        if size < 0:
            return None
        if kind == b"$":
            return self.file.read(size + 2)[:-2]
        return [self.read() for _ in range(size)]

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    """In a process of its own, which a test may stop, let go on, and kill."""

    process = None

    def signal(self, number):
        send(self.process, number)

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self):
        self.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Redis(Server):
    """One redis-server in a directory of its own."""

    def __init__(self, *args, port=None, program="redis-server"):
        need(program)
        self.port = port or free_port()
        self.directory = tempfile.mkdtemp(prefix="weir-redis-")
        self.program = program
        self.args = args
        self.wire = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.program, *self.head(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.directory,
             *self.defaults(), *self.args], stdout=subprocess.DEVNULL)
        wait_for("redis answers", self.answers)

    def head(self):
        return []

    def defaults(self):
        """Without the 5 s that a primary waits for more replicas before it serves the first one."""
        return ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"]

    def answers(self):
        try:
            wire = Wire(self.port)
            try:
                wire("PING")
            except RuntimeError:
                pass  # NOAUTH: it is there
            wire.close()
            return True
        except (OSError, ConnectionError):
            return False

    def __call__(self, *words):
        """A command, on a connection of its own."""
        wire = Wire(self.port)
        try:
            return wire(*words)
        finally:
            wire.close()

    def raw(self, *words):
        wire = Wire(self.port)
        try:
            return wire.raw(*words)
        finally:
            wire.close()

    def errors(self, code):
        """How often it has answered by this error."""
        for line in self("INFO", "errorstats").splitlines():
            if line.startswith(f"errorstat_{code}:count="):
                return int(line.split("=")[1])
        return 0

    def close(self):
        super().close()
        shutil.rmtree(self.directory, ignore_errors=True)


class Driver:
    """tests/remote/driver.c, running."""

    def __init__(self, build, *args, wrap=(), deadline_ms=DEADLINE_MS):
        self.events = []
        self.process = subprocess.Popen(
            [*wrap, str(build / "tests/remote/remote_driver"), "--deadline-ms", str(deadline_ms), *map(str, args)],
            stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def slices(self):
        return [e for e in list(self.events) if e["event"] == "slice"]

    def wait_until(self, what, condition):
        """Until a slice of those to come fulfils |condition|."""
        from_here = len(self.slices())
        return wait_for(what, lambda: next((s for s in self.slices()[from_here:] if condition(s)), None))

    def healthy(self):
        """Until it decides without loss again."""
        return self.wait_until("decisions again", lambda s: s["gone"] == 0 and s["allowed"] + s["refused"] > 0)

    def no_more(self):
        """Calls, from now on."""
        self.process.send_signal(signal.SIGINT)

    def over(self):
        """Of a driver that stays: how many were allowed, once the last calls have ended."""
        self.no_more()
        ends = self.slices()[-1]["ms"] + 1000
        self.wait_until("the end of the calls", lambda s: s["ms"] > ends and not (s["allowed"] + s["refused"] + s["gone"]))
        return sum(s["allowed"] for s in self.slices())

    def finish(self):
        """The last event, after the calls that are under way."""
        self.no_more()
        return self.wait()

    def wait(self, timeout=120):
        """The last event."""
        status = self.process.wait(timeout)
        self.reader.join(DEADLINE)
        assert status == 0, status
        return self.events[-1]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(DEADLINE)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def drive(build, *args, **options):
    """The driver from beginning to end: its last event."""
    with Driver(build, *args, "--quiet", **options) as driver:
        return driver.wait()


def used(build, units, *where):
    """How many units the store has counted against the driver's first key."""
    end = drive(build, *where, "--units", units, "--calls", 1, "--cost", 0, deadline_ms=5000)
    assert end["allowed"] == 1, end
    return units - end["remaining"]


def key(number, limit, algorithm=3):
    """The store's name of the key that the driver's limit l<limit> counts under the driver's key |number|."""
    return f"weir:{{{(number).to_bytes(8, 'little').hex()}{'0' * 16}}}:l{limit}:{algorithm}"


def members(redis):
    """Of weir, that share it. Without a name: the mark of a young set."""
    return set(redis("ZRANGE", "weir:nodes", 0, -1)) - {""}


def window_count(raw):
    """What a fixed window has counted: docs/formats/redis.md."""
    return 0 if raw is None else int(struct.unpack("<Bdddd", raw)[2])


COMMAND = re.compile(rb"(?:^|\r\n)\*\d")


class Fake:
    """A server that answers each thing it reads by the same bytes; |each|: each command, of a connection the first
    |answers|."""

    def __init__(self, answer, each=False, answers=1_000_000):
        self.answer = answer
        self.each = each
        self.answers = answers
        self.heard = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
                left = self.answers
                while data := client.recv(65536):
                    self.heard += data
                    count = min(left, len(COMMAND.findall(data)) if self.each else 1)
                    left -= count
                    client.sendall(self.answer * count)
                client.close()
            except OSError:
                if self.listener.fileno() < 0:
                    return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


class Scripted:
    """A server that answers each command, a list of words, by answer(words), bytes."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        try:
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()
        except OSError:
            pass

    def _serve(self, client):
        with client, client.makefile("rb") as file:
            try:
                while head := file.readline():
                    words = []
                    for _ in range(int(head[1:])):
                        size = int(file.readline()[1:])
                        words.append(file.read(size + 2)[:-2].decode(errors="replace"))
                    client.sendall(self.answer(words))
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


class Sentinel(Redis):
    """One that watches |primary| as the master "main", with |quorum| others. It says and asks in fractions of a second
    what others say and ask every 1, 2 and 10 s."""

    def __init__(self, primary, quorum, *lines):
        self.lines = [f"sentinel monitor main 127.0.0.1 {primary.port} {quorum}",
                      "sentinel down-after-milliseconds main 1000", "sentinel failover-timeout main 6000", *lines]
        super().__init__()

    def start(self):
        super().start()
        try:
            self("SENTINEL", "DEBUG", "INFO-PERIOD", 1000, "ASK-PERIOD", 200, "PUBLISH-PERIOD", 500)
        except RuntimeError:
            pass  # it has a password, or is older than 7.0: it takes its time

    def head(self):
        conf = pathlib.Path(self.directory) / "sentinel.conf"
        if not conf.exists():
            conf.write_text("\n".join(self.lines) + "\n")
        return [str(conf), "--sentinel"]

    def defaults(self):
        return []

    def primary(self):
        return int(self("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")[1])


class Cluster:
    """Three primaries with a third of the slots each, and a replica for the first."""

    def __init__(self):
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--cluster-replica-validity-factor", "0"]
        self.primaries = []
        self.replica = None
        try:
            for _ in range(3):
                self.primaries.append(Redis(*options, port=free_cluster_port()))
            self.replica = Redis(*options, port=free_cluster_port())
            self.form()
        except BaseException:
            self.close()
            raise

    def form(self):
        bounds = [(0, 5460), (5461, 10922), (10923, 16383)]
        for epoch, (node, (first, last)) in enumerate(zip(self.primaries, bounds)):
            node("CLUSTER", "SET-CONFIG-EPOCH", epoch + 1)
            node("CLUSTER", "ADDSLOTSRANGE", first, last)
        for node in self.nodes():
            self.primaries[0]("CLUSTER", "MEET", "127.0.0.1", node.port)
        wait_for("everybody knows everybody",
                 lambda: all(n("CLUSTER", "NODES").count("connected") == 4 for n in self.nodes()))
        self.replica("CLUSTER", "REPLICATE", self.primaries[0]("CLUSTER", "MYID"))
        wait_for("the cluster is well", lambda: all("cluster_state:ok" in n("CLUSTER", "INFO") for n in self.nodes()))
        wait_for("the replica follows", lambda: "master_link_status:up" in self.replica("INFO", "replication"))

    def nodes(self):
        return [*self.primaries, self.replica]

    def at(self):
        where = ["--kind", "cluster"]
        for node in self.primaries:
            where += ["--address", f"127.0.0.1:{node.port}"]
        return where

    def slot(self, number):
        return self.primaries[1]("CLUSTER", "KEYSLOT", key(number, 0))

    def owner(self, number):
        """Of the driver's key: an index of primaries."""
        return min(2, self.slot(number) // 5461)

    def key_of(self, owner):
        """A key of the driver that lies on that primary."""
        return next(n for n in range(100, 200) if self.owner(n) == owner)

    def count(self, number, limit):
        """Of a key of the driver, wherever it lies."""
        for node in self.nodes():
            if node.process is None or "role:master" not in node("INFO", "replication"):
                continue
            try:
                return window_count(node.raw("GET", key(number, limit)))
            except RuntimeError:
                continue
        raise AssertionError("no primary has the key")

    def move(self, slot, source, target):
        """As resharding does it: MIGRATING, IMPORTING, key by key, then the slot."""
        source_id, target_id = source("CLUSTER", "MYID"), target("CLUSTER", "MYID")
        target("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        yield "open"
        while keys := source("CLUSTER", "GETKEYSINSLOT", slot, 1):
            source("MIGRATE", "127.0.0.1", target.port, keys[0], 0, 5000)
            yield "key"
        for node in (target, source):
            node("CLUSTER", "SETSLOT", slot, "NODE", target_id)
        for node in self.primaries:
            if node not in (target, source):
                node("CLUSTER", "SETSLOT", slot, "NODE", target_id)

    def close(self):
        for node in self.nodes():
            if node is not None:
                node.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
