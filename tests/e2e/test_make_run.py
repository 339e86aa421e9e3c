"""make run: the five lines that it prints answer as it says, and it leaves nothing behind."""

import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from gateway import BUILD, MODULE, ROOT, free_port


class Run:
    def __init__(self, port):
        self.port = port
        self.process = subprocess.Popen([ROOT / "scripts" / "run.sh", BUILD], env={**os.environ, "PORT": str(port)},
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)
        self.banner = ""
        while "Ctrl-C stops it" not in self.banner:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"run.sh ended: {self.banner}{self.process.stderr.read()}")
            self.banner += line
        self.lines = re.findall(r"^\d\) .*\n   (.*)\n   => (.*)\n", self.banner, re.M)

    def stop(self):
        """As Ctrl-C in a terminal: the whole group gets it."""
        os.killpg(self.process.pid, signal.SIGINT)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


@pytest.fixture
def run():
    if not MODULE.exists():
        pytest.skip(f"no {MODULE}: nginx-dev was missing when weir was built")
    run = Run(free_port())
    yield run
    if run.process.poll() is None:
        run.stop()


def shell(line):
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=30).stdout


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
    times = sorted(float(re.fullmatch(r"200 after ([\d.]+) s", line).group(1)) for line in got[3].splitlines())
    assert len(times) == 5
    for i, t in enumerate(times):
        # Each counts from its own start, and xargs starts them one after the other.
        assert 0.2 * i - 0.12 <= t <= 0.2 * i + 0.3

    assert said[4] == "429 201 201"
    assert sorted(got[4].split()) == ["201", "201", "429"]

    shell(f"for i in 1 2; do curl -s localhost:{run.port}/hello; done")  # the third in a minute
    code, out, err = run.stop()
    assert code == 130 and "shadow limit=hello-trial" in out, (code, out, err)


def test_ctrl_c_leaves_nothing(run):
    session = run.process.pid
    code, _, _ = run.stop()
    assert code == 130
    left = [p for p in pathlib.Path("/proc").glob("[0-9]*/stat") if session_of(p) == session]
    assert left == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", run.port), timeout=1)


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
                              capture_output=True, text=True, timeout=20)
    if not MODULE.exists():
        pytest.skip(f"no {MODULE}")
    assert done.returncode == 1
    assert f"port {port} is in use" in done.stderr
