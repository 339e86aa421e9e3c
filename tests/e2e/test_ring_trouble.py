"""A ring that is not written as it is meant: each mistake is in the log and in /readyz, and a node that dies is lost and
back once."""
import contextlib
import signal
import subprocess
import time

import pytest

from redis_servers import free_port
from serving import DEADLINE, wait_for
from shared_nodes import POLICY, Node
from together import Together

LIMIT = "  - {name: shared, shared: true, by: [api_key], when_store_gone: closed, rate: 100000/day}\n"


def policy(this, others, password=", password: secret", name="peers"):
    others = f'"{others}"' if name == "dns" else "[" + ", ".join(f'"{other}"' for other in others) + "]"
    store = f'{{ring: {{self: "{this}", {name}: {others}{password}}}, deadline: 200ms}}'
    text = POLICY.format(port=1, deadline=1, store="", threads=2, limits=LIMIT)
    begin = text.index("store:")
    return text[:begin] + f"store: {store}\n" + text[text.index("limits:"):]


class Ring:
    def __init__(self, weir, directory):
        self.weir, self.directory, self.nodes = weir, directory, []
        self.at = [f"127.0.0.1:{free_port()}" for _ in range(3)]

    def start(self, *args, **options):
        path = self.directory / f"weir{len(self.nodes)}.yaml"
        self.nodes.append(Node(self.weir, path, policy(*args, **options)))
        return self.nodes[-1]

    def close(self):
        for node in self.nodes:
            node.daemon.process.send_signal(signal.SIGCONT)
            node.daemon.process.kill()
            node.daemon.process.wait()


@pytest.fixture
def ring(weir, tmp_path):
    ring = Ring(weir, tmp_path)
    yield ring
    ring.close()


at_once = Together(ring=lambda weir, tmp_path: contextlib.closing(Ring(weir, tmp_path)))


def changes(node, of):
    return [e["change"] for e in node.said("ring") if e["node"] == of]


def says(node, of, what):
    wait_for(f"{of} {what} in {node.daemon.raw}", lambda: any(what in c for c in changes(node, of)))


def shows(node, what):
    wait_for(f"{what} in /readyz", lambda: what in node.readyz()[1])


@at_once
def test_who_joins_leaves_and_dies_is_logged_once(ring):
    a, b, c = ring.at
    node = ring.start(a, ring.at)
    ring.start(b, ring.at)
    third = ring.start(c, ring.at)
    says(node, b, "has joined")
    says(node, c, "has joined")
    third.daemon.signal(signal.SIGTERM)
    says(node, c, "has left")
    ring.nodes[1].daemon.process.kill()
    says(node, b, "is dead")
    time.sleep(3)  # it goes on being dead
    assert changes(node, b)[-2:] == ["has joined", "is dead"]
    assert changes(node, b).count("has joined") == 1
    assert changes(node, c)[-2:] == ["has joined", "has left"]


@at_once
def test_lists_that_differ(ring):
    a, b, c = ring.at
    first, second = ring.start(a, [a, b]), ring.start(b, [a, b])
    shows(first, "serving")
    ring.start(c, ring.at)
    for node in (first, second):
        says(node, c, "says hello and is not in our list")
        shows(node, f"{c} says hello and is not in our list")
    time.sleep(2.5)
    assert len(changes(first, c)) == 1


@at_once
def test_one_node_under_two_names(ring):
    a, b, _ = ring.at
    other = a.replace("127.0.0.1", "localhost")
    ring.start(a, [a, b])
    second = ring.start(b, [other, b])
    says(second, other, f"calls itself {a}")
    shows(second, f"{other} calls itself {a}")


@at_once
def test_a_peer_that_is_this_node(ring):
    a, _, _ = ring.at
    other = a.replace("127.0.0.1", "localhost")
    node = ring.start(a, [other])
    says(node, other, "is this node itself")
    shows(node, "is this node itself")


@pytest.mark.parametrize("password, said", [("", "answers, but not as a node"), (", password: secret", "refuses us")])
@at_once
def test_a_peer_that_is_none(ring, password, said):
    """The RESP door of another daemon: it answers, and knows neither our password nor a hello."""
    a, b, _ = ring.at
    door = "%s:%d" % ring.start(b, [b]).daemon.address("resp")
    node = ring.start(a, [a, door], password=password)
    says(node, door, said)
    shows(node, f"{door}")


@at_once
def test_dns_that_does_not_resolve(ring):
    node = ring.start(ring.at[0], "ring.invalid:7946", name="dns")
    says(node, "ring.invalid", "does not resolve: ")
    shows(node, "does not resolve")
    assert len(changes(node, "ring.invalid")) == 1


@at_once
def test_a_second_daemon_of_the_same_name_is_refused(ring, weir, tmp_path):
    a, b, _ = ring.at
    ring.start(a, [a, b])
    path = tmp_path / "again.yaml"
    path.write_text(policy(a, [a, b]))
    run = subprocess.run([weir, "serve", "-c", path], stderr=subprocess.PIPE, text=True, timeout=DEADLINE)
    assert run.returncode == 1
    assert f"store: ring: self {a}: cannot listen at this address" in run.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_node_that_dies_under_load_is_lost_at_most_once(ring, how):
    a, b, c = ring.at
    node = ring.start(a, ring.at)
    ring.start(b, ring.at)
    third = ring.start(c, ring.at)
    wait_for("three nodes", lambda: all(n.metrics()["weir_store_nodes"] == 3 for n in ring.nodes))
    third.daemon.signal(how)
    until = time.monotonic() + 6
    while time.monotonic() < until:
        for i in range(20):
            node.check(f"caller{i}")
    says(node, c, "is dead")
    wait_for("ready", lambda: node.readyz()[1] == "serving")
    # Stopped it may be dead before it is missed.
    assert len(node.said("store lost")) == len(node.said("store back")) <= 1, node.daemon.raw
