"""A ring whose nodes are found by a name, at a name server that changes its mind."""
import contextlib
import signal
import time

import pytest

from dns_server import NXDOMAIN, ROOT, SERVFAIL, NameServer
from redis_servers import free_port
from serving import wait_for
from shared_nodes import Node
from test_ring_trouble import changes, policy, says, shows
from together import Together

NAME = "weir.example"
pytestmark = ROOT


class Ring:
    """Nodes at 127.54.0.N, all at one port."""

    def __init__(self, weir, directory):
        self.weir, self.directory, self.port = weir, directory, free_port()
        self.dns = NameServer(directory)
        self.nodes = {}

    def address(self, number):
        return f"127.54.0.{number}"

    def id(self, number):
        return f"{self.address(number)}:{self.port}"

    def name(self, *numbers):
        self.dns.names[NAME] = [self.address(n) for n in numbers]

    def start(self, *numbers):
        for n in numbers:
            self.nodes[n] = Node(self.weir, self.directory / f"weir{n}.yaml", policy(self.id(n), f"{NAME}:{self.port}", name="dns"),
                                 wrap=self.dns.wrap())

    def settle(self, *numbers):
        for n in numbers:
            wait_for(f"{n} counts {len(numbers)}", lambda: self.nodes[n].metrics()["weir_store_nodes"] == len(numbers))

    def looked_up(self, times=1):
        """All nodes have asked anew."""
        before = self.dns.asked
        wait_for("it is asked again", lambda: self.dns.asked >= before + times * 2 * len(self.nodes))

    def close(self):
        for node in self.nodes.values():
            node.daemon.process.kill()
            node.daemon.process.wait()
        self.dns.close()


at_once = Together(ring=lambda weir, tmp_path: contextlib.closing(Ring(weir, tmp_path)))


def peers(node):
    return {k.split('"')[1] for k in node.metrics() if k.startswith("weir_ring_peer_up")}


def remaining(node, key):
    return node.check(key)["remaining"]


@at_once
def test_a_name_that_changes_while_they_run(ring):
    ring.name(1, 2)
    ring.start(1, 2)
    ring.settle(1, 2)
    keys = [f"caller{i}" for i in range(20)]
    for key in keys:
        assert remaining(ring.nodes[1], key) == 99_999
        assert remaining(ring.nodes[2], key) == 99_998
    # A third one is named, and starts.
    ring.name(1, 2, 3)
    ring.start(3)
    ring.settle(1, 2, 3)
    for key in keys:
        assert remaining(ring.nodes[3], key) == 99_997
    for node in ring.nodes.values():
        assert node.readyz() == (200, "serving")
        assert not [e for e in node.said("ring") if "not in our list" in e["change"]]
    # The first one ends, and its name goes after it.
    assert ring.nodes.pop(1).end() == 0
    ring.settle(2, 3)
    ring.name(2, 3)
    wait_for("it is forgotten", lambda: peers(ring.nodes[2]) == {ring.id(3)} and peers(ring.nodes[3]) == {ring.id(2)})
    for key in keys:
        assert remaining(ring.nodes[2], key) == 99_996
        assert remaining(ring.nodes[3], key) == 99_995
    assert [n.readyz() for n in ring.nodes.values()] == [(200, "serving")] * 2


@at_once
def test_who_hears_late_who_the_others_are_joins_them_all_the_same(ring):
    """Not ready for want of others that would have to hand over: its keys are with those."""
    ring.name(1, 2)
    ring.start(1, 2)
    ring.settle(1, 2)
    keys = [f"caller{i}" for i in range(20)]
    for key in keys:
        assert remaining(ring.nodes[1], key) == 99_999
    ring.dns.trouble = "silent"
    ring.name(1, 2, 3)
    ring.start(3)
    time.sleep(3)  # some beats
    ring.dns.trouble = None
    ring.settle(1, 2, 3)
    for key in keys:
        assert remaining(ring.nodes[3], key) == 99_998


@at_once
def test_a_name_that_does_not_resolve_at_first(ring):
    ring.start(1, 2)
    for node in ring.nodes.values():
        says(node, NAME, "does not resolve")
        shows(node, "its dns does not resolve: this node counts alone")
        assert remaining(node, "caller") == 99_999  # each counts alone
    ring.name(1, 2)
    ring.settle(1, 2)
    for node in ring.nodes.values():
        says(node, NAME, "resolves")
        wait_for("it is well", lambda: node.readyz() == (200, "serving"))
    wait_for("both counts are one", lambda: remaining(ring.nodes[1], "caller") == remaining(ring.nodes[2], "caller") + 1)
    assert [c.split(":")[0] for c in changes(ring.nodes[1], NAME)] == ["does not resolve", "resolves"]


@pytest.mark.parametrize("trouble", [SERVFAIL, NXDOMAIN, "silent", "empty"])
@at_once
def test_a_name_server_that_fails_removes_nobody(ring, trouble):
    ring.name(1, 2)
    ring.start(1, 2)
    ring.settle(1, 2)
    if trouble == "empty":
        ring.name()
    else:
        ring.dns.trouble = trouble
    for node in ring.nodes.values():
        says(node, NAME, "does not resolve")
    ring.looked_up()
    for i, node in enumerate(ring.nodes.values()):
        assert node.metrics()["weir_store_nodes"] == 2
        assert remaining(node, "caller") == 99_999 - i
        assert node.readyz() == (200, "serving")
    ring.dns.trouble = None
    ring.name(1, 2, 3)
    for node in ring.nodes.values():
        wait_for("it resolves", lambda: changes(node, NAME)[-1] == "resolves")
    ring.start(3)
    ring.settle(1, 2, 3)
    assert remaining(ring.nodes[3], "caller") == 99_997


@at_once
def test_a_node_whose_name_goes_while_it_runs(ring):
    """The others count its keys from nothing; it is said that it is not in the list when that is not just new."""
    ring.name(1, 2, 3)
    ring.start(1, 2, 3)
    ring.settle(1, 2, 3)
    ring.name(1, 2)
    for n in (1, 2):
        wait_for("it is forgotten", lambda: len(peers(ring.nodes[n])) == 1)
    wait_for("two", lambda: all(ring.nodes[n].metrics()["weir_store_nodes"] == 2 for n in (1, 2)))
    for key in (f"caller{i}" for i in range(20)):
        assert remaining(ring.nodes[1], key) == 99_999
        assert remaining(ring.nodes[2], key) == 99_998
    time.sleep(10)  # it is said after 15
    says(ring.nodes[1], ring.id(3), "says hello and is not in our list")
    shows(ring.nodes[1], "says hello and is not in our list")


@at_once
def test_an_end_while_the_name_server_says_nothing(ring):
    """Nobody waits for libc's resolver, which gives it half a minute for each try."""
    ring.dns.file.write_text(f"nameserver {ring.dns.address}\noptions timeout:30 attempts:2\n")
    ring.name(1, 2)
    ring.start(1, 2)
    ring.settle(1, 2)
    ring.dns.trouble = "silent"
    ring.looked_up()
    for node in ring.nodes.values():
        node.daemon.signal(signal.SIGTERM)
    assert [node.daemon.wait() for node in ring.nodes.values()] == [0, 0]
