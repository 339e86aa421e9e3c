"""make run: the five lines that it prints answer as it says, and it leaves nothing behind."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import threading

import pytest

from gateway import BUILD, MODULE, ROOT, Gateway
from serving import free_port


class Run:
    """run.sh in a session of its own. |on_sigint|: how it finds SIGINT; a test may itself have been started with it
    ignored (nohup, `cmd &` in a script), and no shell can trap what was ignored when it began."""

    def __init__(self, port, on_sigint=signal.SIG_DFL):
        self.port = port
        self.process = subprocess.Popen([ROOT / "scripts" / "run.sh", BUILD], env={**os.environ, "PORT": str(port)},
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True,
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, on_sigint))
        self.banner = ""
        while "Ctrl-C stops it" not in self.banner:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"run.sh ended: {self.banner}{self.process.stderr.read()}")
            self.banner += line
        self.lines = re.findall(r"^\d\) .*\n   (.*)\n   => (.*)\n", self.banner, re.M)
        (self.folder,) = {pathlib.Path(a).parent for command in left(self.process.pid).values() for a in command
                          if a.endswith("/api.port")}
        self.log = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.log.append(line)

    def logged(self, path, count):
        """The gateway's own lines of requests to |path|, once there are |count|: dicts."""
        def found():
            return [line for line in list(self.log) if f" {path}" in line]
        Gateway.wait_for(lambda: len(found()) >= count)
        return [{"status": int(line.split()[1]), "line": line,
                 **{name: float(re.search(rf" {name}=(\S+)", line).group(1).replace("-", "0"))
                    for name in ("delay", "at", "took")}} for line in found()]

    def stop(self, number=signal.SIGINT, group=True):
        """As Ctrl-C in a terminal: the whole group gets it. (exit status, what it said on standard error)"""
        (os.killpg if group else os.kill)(self.process.pid, number)
        code = self.process.wait(60)
        self.reader.join(60)
        return code, self.process.stderr.read()


@pytest.fixture
def run():
    yield from running(signal.SIG_DFL)


@pytest.fixture
def run_in_background():
    yield from running(signal.SIG_IGN)


def running(on_sigint):
    if not MODULE.exists():
        pytest.skip(f"no {MODULE}: nginx-dev was missing when weir was built")
    run = Run(free_port(), on_sigint)
    yield run
    if run.process.poll() is None:
        run.stop(signal.SIGTERM, group=False)
    run.process.stdout.close()
    run.process.stderr.close()


def shell(line):
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120).stdout


def test_the_five_lines_answer_as_printed(run):
    assert len(run.lines) == 5, run.banner
    said = [answer for _, answer in run.lines]
    got = [shell(line) for line, _ in run.lines]

    assert said[0] == "200, X-RateLimit-Limit: 60, X-RateLimit-Remaining: 59"
    assert got[0].startswith("HTTP/1.1 200 ")
    assert "X-RateLimit-Limit: 60\n" in got[0]
    assert "X-RateLimit-Remaining: 59\n" in got[0]

    assert said[1] == "200 200 200 200 200 429" == got[1].strip()

    assert said[2] == "201, X-RateLimit-Limit: 1000, X-RateLimit-Remaining: 990"
    assert got[2].startswith("HTTP/1.1 201 ")
    assert "X-RateLimit-Limit: 1000\n" in got[2] and "X-RateLimit-Remaining: 990\n" in got[2]

    assert said[3] == "200 after 0.0, 0.2, 0.4, 0.6 and 0.8 s"
    assert len(re.findall(r"^200 after [\d.]+ s$", got[3], re.M)) == 5
    check_spacing(run.logged("/export/", 5))

    assert said[4] == "429 201 201"
    assert set(got[4].split()) <= {"201", "429"}
    check_places(run.logged("/upload", 3))

    shell(f"for i in 1 2; do curl -s localhost:{run.port}/hello; done")  # the third in a minute
    assert "shadow limit=hello-trial" in run.logged("/hello", 3)[2]["line"]
    code, err = run.stop()
    assert code == 130, err


def check_spacing(requests):
    """Five a second, by the gateway's own log: late is as it may be, early nothing is. (Both in whole ms.)"""
    assert [r["status"] for r in requests] == [200] * 5
    first = min(r["at"] - r["took"] for r in requests)
    for r in requests:
        assert r["took"] >= r["delay"] - 0.002
    for i, ended in enumerate(sorted(r["at"] for r in requests)):
        assert ended >= first + 0.2 * i - 0.005


def check_places(requests):
    """Never three at once, and none refused but beside two others. On a machine that stalls, the third may come when
    the first has ended: then all pass."""
    served = [(r["at"] - r["took"], r["at"]) for r in requests if r["status"] == 201]
    for r in requests:
        begun = r["at"] - r["took"]
        beside = sum(start <= r["at"] + 0.005 and end >= begun - 0.005 for start, end in served)
        assert beside >= 2 if r["status"] == 429 else r["status"] == 201
    for start, _ in served:
        assert sum(s <= start and e > start + 0.005 for s, e in served) <= 2


def left(session):
    """The processes of the session: {pid: command line}."""
    found = {}
    for p in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if session_of(p) == session:
                found[int(p.parent.name)] = (p.parent / "cmdline").read_text().split("\0")
        except FileNotFoundError:
            pass  # it has ended meanwhile
    return found


def check_nothing_is_left(run):
    assert left(run.process.pid) == {}
    assert not run.folder.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", run.port), timeout=1)


def test_ctrl_c_leaves_nothing(run):
    code, err = run.stop()
    assert (code, err) == (130, "")
    check_nothing_is_left(run)


def test_sigterm_leaves_nothing(run):
    code, err = run.stop(signal.SIGTERM, group=False)
    assert (code, err) == (143, "")
    check_nothing_is_left(run)


def test_ctrl_c_where_no_shell_can_trap_it(run_in_background):
    """nginx is ended by the SIGINT that the shell never sees: no failure, and nothing to read."""
    code, err = run_in_background.stop()
    assert (code, err) == (0, "")
    check_nothing_is_left(run_in_background)


def test_an_end_that_nobody_asked_for_is_told(run):
    (api,) = [pid for pid, command in left(run.process.pid).items() if any(a.endswith("/api.py") for a in command)]
    os.kill(api, signal.SIGKILL)
    assert run.process.wait(60) == 1
    assert "nginx or the demo API has ended" in run.process.stderr.read()


@pytest.mark.parametrize("port", ["abc", "0", "65536", "-1", "80a", "8080 8081", "99999999999999999999", "8e3", "0x50"])
def test_a_port_that_is_none(port):
    done = subprocess.run([ROOT / "scripts" / "run.sh", BUILD], env={**os.environ, "PORT": port},
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'run.sh: PORT is "{port}": expected a number from 1 to 65535, as in PORT=8081 make run\n'


def session_of(stat):
    try:
        return int(stat.read_text().rpartition(")")[2].split()[3])
    except OSError:  # it has ended meanwhile
        return None


def test_port_in_use():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        done = subprocess.run([ROOT / "scripts" / "run.sh", BUILD], env={**os.environ, "PORT": str(port)},
                              capture_output=True, text=True, timeout=60)
    if not MODULE.exists():
        pytest.skip(f"no {MODULE}")
    assert done.returncode == 1
    assert f"port {port} is in use" in done.stderr
