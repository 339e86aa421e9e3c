"""One store behind a proxy, two daemons under load, and a trouble: how any store is hurt, and what is looked at each time.
Promised: a `closed` limit never admits more than itself, an `open` one refuses nobody while the store is gone, a `local`
one admits at most itself once more; no request waits for longer than the deadline; the log says it once; the counters
say exactly what callers saw; and it recovers by itself."""
import contextlib
import signal
import time

from chaos_load import DEADLINE_MS, LONGEST_S, UNDER_WAY, UNITS, degraded, load, passed, refused, totals
from chaos_proxy import ChaosProxy
from flood import by_key
from serving import wait_for
from shared_nodes import Nodes


class Site:
    """What a trouble may hurt, and what it may cost. Each kind of store says its |kind|, as the log names it, and has a
    policy(mode, deadline)."""
    taken_off = 0  # units that are taken off the new count when the old one is lost

    def __init__(self, server):
        self.server = server
        self.proxy = ChaosProxy(("127.0.0.1", server.port))
        self.forgets = 0  # times that the counts were lost
        self.silent = False  # nobody may notice

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proxy.close()
        self.server.close()


@contextlib.contextmanager
def killed_and_restarted_empty(site):
    site.server.kill()
    yield
    site.server.start()
    site.forgets = 1


@contextlib.contextmanager
def paused(site):
    site.server.signal(signal.SIGSTOP)
    yield
    site.server.signal(signal.SIGCONT)


@contextlib.contextmanager
def delayed(site):
    site.proxy.delay = 2 * DEADLINE_MS / 1000
    yield
    site.proxy.delay = 0


@contextlib.contextmanager
def swallowed(site):
    site.proxy.swallow = True
    yield
    site.proxy.swallow = False


@contextlib.contextmanager
def reset_and_refused(site):
    site.proxy.refuse = True
    site.proxy.reset()
    yield
    site.proxy.refuse = False


@contextlib.contextmanager
def half_closed_again_and_again(site):
    for _ in range(5):
        site.proxy.half_close()
        time.sleep(0.2)
    yield


def holds_and_recovers(weir, tmp_path, site, trouble, mode, deadline=DEADLINE_MS):
    with Nodes(weir, tmp_path, 2, site.policy(mode, deadline)) as nodes, load(nodes) as flood:
        wait_for("a good part of the limits", lambda: passed(flood, "closed") > UNITS / 5)
        begin = time.time()
        with trouble(site):
            if not site.silent and trouble is not half_closed_again_and_again:
                for node in nodes:
                    node.daemon.event("store lost")
                    status, detail = node.readyz()
                    assert status == 200 and detail.startswith(f"serving, the store is gone: {site.kind}: "), detail
            time.sleep(0.5)
            end = time.time()
        for node in nodes:
            wait_for("the store is back", lambda: len(node.said("store back")) == len(node.said("store lost")))
            assert node.readyz() == (200, "serving")
        back = time.time()
        flood.hurry()
        wait_for("the closed limit is used up", lambda: refused(flood, "closed", back))
        wait_for("the local limit is used up", lambda: refused(flood, "local", back))
        answers = by_key(flood.stop())
        print(mode, totals(answers), f"slowest {flood.slowest():.3f}",
              [(len(n.said("store lost")), degraded(n)) for n in nodes])
        judge(answers, site, mode, begin, end)
        assert flood.slowest() < LONGEST_S
        counters(nodes, flood, site)


def judge(answers, site, mode, begin, end):
    total = totals(answers)
    allowance = UNDER_WAY * 4 + (UNITS / 4 if mode == "leased" else 0)
    if site.silent and not site.forgets:
        allowance = UNITS / 8 if mode == "leased" else 0
    most = UNITS + (UNITS + site.taken_off) * site.forgets
    assert UNITS - allowance <= total["closed"] <= most
    assert UNITS - allowance <= total["local"] <= most + UNITS  # once more: each node its half
    assert not any(said is False for sent, received, said in answers["open", "hot"] if begin <= sent and received <= end)


def counters(nodes, flood, site):
    closed = 0
    for node in nodes:
        how, gone = degraded(node)
        assert sum(how.values()) == gone
        assert (gone == 0) == site.silent
        assert len(node.said("store lost")) <= 1 + gone / 100
        closed += how["closed"]
    assert closed == sum(said is None for b in flood.batches for said in b.said)
