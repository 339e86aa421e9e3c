"""The golden vectors through the RESP door. Its clock cannot be set, but commands that come in one read share one
moment: what a vector asks at its first moment is sent as one pipeline, and is answered exactly. What windows say of
their end depends on when the test runs, and is only bounded."""
import pytest

from serving import Daemon
from test_golden_replay import BLOCKS, policy_text
from test_resp import Client, command


@pytest.fixture(scope="module")
def client(weir, tmp_path_factory):
    path = tmp_path_factory.mktemp("golden") / "policy.yaml"
    limits = "".join(f"  - {{name: b{i}, match: {{path: /b{i}}}, {policy_text(limit)}}}\n" for i, (_, limit, _) in enumerate(BLOCKS))
    path.write_text("version: 1\narena: {size: 4MiB}\nlisten: {resp: '127.0.0.1:0', threads: 1}\nlimits:\n" + limits)
    daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"]).ready()
    client = Client(daemon.address("resp"))
    yield client
    client.close()
    daemon.close()


def first_moment(requests):
    return [words for words in requests if words[0] == requests[0][0]]


@pytest.mark.parametrize("index", range(len(BLOCKS)), ids=[block[0] for block in BLOCKS])
def test_vector(client, index):
    where, limit, requests = BLOCKS[index]
    asked = first_moment(requests)
    client.raw(b"".join(command("WEIR.CHECK", f"b{index}", "key", words[1]) for words in asked))
    for words in asked:
        _, _, _, verdict, remaining, retry, delay = words
        allowed, _, got_remaining, got_retry, _, got_delay = client.receive()
        got = "deny" if not allowed else "delay" if got_delay > 0 else "allow"
        assert (got, got_remaining, got_delay) == (verdict, int(remaining), int(delay)), f"{where}: {' '.join(words)}"
        if verdict == "deny" and limit[0].endswith("window") and int(retry) > 0:
            assert got_retry > 0
        else:
            assert got_retry == int(retry), f"{where}: {' '.join(words)}"
