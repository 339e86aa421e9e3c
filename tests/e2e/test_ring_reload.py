"""The ring in a policy that is reloaded: a longer list, one that is partly wrong, another self."""
import contextlib
import socket

from serving import wait_for
from test_ring_trouble import Ring, changes, policy, says
from together import Together


at_once = Together(ring=lambda weir, tmp_path: contextlib.closing(Ring(weir, tmp_path)))


def is_settled(metrics, count):
    return metrics["weir_store_nodes"] == count and sum(
        v for k, v in metrics.items() if k.startswith("weir_ring_peer_up")) == count - 1


def settle(*nodes):
    for node in nodes:
        wait_for("all are counted, and up", lambda: is_settled(node.metrics(), len(nodes)))


def remaining(node, key):
    answer = node.check(key)
    return answer["remaining"] if answer["reason"] != "store" else None


def answered(node, key):
    """Once its owner is known: at first it is one that may be there."""
    return wait_for("an owner", lambda: remaining(node, key))


KEYS = [f"caller{i}" for i in range(30)]


@at_once
def test_a_longer_list(ring):
    """The way by which a ring of a list grows; nothing is forgotten, nothing counted twice."""
    a, b, c = ring.at
    first, second = ring.start(a, [a, b]), ring.start(b, [a, b])
    settle(first, second)
    for key in KEYS:
        assert answered(first, key) == 99_999
    first.reload(policy(a, ring.at))
    second.reload(policy(b, ring.at))
    third = ring.start(c, ring.at)
    settle(first, second, third)
    for key in KEYS:
        assert answered(third, key) == 99_998
        assert answered(first, key) == 99_997
    assert changes(first, c)[-1] == changes(third, a)[-1] == "has joined"


@at_once
def test_a_shorter_list(ring):
    a, b, c = ring.at
    nodes = [ring.start(at, ring.at) for at in ring.at]
    settle(*nodes)
    for key in KEYS:
        assert answered(nodes[0], key) == 99_999
    assert nodes[2].end() == 0
    nodes[0].reload(policy(a, [a, b]))
    nodes[1].reload(policy(b, [a, b]))
    settle(*nodes[:2])
    for key in KEYS:
        assert answered(nodes[1], key) == 99_998
        assert answered(nodes[0], key) == 99_997


@at_once
def test_peers_that_cannot_be_reached(ring):
    """One that refuses, one whose listener never accepts, and one whose name is nobody's: dead, said once each."""
    a, b, c = ring.at
    first, second = ring.start(a, [a, b]), ring.start(b, [a, b])
    settle(first, second)
    for key in KEYS:
        assert answered(first, key) == 99_999
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        wrong = [c, "127.0.0.1:%d" % silent.getsockname()[1], "nobody.invalid:7946"]
        first.reload(policy(a, [a, b, *wrong]))
        for at in wrong:
            says(first, at, "is dead")
        settle(first, second)
        wait_for("it is well", lambda: first.readyz() == (200, "serving"))
        for key in KEYS:
            assert answered(first, key) == 99_998
            assert answered(second, key) == 99_997
        settle(first, second)
        metrics = first.metrics()
        assert [metrics[f'weir_ring_peer_up{{peer="{at}"}}'] for at in [b, *wrong]] == [1, 0, 0, 0]
        assert all(changes(first, at) == ["is dead"] for at in wrong)


@at_once
def test_another_self(ring):
    """The node has another name: to the others the old one is dead, and the new one joins."""
    a, b, c = ring.at
    first, second = ring.start(a, [a, b]), ring.start(b, [a, b])
    settle(first, second)
    second.reload(policy(b, [b, c]))
    first.reload(policy(c, [b, c]))
    settle(first, second)
    says(second, c, "has joined")
    wait_for("it is well", lambda: (first.readyz(), second.readyz()) == ((200, "serving"),) * 2)
    for key in KEYS:
        left = answered(first, key)
        assert left is not None and answered(second, key) == left - 1


@at_once
def test_another_self_that_is_taken_is_refused(ring):
    """The old policy goes on as it was."""
    a, b, _ = ring.at
    first, second = ring.start(a, [a, b]), ring.start(b, [a, b])
    settle(first, second)
    assert remaining(first, "caller") == 99_999
    first.path.write_text(policy(b, [a, b]))
    refused = "self %s: cannot listen at this address" % b
    first.daemon.signal(1)
    assert refused in first.daemon.event("reload refused, the old policy stays")["reason"]
    assert refused in first.readyz()[1]
    assert (remaining(second, "caller"), remaining(first, "caller")) == (99_998, 99_997)
    assert not first.said("store lost")
    first.reload(policy(a, [a, b]))
    assert first.readyz() == (200, "serving")
    assert remaining(first, "caller") == 99_996


@at_once
def test_a_ring_that_begins_with_a_reload(ring, weir, tmp_path):
    a, b, _ = ring.at
    alone = policy(a, [a, b])
    first = ring.start(a, [a, b])
    first.reload(alone[:alone.index("store:")] + alone[alone.index("limits:"):].replace("shared: true", "shared: false").replace(
        ", when_store_gone: closed", ""))
    second = ring.start(b, [a, b])
    wait_for("alone", lambda: second.metrics()["weir_store_nodes"] == 1)
    first.path.write_text(policy(b, [a, b]))
    first.daemon.signal(1)
    first.daemon.event("reload refused, the old policy stays")
    first.reload(alone, 2)
    settle(first, second)
    left = answered(first, "caller")
    assert answered(second, "caller") == left - 1
