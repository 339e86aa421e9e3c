"""Alerts of a quota that three daemons share over one Redis: the threshold is of what all used, and one of them tells it;
when the store is gone it waits, and when a node is killed the others go on."""
import contextlib
import signal

from hook_receiver import Receiver, Shop, hook
from redis_servers import Redis, free_port
from serving import wait_for
from test_memcached import Memcached
from together import Together

CLAIMING, WAITING, SENT, DEAD, ELSEWHERE, TOLD = range(6)
LIMIT = ("name: monthly, shared: true, by: [customer], quota: {limit: 300, per: month, anchor: 15, alert_at: [50%, 80%, 100%]}")


class Fleet:
    """|store|: of each node, by its number."""

    def __init__(self, weir, folder, store, url, mode):
        self.weir, self.folder, self.nodes = weir, folder, []
        self.limits, self.store = (LIMIT + mode,), store
        self.hooks = hook(url)
        for i in range(3):
            (folder / f"node{i}").mkdir()
            self.nodes.append(self.start(i))

    def start(self, i):
        node = Shop(self.weir, self.folder / f"node{i}", self.hooks, self.limits, plans="{free: {}, pro: {}}",
                    more=f"store: {{{self.store(i)}, deadline: 5s}}\n")
        node.counts("weir_store_up", 1)  # what is decided before is nothing that the store knows
        return node

    def again(self, i):
        self.nodes[i] = self.start(i)

    def use(self, units):
        """In turns."""
        for i in range(units):
            assert self.nodes[i % 3].use(1) == "allow"

    def states(self):
        """{percent: the states it has on the three nodes, sorted}"""
        states = {}
        for node in self.nodes:
            for percent, state in node.rows("SELECT percent, state FROM alert WHERE state <> 0"):
                states.setdefault(percent, []).append(state)
        return {p: sorted(s) for p, s in states.items()}

    def settled(self):
        return all(not node.rows("SELECT 1 FROM alert_watch UNION SELECT 1 FROM alert WHERE state < 2") for node in self.nodes)

    def written(self, units):
        wait_for(f"{units} in the three ledgers", lambda: sum(
            node.rows("SELECT coalesce(sum(used), 0) FROM usage")[0][0] for node in self.nodes) == units)
        wait_for("all is settled", self.settled)

    def close(self):
        for node in self.nodes:
            node.close()


@contextlib.contextmanager
def fleets(weir, tmp_path, redis, receiver):
    made = []

    def start(mode="", store=lambda i: f'redis: {{url: "redis://127.0.0.1:{redis.port}/0"}}'):
        made.append(Fleet(weir, tmp_path, store, receiver.url, mode))
        return made[-1]
    try:
        yield start
    finally:
        for each in made:
            each.close()


at_once = Together(redis=lambda: Redis(), receiver=lambda: contextlib.closing(Receiver()), fleet=fleets)


def counted(fleet, percent):
    return sum(node.metric(f'weir_alerts_total{{quota="monthly",percent="{percent}"}}') for node in fleet.nodes)


@at_once
def test_one_event_a_threshold(fleet, receiver):
    """No node has used half of the quota itself."""
    nodes = fleet()
    nodes.use(149)
    nodes.written(149)
    assert receiver.requests == [] and nodes.states() == {}
    nodes.use(3)
    nodes.written(152)
    assert receiver.percents() == [50]
    nodes.use(148)
    nodes.written(300)
    assert receiver.percents() == [50, 80, 100]
    assert all(r["used"] <= 300 and r["used"] >= 3 * r["percent"] and r["limit"] == 300 for r in receiver.requests)
    assert len({r["event"] for r in receiver.requests}) == 3
    for percent, states in nodes.states().items():
        assert states.count(SENT) == 1 and set(states) <= {SENT, ELSEWHERE}, (percent, states)
    for percent in (50, 80, 100):
        wait_for("its metric", lambda p=percent: counted(nodes, p) == 1)


def all_at_once(nodes, receiver):
    """All three see all thresholds reached at once."""
    for node in nodes.nodes:
        assert node.use(100) == "allow"
    nodes.written(300)
    wait_for("they are told", lambda: len(receiver.percents()) >= 3)
    nodes.written(300)  # and nothing besides
    assert receiver.percents() == [50, 80, 100]


@at_once
def test_at_the_same_moment(fleet, receiver):
    all_at_once(fleet(), receiver)


@at_once
def test_over_memcached(fleet, receiver):
    with Memcached() as server:
        all_at_once(fleet(store=lambda i: f'memcached: {{servers: ["127.0.0.1:{server.port}"]}}'), receiver)


@at_once
def test_over_a_ring(fleet, receiver):
    peers = [f'"127.0.0.1:{free_port()}"' for _ in range(3)]
    nodes = fleet(store=lambda i: f'ring: {{self: {peers[i]}, peers: [{", ".join(peers)}], password: a-secret-of-the-ring}}')
    for node in nodes.nodes:
        wait_for("they count with each other", lambda: node.metric("weir_store_nodes") == 3)
    all_at_once(nodes, receiver)


@at_once
def test_killed_and_started_again(fleet, receiver):
    """Whoever is killed at any moment, each event has one name, and one node that tells it."""
    nodes = fleet()
    for step in range(9):
        nodes.use(30)
        nodes.nodes[step % 3].daemon.process.kill()
        nodes.nodes[step % 3].daemon.wait()
        nodes.again(step % 3)
    nodes.use(30)
    nodes.written(300)
    assert sorted({r["percent"] for r in receiver.requests}) == [50, 80, 100]
    assert len({r["event"] for r in receiver.requests}) == 3
    for percent, states in nodes.states().items():
        assert states.count(SENT) == 1, (percent, states)


@at_once
def test_while_the_store_is_gone_nothing_is_lost(fleet, receiver, redis):
    nodes = fleet(", when_store_gone: open")
    nodes.use(30)
    nodes.written(30)
    redis.signal(signal.SIGSTOP)
    assert nodes.nodes[0].use(140) == "allow"  # half of the quota is used by this node alone
    wait_for("it is written, and waits", lambda: nodes.nodes[0].rows(
        "SELECT 1 FROM alert_watch WHERE used = 150 AND next_at > 0"))
    nodes.nodes[0].daemon.process.kill()
    nodes.nodes[0].daemon.wait()
    assert receiver.requests == []
    redis.signal(signal.SIGCONT)
    nodes.again(0)
    nodes.written(170)
    assert receiver.percents() == [50] and receiver.requests[0]["used"] >= 150


@at_once
def test_leased(fleet, receiver):
    nodes = fleet(", store_mode: leased")
    nodes.use(270)
    nodes.written(270)
    assert receiver.percents() == [50, 80]
