"""The load of test_chaos_*.py: limits of each kind, a key that is hot and ever new ones, over connections to every node."""
import itertools
import os

import pytest

from flood import Flood, Lane
from serving import today
from shared_nodes import SLACK_S

DEADLINE_MS = 200
LONGEST_S = DEADLINE_MS / 1000 + SLACK_S
UNITS = 1000
HOT = "hot"
LANES, BATCH = 2, 8  # of each node
UNDER_WAY = 2 * LANES * BATCH
LIMITS = [f"name: {how}, rate: {UNITS}/day, algorithm: fixed-window, when_store_gone: {how}" for how in ("open", "closed", "local")]
COLD = "name: cold, rate: 5/day, when_store_gone: closed"


def troubles(which):
    """Parameters trouble and mode: each trouble in one mode, in turn; in both with WEIR_CHAOS=all, which takes minutes."""
    modes = ("strict", "leased")
    return pytest.mark.parametrize("trouble, mode", [
        pytest.param(trouble, mode, id=f"{trouble.__name__}-{mode}")
        for i, trouble in enumerate(which) for j, mode in enumerate(modes)
        if os.environ.get("WEIR_CHAOS") == "all" or i % 2 == j])


def questions(hot=HOT):
    for i in itertools.count():
        yield "closed", hot
        yield "local", hot
        yield "open", hot
        yield "cold", f"cold{i}"


def load(nodes, hot=HOT):
    """Its windows are of a day, and a test takes less than two minutes: none ends under it."""
    today(120)
    return Flood([Lane(node.daemon.address("resp"), questions(hot), batch=BATCH, pause=0.012)
                  for node in nodes for _ in range(LANES)])


def said_of(batches, limit, since=0):
    """What was said of the hot key."""
    return [said for b in list(batches) if b.sent >= since
            for (name, key), said in zip(b.asked, b.said) if name == limit and not key.startswith("cold")]


def passed(flood, limit, since=0):
    return said_of(flood.batches, limit, since).count(True)


def refused(flood, limit, since=0):
    return False in said_of(flood.batches, limit, since)


def totals(answers, hot=HOT):
    """{limit: how many passed}"""
    return {limit: sum(said is True for _, _, said in answers[limit, hot]) for limit in ("closed", "open", "local")}


def degraded(node):
    """{how: decisions}, of a limit each: (closed, open, local), and what the store did not answer."""
    metrics = node.metrics()
    return ({how: sum(v for k, v in metrics.items() if k.startswith("weir_degraded") and f'how="{how}"' in k)
             for how in ("closed", "open", "local")},
            sum(v for k, v in metrics.items() if k.startswith("weir_store_gone_total")))
