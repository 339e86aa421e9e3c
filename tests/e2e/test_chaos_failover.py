"""Two daemons under load while Sentinel promotes a replica, and on a Redis Cluster whose slots move and whose primary
dies. Promised: a move costs nobody anything; a failover lets at most so much pass again as the replica had not heard
of; meanwhile each limit does what it says, and it recovers by itself."""
import time

import pytest

from chaos_load import COLD, DEADLINE_MS, HOT, LIMITS, LONGEST_S, UNDER_WAY, UNITS, degraded, load, passed, refused, totals
from flood import by_key
from redis_servers import Cluster, need
from serving import wait_for
from shared_nodes import Nodes, policy
from test_redis_sentinel import Fleet

MODES = pytest.mark.parametrize("mode", ["strict", "leased"])


def text(where, mode, deadline=DEADLINE_MS):
    whole = policy(1, *LIMITS, COLD, deadline=deadline, store=f"mode: {mode}, nodes: 2")
    return whole.replace('redis: {url: "redis://127.0.0.1:1/0"}', f"redis: {{{where}}}")


def addresses(servers):
    return "[" + ", ".join(f'"127.0.0.1:{s.port}"' for s in servers) + "]"


def counted(nodes):
    """By each other: what `local` divides by. They look every 5 s."""
    wait_for("both are counted", lambda: all(node.metrics()["weir_store_nodes"] == 2 for node in nodes))


def used_up(flood, since, hot=HOT):
    for limit in ("closed", "local", "open"):
        wait_for(f"{limit} is used up", lambda: refused(flood, limit, since))
    return by_key(flood.stop())


def fails_over(nodes, flood, mode, kill, hot=HOT):
    """Kill the primary, wait for the next: what was promised?"""
    wait_for("a good part of the limits", lambda: passed(flood, "closed") > UNITS / 5)
    begin = time.time()
    kill()
    for node in nodes:
        node.daemon.event("store lost")
    lost = time.time()
    for node in nodes:
        node.daemon.event("store back")
    back = time.time()
    answers = used_up(flood, back, hot)
    total = totals(answers, hot)
    print(mode, total, f"slowest {flood.slowest():.3f}, back after {back - begin:.1f} s", [degraded(n) for n in nodes],
          [[(e["time"], e.get("reason")) for e in n.said("store lost")] for n in nodes])
    again = UNDER_WAY * 2 + (UNITS / 4 if mode == "leased" else 0)  # not replicated, or not told
    assert UNITS - again <= total["closed"] <= UNITS + again
    assert total["local"] <= 2 * UNITS + again
    assert not any(said is False for sent, received, said in answers["open", hot] if lost <= sent and received <= back - 1)
    assert flood.slowest() < LONGEST_S
    for node in nodes:
        assert len(node.said("store lost")) == len(node.said("store back")) <= 2
        how, gone = degraded(node)
        assert sum(how.values()) == gone > 0
        assert node.readyz() == (200, "serving")


@MODES
def test_sentinel_promotes_a_replica_under_load(weir, tmp_path, mode):
    need("redis-server")
    with Fleet() as fleet:
        where = f"sentinel: {{master: main, nodes: {addresses(fleet.settled().sentinels)}}}"
        with Nodes(weir, tmp_path, 2, text(where, mode)) as nodes:
            counted(nodes)
            with load(nodes) as flood:
                fails_over(nodes, flood, mode, fleet.primary.kill)


@pytest.fixture(scope="module")
def cluster():
    need("redis-server")
    with Cluster() as cluster:
        yield cluster


def hot_at(cluster, node, primary):
    """A new caller whose units lie at that primary, and his slot."""
    for i in range(100):
        hot, before = f"{HOT}{time.time()}", set(primary("KEYS", "*:closed:*"))
        assert node.resp("WEIR.CHECK", "closed", hot)[0] == 1
        new = set(primary("KEYS", "*:closed:*")) - before
        if new:
            return hot, primary("CLUSTER", "KEYSLOT", new.pop())
    raise AssertionError("a hundred callers, none of them there")


@MODES
def test_a_slot_migrates_under_load(weir, tmp_path, cluster, mode):
    where = f"cluster: {addresses(cluster.primaries)}"
    a, b, c = cluster.primaries
    with Nodes(weir, tmp_path, 2, text(where, mode, deadline=5000)) as nodes:
        hot, slot = hot_at(cluster, nodes[0], a)
        with load(nodes, hot) as flood:
            wait_for("a part of the limits", lambda: passed(flood, "closed") > UNITS / 10)
            for source, target in ((a, b), (b, c), (c, a)):
                for _ in cluster.move(slot, source, target):
                    time.sleep(0.05)
            total = totals(used_up(flood, 0, hot), hot)
            print(mode, total, f"slowest {flood.slowest():.3f}", [degraded(n) for n in nodes])
        assert all(sum(p.errors(code) for p in cluster.primaries) > 0 for code in ("ASK", "MOVED"))
        lost = UNITS / 8 if mode == "leased" else 0
        first = {"closed": 1}  # by which he was found
        assert all(UNITS - lost <= units + first.get(limit, 0) <= UNITS for limit, units in total.items())
        assert [degraded(node)[1] for node in nodes] == [0, 0]


@MODES
def test_a_primary_is_killed_under_load(weir, tmp_path, cluster, mode):
    where = f"cluster: {addresses([*cluster.primaries, cluster.replica])}"
    primary = next(n for n in (cluster.primaries[0], cluster.replica) if n.process and "role:master" in n("INFO", "replication"))
    other = cluster.replica if primary is cluster.primaries[0] else cluster.primaries[0]
    with Nodes(weir, tmp_path, 2, text(where, mode)) as nodes:
        counted(nodes)
        hot, _ = hot_at(cluster, nodes[0], primary)
        with load(nodes, hot) as flood:
            try:
                fails_over(nodes, flood, mode, primary.kill, hot)
            finally:
                primary.start()  # as the replica of the one that took over, for the next test
    wait_for("both again", lambda: "master_link_status:up" in primary("INFO", "replication"))
    assert "role:master" in other("INFO", "replication")
