"""The ring through the daemon's doors: three daemons, no store."""
import pytest

from redis_servers import free_port
from serving import wait_for
from shared_nodes import POLICY, Node

UNITS = 120


def policy(ports, number, limits, threads=1):
    peers = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
    store = f'{{ring: {{self: "127.0.0.1:{ports[number]}", peers: [{peers}], password: secret}}, deadline: 1s}}'
    text = POLICY.format(port=1, deadline=1, store="", threads=threads, limits=limits)
    begin = text.index("store:")
    return text[:begin] + f"store: {store}\n" + text[text.index("limits:"):]


class Ring:
    def __init__(self, weir, directory, limit, threads=1):
        self.ports = ports = [free_port() for _ in range(3)]
        limits = f"  - {{name: shared, shared: true, by: [api_key], when_store_gone: closed, {limit}}}\n"
        self.nodes = [Node(weir, directory / f"weir{n}.yaml", policy(ports, n, limits, threads)) for n in range(3)]

    def settle(self, count):
        """Who has not been heard of yet counts as a node; he is up when he has."""
        def settled(node):
            metrics = node.metrics()
            ups = sum(value for name, value in metrics.items() if name.startswith("weir_ring_peer_up"))
            return (metrics["weir_store_nodes"], ups) == (count, count - 1)

        wait_for(f"{count} nodes", lambda: all(settled(node) for node in self.nodes))

    def end(self, number):
        node = self.nodes.pop(number)
        assert node.end() == 0

    def close(self):
        for node in self.nodes:
            node.daemon.process.kill()
            node.daemon.process.wait()


@pytest.fixture
def ring(weir, tmp_path, request):
    ring = Ring(weir, tmp_path, f"rate: {UNITS}/day, algorithm: {request.param}", threads=2)
    yield ring
    ring.close()


def passed(node, key):
    """503 while keys are nobody's is for the tests of the backend; here nothing dies."""
    return node.check(key)["verdict"] == "allow"


@pytest.mark.parametrize("ring", ["fixed-window", "token-bucket", "sliding-log"], indirect=True)
def test_each_caller_has_one_limit_and_a_node_that_ends_hands_it_over(ring):
    keys = [f"caller{i}" for i in range(6)]
    ring.settle(3)
    for i in range(UNITS // 2):
        for key in keys:
            assert passed(ring.nodes[i % 3], key)
    ring.end(2)
    ring.settle(2)
    ring.end(0)
    ring.settle(1)
    for key in keys:
        assert sum(passed(ring.nodes[0], key) for _ in range(UNITS)) == UNITS - UNITS // 2


def of(node, what, peer):
    return node.metrics()[f'weir_ring_{what}{{peer="{peer}"}}']


def forwards(ring, names):
    """How many of a hundred keys the first node asks the second and the third for, and the second one the first. A node
    that is not ready yet is asked for nothing; whoever is asked instead sends on, which counts once more: when all are
    ready, and only then, each key is counted once here, at its owner."""
    pairs = ((0, 1), (0, 2), (1, 0))

    def asked_for():
        before = [of(ring.nodes[a], "forwarded_total", names[b]) for a, b in pairs]
        for i in range(100):
            assert passed(ring.nodes[0], f"caller{i}") and passed(ring.nodes[1], f"caller{i}")
        counts = [of(ring.nodes[a], "forwarded_total", names[b]) - before[n] for n, (a, b) in enumerate(pairs)]
        return sum(counts) == 100 and counts

    return wait_for("each key has one owner", asked_for)


def test_each_peer_has_its_metrics(weir, tmp_path):
    ring = Ring(weir, tmp_path, "rate: 1000000/day", threads=2)
    try:
        ring.settle(3)
        first, second, third = ring.nodes
        names = [f"127.0.0.1:{port}" for port in ring.ports]
        found = {k: v for k, v in first.metrics().items() if k.startswith("weir_ring_")}
        assert found == {f'weir_ring_{what}{{peer="{name}"}}': int(what == "peer_up") for name in names[1:] for what in
                         ("peer_up", "forwarded_total", "answered_total", "late_total", "handed_over_total")}
        counts = forwards(ring, names)
        assert all(counts)  # by chance once in 10^17
        assert [of(first, "answered_total", name) for name in names[1:]] == [of(first, "forwarded_total", name) for name in names[1:]]
        # Who leaves hands its keys to the others, and gets them back when it is there again.
        assert third.end() == 0
        wait_for("it is down", lambda: of(first, "peer_up", names[2]) == 0)
        assert of(first, "peer_up", names[1]) == 1
        ring.nodes[2] = Node(weir, tmp_path / "weir2.yaml", third.path.read_text())
        ring.settle(3)
        wait_for("its keys are its again", lambda: sum(of(node, "handed_over_total", names[2]) for node in (first, second)) >=
                 counts[1])
        wait_for("it is up", lambda: of(first, "peer_up", names[2]) == 1)
        assert [of(first, "late_total", name) for name in names[1:]] == [0, 0]
    finally:
        ring.close()


def test_a_node_that_leaves_as_soon_as_it_has_joined(weir, tmp_path):
    """Others walk over their keys for those who join, and some of their loops have not heard that one leaves: they must
    not hand it back what it has handed them."""
    ring = Ring(weir, tmp_path, f"rate: {UNITS}/day", threads=4)
    try:
        ring.settle(3)
        keys = [f"caller{i}" for i in range(200)]
        for key in keys:
            assert passed(ring.nodes[0], key)
        ring.end(2)
        ring.settle(2)
        assert {ring.nodes[1].check(key)["remaining"] for key in keys} == {UNITS - 2}
    finally:
        ring.close()
