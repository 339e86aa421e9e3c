"""examples/embed: the C server of the README, as built, limits its callers."""
import http.client
import pathlib
import subprocess
import time

import pytest

POLICY = pathlib.Path(__file__).resolve().parents[2] / "examples" / "embed" / "policy.yaml"


@pytest.fixture
def server(build, free_port):
    process = subprocess.Popen([build / "examples" / "embed_server", POLICY, str(free_port)], stderr=subprocess.PIPE)
    yield free_port
    process.kill()
    process.wait()


def get(port):
    for _ in range(100):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
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
    # A token every 6 s; the test takes well under one: the next is due in 6 s, rounded up.
    assert answers[10].getheader("Retry-After") in ("5", "6")
    assert answers[10].getheader("Cache-Control") == "no-store"
