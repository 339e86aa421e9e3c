"""A ring in three network namespaces, of which one is cut off from the others, and all of them from each other: each side
counts for itself, so at most one limit more for each; it recovers by itself, and the counts are added up.

Who is silent for three beats of a second is dead to whoever waits for it, and a machine that stands still for that long is
silent: then a side falls apart as well. docs/distributed.md promises no more than one limit for each death, so the bounds
count those that no cable explains by what the nodes said of them; without any they are one for each side. Where the machine
ran all the time there may be none."""
import bisect
import contextlib
import time

import pytest

from chaos_load import COLD, DEADLINE_MS, HOT, LIMITS, LONGEST_S, UNITS, degraded, load, passed, refused, totals
from flood import by_key
from islands import ROOT, Islands
from serving import wait_for
from shared_nodes import Node, policy
from stalls import Watch

COUNT, PORT = 3, 7946
TOKEN = "a-token-of-some-length"


def text(islands, i, mode):
    peers = ", ".join(f'"{islands.inside(n)}:{PORT}"' for n in range(COUNT))
    return policy(1, *LIMITS, COLD, store=f"mode: {mode}", deadline=DEADLINE_MS, threads=2).replace(
        'redis: {url: "redis://127.0.0.1:1/0"}',
        f'ring: {{self: "{islands.inside(i)}:{PORT}", peers: [{peers}], password: secret}}').replace(
            "127.0.0.1:0", f"{islands.outside(i)}:0").replace("listen: {", f"listen: {{admin_token: {TOKEN}, ")


def deaths(node):
    return [e["node"] for e in node.said("ring") if e["change"] == "is dead"]


def settled(node, count):
    metrics = node.metrics()
    return metrics["weir_store_nodes"] == count and sum(
        v for k, v in metrics.items() if k.startswith("weir_ring_peer_up")) == count - 1


def settle(nodes, count):
    for node in nodes:
        wait_for(f"{count} nodes", lambda: settled(node, count))
        wait_for("it is well", lambda: node.readyz() == (200, "serving"))


@ROOT
@pytest.mark.parametrize("mode", ["strict", "leased"])
@pytest.mark.parametrize("cut", [[2], [0, 1, 2]], ids=["one", "all"])
def test_nodes_cut_off_from_each_other(weir, tmp_path, cut, mode):
    watch = Watch()
    with Islands(COUNT) as islands, contextlib.ExitStack() as stack:
        nodes = []
        for i in range(COUNT):
            nodes.append(Node(weir, tmp_path / f"weir{i}.yaml", text(islands, i, mode), wrap=islands.wrap(i)))
            nodes[-1].token = TOKEN
            stack.enter_context(contextlib.closing(nodes[-1]))
        settle(nodes, COUNT)
        flood = stack.enter_context(load(nodes))
        wait_for("a part of the limits", lambda: passed(flood, "closed") > UNITS / 5)
        begin = time.time()
        for i in cut:
            islands.pull(i)
        sides = [[i] for i in cut] + ([[i for i in range(COUNT) if i not in cut]] if len(cut) < COUNT else [])
        for side in sides:
            for i in side:
                dead = [f"{islands.inside(n)}:{PORT}" for n in range(COUNT) if n not in side]
                wait_for("the others are dead", lambda: set(deaths(nodes[i])) >= set(dead))
        end = time.time()
        for side in sides:
            settle([nodes[i] for i in side], len(side))
        for i in cut:
            islands.plug(i)
        settle(nodes, COUNT)
        back = time.time()
        flood.hurry()
        for limit in ("closed", "local"):
            wait_for(f"{limit} is used up", lambda: refused(flood, limit, back))
        answers = by_key(flood.stop())
        total = totals(answers)
        print(mode, total, f"slowest {flood.slowest():.3f}", [(len(n.said("store lost")), degraded(n)) for n in nodes])
        lost = 48 + (UNITS / 4 if mode == "leased" else 0)
        cut_off = [sum(len(side) for side in sides if i not in side) for i in range(COUNT)]
        unexplained = sum(len(deaths(node)) for node in nodes) - sum(cut_off)
        assert unexplained == 0 or watch.stood_still()
        assert UNITS - lost <= total["closed"] <= (len(sides) + unexplained) * UNITS
        assert UNITS - lost <= total["local"] <= (len(sides) + unexplained + 1) * UNITS
        taken = sorted(received for sent, received, said in answers["open", HOT] if said)
        # Who is refused at the cut must have met a side whose limit is used up: never before that much has passed.
        assert not any(said is False and bisect.bisect(taken, received) + 48 < UNITS
                       for sent, received, said in answers["open", HOT] if begin <= sent and received <= end)
        assert flood.slowest() < LONGEST_S
        for i, node in enumerate(nodes):
            how, gone = degraded(node)
            assert sum(how.values()) == gone
            assert len(node.said("store lost")) == len(node.said("store back")) <= 2 + gone / 100
            others = [e["change"] for e in node.said("ring")]
            assert others.count("is dead") >= cut_off[i]
            assert others.count("has joined") == COUNT - 1 + others.count("is dead")
        assert sum(degraded(n)[0]["closed"] for n in nodes) == sum(said is None for b in flood.batches for said in b.said)
