"""examples/embed: the C server of the README, as built, limits its callers."""
import http.client
import pathlib
import socket
import struct
import subprocess
import time

import pytest

from agent_wire import FakeDaemon, answer, fingerprint

POLICY = pathlib.Path(__file__).resolve().parents[2] / "examples" / "embed" / "policy.yaml"


@pytest.fixture
def server(build, free_port):
    process = subprocess.Popen([build / "examples" / "embed_server", POLICY, str(free_port)], stderr=subprocess.PIPE)
    yield free_port
    process.kill()
    process.wait()


def get(port):
    for _ in range(1000):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/hello")
            return connection.getresponse()
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise AssertionError("the server did not come up")


def test_ten_pass_and_the_eleventh_is_refused(server):
    answers = [get(server) for _ in range(11)]
    assert [a.status for a in answers] == [200] * 10 + [429]
    assert [a.getheader("X-RateLimit-Remaining") for a in answers] == [str(n) for n in range(9, -1, -1)] + ["0"]
    # A token every 6 s: the next is due in 6 s, rounded up, less what the test took.
    assert 1 <= int(answers[10].getheader("Retry-After")) <= 6
    assert answers[10].getheader("Cache-Control") == "no-store"


def test_rude_clients_do_not_end_it(server):
    """They ask, and reset the connection: writing to it is SIGPIPE, or ECONNRESET, or accept's ECONNABORTED."""
    assert get(server).status == 200
    for request in (b"GET / HTTP/1.1\r\n\r\n", b"", b"x" * 5000) * 30:
        with socket.create_connection(("127.0.0.1", server), timeout=60) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.sendall(request)
    assert get(server).status in (200, 429)


def test_shared_limits_are_asked_of_weir_serve(build, tmp_path, free_port):
    """One request is decided by a daemon, played here; without it the next is refused, as its policy wants it."""
    path = tmp_path / "a.sock"
    (tmp_path / "p.yaml").write_text(f"""version: 1
store: {{redis: {{url: "redis://127.0.0.1:1/0"}}, agent: "unix:{path}", shared: true, when_gone: closed}}
limits:
  - {{name: ip, by: [ip], rate: 10/minute}}
""")
    mark = fingerprint(limits=["ip"])
    reply = lambda n, m, rest: answer(n, mark, verdicts=[dict(capacity=10, remaining=4, reset_ns=6 * 10**9)])
    with FakeDaemon(path, reply) as daemon:
        process = subprocess.Popen([build / "examples" / "embed_server", tmp_path / "p.yaml", str(free_port)])
        try:
            first = get(free_port)
            assert (first.status, first.getheader("X-RateLimit-Remaining")) == (200, "4")
            assert daemon.asked[0].endswith(b"GET/hello127.0.0.1")
            daemon.close()
            assert get(free_port).status == 503
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("port", ["99999", "0", "-1", "80x", "", "x", "99999999999999999999"])
def test_a_port_that_is_none(build, port):
    done = subprocess.run([build / "examples" / "embed_server", POLICY, port], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (1, "usage: server POLICY PORT\n")


def test_a_bad_policy_is_told(build, tmp_path):
    (tmp_path / "p.yaml").write_text("version: 1\nlimits: [{name: x, rat: 1}]\n")
    done = subprocess.run([build / "examples" / "embed_server", tmp_path / "p.yaml", "8090"], capture_output=True,
                          text=True, timeout=20)
    assert done.returncode == 1 and "p.yaml:2:" in done.stderr
