"""Redis servers, and the driver that asks them, for test_redis_*.py."""
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

import pytest

from serving import DEADLINE, wait_for

DEADLINE_MS = 200  # of a call, unless a test says otherwise
SLACK_US = 600_000  # a machine under load wakes up late


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: scripts/setup.sh check")


class Wire:
    """A connection that speaks RESP, as far as tests need."""

    def __init__(self, port, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=DEADLINE)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
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
            return self.file.read(size + 2)[:-2].decode()
        return [self.read() for _ in range(size)]

    def close(self):
        self.file.close()
        self.socket.close()


class Redis:
    """One redis-server in a directory of its own."""

    def __init__(self, *args, port=None, program="redis-server"):
        need(program)
        self.port = port or free_port()
        self.directory = tempfile.mkdtemp(prefix="weir-redis-")
        self.program = program
        self.args = args
        self.process = None
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
        return ["--save", "", "--appendonly", "no"]

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

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


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
