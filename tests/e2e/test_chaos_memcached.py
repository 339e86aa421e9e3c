"""Two daemons under load and one memcached that is hurt in every way, strict and leased: what test_chaos_redis.py looks
at. Memcached forgets when it restarts, and what was refused around that moment is taken off the new count."""
import contextlib
import signal
import time

from chaos_load import COLD, DEADLINE_MS, LIMITS, LONGEST_S, UNDER_WAY, UNITS, degraded, load, passed, refused, totals, troubles
from chaos_proxy import ChaosProxy
from flood import by_key
from serving import wait_for
from shared_nodes import Nodes, policy
from test_chaos_redis import delayed, half_closed_again_and_again, reset_and_refused, swallowed
from test_memcached import Memcached


class Site:
    def __init__(self):
        self.server = Memcached()
        self.proxy = ChaosProxy(("127.0.0.1", self.server.port))
        self.forgets = 0
        self.silent = False

    def policy(self, mode):
        text = policy(self.proxy.port, *LIMITS, COLD, deadline=DEADLINE_MS, store=f"mode: {mode}, nodes: 2")
        return text.replace(f'redis: {{url: "redis://127.0.0.1:{self.proxy.port}/0"}}',
                            f'memcached: {{servers: ["127.0.0.1:{self.proxy.port}"]}}')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proxy.close()
        self.server.kill()


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
def flushed(site):
    """It answers all the while, and has forgotten."""
    site.silent, site.forgets = True, 1
    assert site.server.ask("flush_all\r\n") == "OK\r\n"
    yield


TROUBLES = [killed_and_restarted_empty, paused, flushed, delayed, swallowed, reset_and_refused, half_closed_again_and_again]


@troubles(TROUBLES)
def test_what_was_promised_holds_and_it_recovers(weir, tmp_path, trouble, mode):
    with Site() as site, Nodes(weir, tmp_path, 2, site.policy(mode)) as nodes, load(nodes) as flood:
        wait_for("a good part of the limits", lambda: passed(flood, "closed") > UNITS / 5)
        begin = time.time()
        with trouble(site):
            if not site.silent and trouble is not half_closed_again_and_again:
                for node in nodes:
                    node.daemon.event("store lost")
                    assert node.readyz()[0] == 200
                    assert node.readyz()[1].startswith("serving, the store is gone: memcached: ")
            time.sleep(0.5)
            end = time.time()
        for node in nodes:
            wait_for("the store is back", lambda: len(node.said("store back")) == len(node.said("store lost")))
            assert node.readyz() == (200, "serving")
        back = time.time()
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
    most = UNITS * (1 + site.forgets) + (UNDER_WAY if site.forgets else 0)
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
