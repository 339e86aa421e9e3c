"""The golden vectors through the HTTP and the gRPC door and the gateway (the RESP door: test_golden_resp.py). Clocks
cannot be set there. But an array of questions, and the calls in one read of a connection, share one moment: what a
vector asks at its first moment is asked at once, and answered exactly. What windows say of their end depends on when
the test runs, and is only bounded. The gateway sees each request at a time of its own: there the limits' units are
made weeks, in which nothing comes back while the test runs; at its first moment a vector does not depend on them.
It holds what is delayed and frees places when a response is sent, so vectors of delays are followed up to the first
one, and those of places are left to test_nginx_flow.py."""
import re

import pytest

from gateway import MODULE, Gateway
from grpc_client import OK, OVER, SERVICE, answer, descriptor, question
from http2_wire import DATA, END_HEADERS, END_STREAM, HEADERS, Http2, frame, request
from http_door import Door
from test_golden_replay import BLOCKS, policy_text
from test_golden_resp import first_moment

IDS = [block[0] for block in BLOCKS]
each_block = pytest.mark.parametrize("index", range(len(BLOCKS)), ids=IDS)


def limits():
    return [f"name: b{i}, match: {{path: /b{i}}}, {policy_text(limit)}" for i, (_, limit, _) in enumerate(BLOCKS)]


@pytest.fixture(scope="module")
def door(weir, tmp_path_factory):
    door = Door(weir, tmp_path_factory.mktemp("golden") / "policy.yaml", limits(), identity="",
                listen="http: 127.0.0.1:0, grpc: 127.0.0.1:0, threads: 1")
    yield door
    door.close()


@each_block
def test_http(door, index):
    where, limit, requests = BLOCKS[index]
    asked = first_moment(requests)
    said = door.check(*[{"ip": "192.0.2.1", "path": f"/b{index}", "cost": int(words[1])} for words in asked])
    for words, got in zip(asked, said):
        _, _, _, verdict, remaining, retry, delay = words
        assert (got["verdict"], got["limit"], got["remaining"], got["delay_ms"]) == \
            (verdict, f"b{index}", int(remaining), int(delay)), f"{where}: {' '.join(words)}"
        due = got["retry_after_ms"]
        if verdict != "deny" or int(retry) < 0:
            assert due is None
        elif limit[0].endswith("window"):
            assert due > 0
        else:
            assert due == int(retry), f"{where}: {' '.join(words)}"


@each_block
def test_grpc(door, index):
    """A call is answered OK or OVER_LIMIT; what a leaky bucket delays is OK."""
    where, _, requests = BLOCKS[index]
    asked = first_moment(requests)
    calls = b""
    for i, words in enumerate(asked):
        entries = [("remote_address", "192.0.2.2"), ("path", f"/b{index}")]
        body = question("any", descriptor(entries, hits=int(words[1])))
        calls += frame(HEADERS, END_HEADERS, 2 * i + 1, request(SERVICE))
        calls += frame(DATA, END_STREAM, 2 * i + 1, b"\0" + len(body).to_bytes(4, "big") + body)
    with Http2(door.daemon.address("grpc")) as connection:
        connection.send(calls)
        for i, words in enumerate(asked):
            got = answer(reply(connection, 2 * i + 1))
            assert (got["code"], got["statuses"][0]["remaining"]) == \
                (OVER if words[3] == "deny" else OK, int(words[4])), f"{where}: {' '.join(words)}"


def reply(connection, stream):
    """The message that was sent on the stream, without its length."""
    while True:
        data = b"".join(f[3] for f in connection.frames if f[0] == DATA and f[2] == stream)
        if len(data) >= 5 and len(data) >= 5 + int.from_bytes(data[1:5], "big"):
            return data[5:]
        assert connection.take(), f"no answer: {connection.frames[-5:]}"


def of_weeks(words):
    return re.sub(r"(rate: \d+)/\w+", r"\1/week", policy_text(words))


def to_follow(block):
    """What the gateway can be asked of a vector: see above."""
    asked = first_moment(block[2])
    delayed = next((i for i, words in enumerate(asked) if words[3] == "delay"), len(asked))
    return [] if block[1][0] == "concurrency" else asked[:delayed]


@pytest.fixture(scope="module")
def gate():
    costs = {(i, words[1]) for i, block in enumerate(BLOCKS) for words in to_follow(block)}
    policy = "costs:\n" + "".join(f"  - {{match: {{path: /b{i}/{cost}}}, cost: {cost}}}\n" for i, cost in sorted(costs))
    policy += "limits:\n" + "".join(f"  - {{name: b{i}, match: {{path: /b{i}/**}}, {of_weeks(limit)}}}\n"
                                    for i, (_, limit, _) in enumerate(BLOCKS))
    if not MODULE.exists():
        pytest.skip(f"no {MODULE}: nginx-dev was missing when weir was built")
    gate = Gateway(policy, server='add_header V "$weir_verdict,$weir_limit,$weir_remaining" always; weir_options on;')
    try:
        yield gate.start()
    finally:
        gate.stop()


@each_block
def test_nginx(gate, index):
    where = BLOCKS[index][0]
    for words in to_follow(BLOCKS[index]):
        got = gate.get(f"/b{index}/{words[1]}")
        assert got.one("V") == f"{words[3]},b{index},{words[4]}", f"{where}: {' '.join(words)}"
        assert got.status == (429 if words[3] == "deny" else 200)
        assert len(got.all("Retry-After")) == (words[3] == "deny" and int(words[5]) > 0), f"{where}: {' '.join(words)}"
