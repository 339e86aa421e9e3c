"""A daemon under test: started on free ports of its own choosing, watched by its log, ended."""
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading
import time

DEADLINE = 20  # seconds: nothing here takes one; a loaded machine may


def send(process, number):
    """A signal; SIGSTOP has stopped every thread when this returns, which takes a moment where they run."""
    process.send_signal(number)
    if number == signal.SIGSTOP:
        wait_for("it stands still", lambda: all(
            p.read_text().rpartition(")")[2].split()[0] in "TtZ" for p in pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat")))


def wait_for(what, condition):
    """The first true value of condition(), or a failure that says what did not come. Asked every 5 ms, and less often
    when it has taken long already."""
    pause, end = 0.005, time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(pause)
        pause = min(pause * 1.02, 0.02)
    raise AssertionError(f"did not come within {DEADLINE} s: {what}")


GIVEN = set()  # by free_port(), to nobody twice


def free_port():
    """Below those that the kernel gives to clients (32768 and more), so that none has it when a server begins to listen."""
    while True:
        port = random.SystemRandom().randrange(10000, 22000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in GIVEN:
            GIVEN.add(port)
            return port


def today(seconds=60):
    """Not within |seconds| of midnight UTC, where a window of a day would end under the test."""
    left = 86400 - time.time() % 86400
    if left < seconds:
        time.sleep(left + 1)


class Daemon:
    """One running daemon. Its log is JSON lines on standard error."""

    def __init__(self, argv, env=None, **options):
        self.events = []
        self.raw = []
        self.process = subprocess.Popen([str(a) for a in argv], stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})}, **options)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.raw.append(line)
            try:
                self.events.append(json.loads(line))
            except ValueError:
                pass

    def event(self, name, count=1):
        """The count-th event of that name, once it has come."""
        def look():
            found = [e for e in list(self.events) if e["event"] == name]
            if len(found) >= count:
                return found[count - 1]
            assert self.process.poll() is None or self.reader.is_alive(), "".join(self.raw)
            return None
        return wait_for(f"event {name} in {self.raw}", look)

    def ready(self):
        self.event("ready")
        return self

    def address(self, door, index=0):
        """As socket.connect wants it."""
        found = [e["address"] for e in self.events if e["event"] == "listening" and e["door"] == door]
        text = found[index]
        if text.startswith("unix:"):
            return text[5:]
        host, port = text.rsplit(":", 1)
        return host.strip("[]"), int(port)

    def signal(self, number):
        send(self.process, number)

    def end(self):
        """SIGTERM, and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        status = self.process.wait(DEADLINE)
        self.reader.join(DEADLINE)
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(DEADLINE)
        self.process.stderr.close()


class Lines:
    """A connection to the door of lines (echo_daemon.c)."""

    def __init__(self, address, wrap=None):
        family = socket.AF_UNIX if isinstance(address, str) else \
            socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(address)
        if wrap is not None:
            self.socket = wrap(self.socket)
        self.file = self.socket.makefile("rb")

    def send(self, text):
        self.socket.sendall(text.encode() + b"\n")

    def receive(self):
        """A line without its end; "" when the other side has closed."""
        return self.file.readline().decode().rstrip("\n")

    def ask(self, text):
        self.send(text)
        return self.receive()

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
