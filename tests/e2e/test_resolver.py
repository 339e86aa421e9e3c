"""Stores that are found by a name, while the resolver takes its time: nobody waits for it, and what it says is heard."""
import contextlib

import pytest

from dns_server import ROOT, NameServer
from redis_servers import Redis
from serving import wait_for
from shared_nodes import POLICY, Node
from test_memcached import Memcached
from together import Together

NAME = "store.example"
SILENT_S = 30  # what the resolver allows itself for each of its tries: more than anything here may take
pytestmark = ROOT

STORES = {
    "redis": 'redis: {{url: "redis://{name}:{port}/0"}}',
    "sentinel": 'redis: {{sentinel: {{master: main, nodes: ["{name}:{port}", "other.example:{port}"]}}}}',
    "cluster": 'redis: {{cluster: ["{name}:{port}"]}}',
    "memcached": 'memcached: {{servers: ["{name}:{port}"]}}',
    "ring": 'ring: {{self: "127.0.0.1:{own}", dns: "{name}:{own}"}}',
    "peers": 'ring: {{self: "127.0.0.1:{own}", peers: ["127.0.0.1:{own}", "{name}:{own}"], password: secret}}',
}


def policy(store, port=1, own=1, deadline=100):
    text = POLICY.format(port=1, deadline=deadline, store="", threads=4,
                         limits="  - {name: shared, shared: true, by: [api_key], rate: 1000/day, when_store_gone: closed}\n")
    begin = text.index("store:")
    where = STORES[store].format(name=NAME, port=port, own=own)
    return text[:begin] + f"store: {{{where}, deadline: {deadline}ms}}\n" + text[text.index("limits:"):]


@contextlib.contextmanager
def name_server(tmp_path):
    with NameServer(tmp_path) as server:
        server.file.write_text(f"nameserver {server.address}\noptions timeout:{SILENT_S} attempts:3\n")
        yield server


@contextlib.contextmanager
def starter(weir, tmp_path, dns):
    nodes = []

    def start(text):
        nodes.append(Node(weir, tmp_path / "weir.yaml", text, wrap=dns.wrap()))
        return nodes[-1]
    try:
        yield start
    finally:
        for node in nodes:
            node.close()


at_once = Together(dns=name_server, start=starter)


@pytest.mark.parametrize("store", STORES)
@at_once
def test_an_end_does_not_wait_for_it(start, dns, free_port, store):
    dns.trouble = "silent"
    node = start(policy(store, own=free_port))
    wait_for("it is asked", lambda: dns.asked > 0)
    node.check()
    assert node.end() == 0


@at_once
def test_a_ring_says_that_its_name_is_not_known_yet(start, dns, free_port):
    dns.trouble = "silent"
    node = start(policy("ring", own=free_port))
    wait_for("it is said", lambda: "its dns has not been answered yet: this node counts alone" in node.readyz()[1])
    assert node.check()["verdict"] == "allow"


@pytest.mark.parametrize("store", ["redis", "memcached"])
@at_once
def test_a_name_that_takes_longer_than_anybody_waits(start, dns, store):
    """1.5 s, where a connection waits for one: the answer is for the next attempt."""
    dns.names[NAME] = ["127.0.0.1"]
    dns.delay = 1.5
    with Redis() if store == "redis" else Memcached() as server:
        node = start(policy(store, port=server.port, deadline=1000))
        wait_for("the store decides", lambda: node.check()["verdict"] == "allow")
        wait_for("it is up", lambda: node.metrics()["weir_store_up"] == 1)
