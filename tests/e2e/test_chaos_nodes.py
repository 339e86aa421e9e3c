"""Nodes that are killed with leases in hand, drained, whose clocks are an hour apart, or that are cut off from the
store: never more than the limit, and no more lost than was said."""
import contextlib
import os
import signal
import subprocess
import time

import pytest

from chaos_load import COLD, DEADLINE_MS, LIMITS, LONGEST_S, UNITS, degraded, load, passed, refused, totals
from flood import Flood, Lane, by_key
from redis_servers import Redis, need
from serving import wait_for
from shared_nodes import Node, Nodes, policy

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="not root: namespaces cannot be made")
MODES = pytest.mark.parametrize("mode", ["strict", "leased"])
HOUR = 3600
TOKEN = "a-token-of-some-length"


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


def text(port, mode, **more):
    return policy(port, *LIMITS, COLD, store=f"mode: {mode}, nodes: 2", **more)


def run_out(flood, since=0):
    flood.hurry()
    for limit in ("closed", "local", "open"):
        wait_for(f"{limit} is used up", lambda: refused(flood, limit, since))
    return by_key(flood.stop())


@MODES
def test_daemons_killed_with_leases_in_hand(weir, tmp_path, redis, mode):
    """Each strands what it holds; the others go on without noticing."""
    with Nodes(weir, tmp_path, 3, text(redis.port, mode, deadline=5000)) as nodes, load(nodes) as flood:
        for i in range(2):
            wait_for("a part of the limits", lambda: passed(flood, "closed") > UNITS * (i + 1) / 5)
            nodes[i].daemon.signal(signal.SIGKILL)
            nodes[i].daemon.wait()
        answers = run_out(flood, time.time())
        total = totals(answers)
        print(mode, total, len(flood.lost))
        assert len(flood.lost) == 4  # connections of two nodes; the third one's never broke
        # Of a killed node: what it held, an eighth at most; and what it had decided and not told, a batch a connection.
        lost = 4 * 8 + (2 * UNITS / 8 if mode == "leased" else 0)
        assert all(UNITS - lost <= units <= UNITS for units in total.values())
        assert degraded(nodes[2])[1] == 0


def test_drained_daemons_leave_nothing_behind(weir, tmp_path, redis):
    """Two of three end under load, one after the other: every unit is admitted by somebody."""
    with Nodes(weir, tmp_path, 3, text(redis.port, "leased", deadline=5000)) as nodes:
        floods = [load([node]) for node in nodes]
        for i in range(2):
            wait_for("a part of the limits", lambda: sum(passed(f, "closed") for f in floods) > UNITS * (i + 1) / 5)
            floods[i].stop()
            assert nodes[i].daemon.end() == 0
        run_out(floods[2], time.time())
        total = totals(by_key(b for f in floods for b in f.batches))
        assert set(total.values()) == {UNITS}


@ROOT
@MODES
def test_clocks_an_hour_apart(weir, tmp_path, redis, mode):
    """In a time namespace the boot was an hour earlier, so that a daemon's clock, which goes by the time since then, is
    an hour ahead of the one that made the arena. The store's clock counts."""
    limits = ["name: minute, rate: 300/minute, algorithm: fixed-window", "name: bucket, rate: 100/second burst 300"]
    with contextlib.ExitStack() as stack:
        nodes = []
        for i, ahead in enumerate((0, HOUR)):
            arena = tmp_path / f"arena{i}"
            whole = policy(redis.port, *limits, store=f"mode: {mode}, nodes: 2", deadline=5000).replace(
                "arena: {size: 4MiB}", f'arena: {{path: "{arena}", size: 4MiB}}')
            if ahead:
                with contextlib.closing(Node(weir, tmp_path / "first.yaml", whole)) as first:
                    assert first.daemon.end() == 0  # it leaves its arena
            wrap = ("unshare", "--time", "--boottime", str(ahead)) if ahead else ()
            nodes.append(stack.enter_context(contextlib.closing(Node(weir, tmp_path / f"node{i}.yaml", whole, wrap=wrap))))
        told = [node.resp("TIME") for node in nodes]
        assert HOUR - 60 < int(told[1][0]) - int(told[0][0]) < HOUR + 60, told
        wait_for("a minute with half of it to come", lambda: time.time() % 60 < 40)
        flood = stack.enter_context(Flood([Lane(node.daemon.address("resp"), [("minute", "hot"), ("bucket", "hot")] * 1000, pause=0.03)
                                           for node in nodes]))
        answers = by_key(flood.join())
        first = min(b.sent for b in flood.batches)
        last = max(b.received for b in flood.batches)
        assert first // 60 == last // 60, "a slow machine"
        minute, bucket = (sum(bool(said) for _, _, said in answers[limit, "hot"]) for limit in ("minute", "bucket"))
        print(mode, minute, bucket, f"{last - first:.1f} s")
        lost = 1 / 8 if mode == "leased" else 0
        assert 300 * (1 - lost) <= minute <= 300
        assert 300 * (1 - 2 * lost) + 100 * (last - first - 0.5) * (1 - lost) <= bucket <= 300 + 100 * (last - first)


# ---- cut off ----------------------------------------------------------------------------------------------

def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True)


class Island:
    """A network namespace with two cables to the outside: one to its callers, one to the store, which can be pulled."""

    def __init__(self, number):
        self.name, self.cables = f"weir{number}", (f"wc{number}", f"ws{number}")
        self.net = number % 250 + 1
        ip("netns", "add", self.name)
        try:
            for kind, cable in enumerate(self.cables):
                ip("link", "add", cable, "type", "veth", "peer", "name", "eth%d" % kind, "netns", self.name)
                ip("addr", "add", f"{self.address(kind, 1)}/24", "dev", cable)
                ip("link", "set", cable, "up")
                ip("-n", self.name, "addr", "add", f"{self.address(kind, 2)}/24", "dev", f"eth{kind}")
                ip("-n", self.name, "link", "set", f"eth{kind}", "up")
        except BaseException:
            self.close()
            raise

    def address(self, kind, end):
        return f"10.{211 + kind}.{self.net}.{end}"

    def pull(self):
        ip("link", "set", self.cables[1], "down")

    def plug(self):
        ip("link", "set", self.cables[1], "up")

    def wrap(self):
        return "ip", "netns", "exec", self.name

    def close(self):
        subprocess.run(["ip", "netns", "del", self.name], check=False)


@ROOT
@MODES
def test_a_node_is_cut_off_from_the_store(weir, tmp_path, mode):
    """Packets vanish, both ways; the other node never notices."""
    need("ip")
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(Redis("--bind", "0.0.0.0", "--protected-mode", "no"))
        islands = [stack.enter_context(contextlib.closing(Island(redis.port + i))) for i in range(2)]
        nodes = []
        for i, island in enumerate(islands):
            own = text(redis.port, mode, deadline=DEADLINE_MS).replace("127.0.0.1:0", f"{island.address(0, 2)}:0").replace(
                "redis://127.0.0.1", f"redis://{island.address(1, 1)}").replace(
                    "listen: {", f"listen: {{admin_token: {TOKEN}, ")
            node = Node(weir, tmp_path / f"node{i}.yaml", own, wrap=island.wrap())
            node.token = TOKEN
            nodes.append(stack.enter_context(contextlib.closing(node)))
        flood = stack.enter_context(load(nodes))
        wait_for("a part of the limits", lambda: passed(flood, "closed") > UNITS / 5)
        islands[0].pull()
        nodes[0].daemon.event("store lost")
        assert nodes[0].readyz()[1].startswith("serving, the store is gone: redis: ")
        time.sleep(0.5)
        islands[0].plug()
        nodes[0].daemon.event("store back")
        answers = run_out(flood, time.time())
        total = totals(answers)
        print(mode, total, f"slowest {flood.slowest():.3f}", [degraded(n) for n in nodes])
        lost = 32 + (UNITS / 4 if mode == "leased" else 0)
        assert UNITS - lost <= total["closed"] <= UNITS
        assert total["local"] <= 2 * UNITS
        assert flood.slowest() < LONGEST_S
        assert len(nodes[0].said("store lost")) == len(nodes[0].said("store back"))
        how, gone = degraded(nodes[0])
        assert sum(how.values()) == gone > 0
        assert degraded(nodes[1])[1] == 0
        assert how["closed"] == sum(said is None for b in flood.batches for said in b.said)
