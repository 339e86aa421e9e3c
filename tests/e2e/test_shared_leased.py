"""Shared limits, leased: nodes spend what the store granted them in advance. Never more than the limit, and nearly
all of it; few commands for many decisions."""
import contextlib
import signal
import threading
import time

import pytest

from redis_servers import Redis, free_port
from serving import wait_for
from shared_nodes import KEY, Node, Nodes, all_at_once, policy, send_resp
from test_memcached import Memcached

UNITS = 4000
ALGORITHMS = ["token-bucket", "fixed-window", "sliding-window"]


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


def text(redis, algorithm="fixed-window", units=UNITS, **more):
    return policy(redis.port, f"name: shared, rate: {units}/day, algorithm: {algorithm}", store="mode: leased", **more)


def pipeline(node, count, batch=50, key=KEY, limit="shared"):
    """|count| checks over RESP, |batch| at a time: how many passed."""
    passed = 0
    s = send_resp(node.daemon.address("resp"))
    file = s.makefile("rb")
    for _ in range(count // batch):
        one = b"*3\r\n$10\r\nWEIR.CHECK\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(limit), limit.encode(), len(key), key.encode())
        s.sendall(one * batch)
        for _ in range(batch):
            lines = [file.readline() for _ in range(7)]
            assert lines[0] == b"*6\r\n", lines
            passed += lines[1] == b":1\r\n"
    s.close()
    return passed


def total(nodes, series):
    return sum(node.metrics()[series] for node in nodes)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_three_nodes_admit_nearly_the_limit_and_never_more(weir, tmp_path, redis, algorithm):
    with Nodes(weir, tmp_path, 3, text(redis, algorithm)) as nodes:
        passed = all_at_once(*(lambda node=node: pipeline(node, 3000) for node in nodes for _ in range(2)))
        assert passed <= UNITS
        # A token bucket keeps what could be spent twice back, here a unit; leases of nodes that asked last lie idle.
        assert passed >= UNITS * 7 // 8
        decisions, calls = 18_000, total(nodes, "weir_store_calls_total")
        assert calls < decisions / 10
        # What is stranded is void after a second and stays counted: nothing passes that was not granted.
        granted = total(nodes, 'weir_lease_units_total{what="granted"}')
        spent = total(nodes, 'weir_lease_units_total{what="spent"}')
        assert 0 < spent <= granted
        assert spent <= passed
        time.sleep(1.2)
        passed += all_at_once(*(lambda node=node: pipeline(node, 500) for node in nodes))
        assert passed <= UNITS


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_callers_are_told_what_the_store_says(weir, tmp_path, redis, algorithm):
    """Not how long the node remembers it: retry, reset and remaining count down from answer to answer."""
    with Nodes(weir, tmp_path, 1, text(redis, algorithm, units=400)) as nodes:
        node = nodes[0]
        left, resets = [], []
        for _ in range(100):
            code, _, remaining, _, reset, _ = node.resp("WEIR.CHECK", "shared", KEY)
            assert code == 1
            left.append(remaining)
            resets.append(reset)
        assert all(a > b for a, b in zip(left, left[1:])), left
        assert left[0] >= 398 and left[-1] >= 250  # a lease that ended on a slow machine is gone
        assert node.metrics()["weir_store_calls_total"] < 90  # leases let some of them through
        assert min(resets) >= 200_000  # a unit of the bucket comes back in 216 s
        pipeline(node, 500)
        start, first = time.monotonic(), None
        for _ in range(9):
            code, _, remaining, retry, reset, _ = node.resp("WEIR.CHECK", "shared", KEY)
            passes = time.monotonic() - start + retry / 1000
            first = first or passes
            assert (code, remaining) == (0, 0)
            assert reset >= retry
            assert abs(passes - first) < 0.5, (passes, first)
            time.sleep(0.25)
        assert first > 100


def test_a_cold_key_is_strict(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 2, text(redis)) as nodes:
        for i in range(30):
            assert nodes[i % 2].check(key=f"cold{i}")["remaining"] == UNITS - 1
        assert total(nodes, 'weir_lease_units_total{what="granted"}') == 0


def test_many_who_need_a_lease_ask_once(weir, tmp_path, redis):
    """Forty connections of one loop and one hot key: one question at a time, not forty."""
    with Nodes(weir, tmp_path, 1, text(redis, units=1_000_000)) as nodes:
        node = nodes[0]
        pipeline(node, 500)
        before = node.metrics()
        passed = all_at_once(*[lambda: pipeline(node, 200, batch=20)] * 40)
        assert passed == 8000
        asked = node.metrics()["weir_store_calls_total"] - before["weir_store_calls_total"]
        assert asked < 800  # 400 rounds of 20, if each asked once for itself alone it would be 8000


def test_leases_between_what_the_store_decides(weir, tmp_path, redis):
    """In one write, checks that a lease decides and commands that the store is asked for: answered in order."""
    with Nodes(weir, tmp_path, 1, text(redis, units=1_000_000)) as nodes:
        node = nodes[0]
        assert pipeline(node, 2000) == 2000
        reserve = ("WEIR.RESERVE", "shared", KEY, "1", "60000")
        check, look, ping = ("WEIR.CHECK", "shared", KEY), ("WEIR.PEEK", "shared", KEY), ("PING",)
        names = [check] * 3 + [reserve] + [check] * 2 + [look, ping] + [check] * 4 + [reserve, check, look]
        for _ in range(20):
            s = send_resp(node.daemon.address("resp"), *names)
            file = s.makefile("rb")
            for name in names:
                head = file.readline()
                if name is ping:
                    assert head == b"+PONG\r\n"
                    continue
                assert head == (b"*7\r\n" if name is reserve else b"*6\r\n")
                numbers = [int(file.readline()[1:]) for _ in range(6)]
                assert numbers[:2] == [1, 1_000_000] and 0 <= numbers[2] < 1_000_000
                assert numbers[3] == 0 and numbers[5] == 0
                if name is reserve:
                    assert file.readline().startswith(b"$") and len(file.readline()) > 8
            s.close()


def test_drained_nodes_give_their_leases_back(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 2, text(redis)) as nodes:
        a, b = nodes
        passed = pipeline(a, 1000)
        assert passed == 1000
        held = a.metrics()
        assert held['weir_lease_units_total{what="granted"}'] > held['weir_lease_units_total{what="spent"}']
        assert a.daemon.end() == 0
        assert b.resp("WEIR.PEEK", "shared", KEY)[2] == UNITS - 1000


def test_killed_nodes_strand_what_they_hold_and_no_more(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 2, text(redis)) as nodes:
        a, b = nodes
        passed = pipeline(a, 1000)
        a.daemon.signal(signal.SIGKILL)
        a.daemon.wait()
        left = b.resp("WEIR.PEEK", "shared", KEY)[2]
        assert UNITS - passed - UNITS // 8 <= left <= UNITS - passed
        passed += pipeline(b, 5000)
        assert passed <= UNITS


def test_with_the_store_gone_leases_are_spent_and_then_it_is_local(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 1, text(redis, units=10_000, deadline=100)) as nodes:
        node = nodes[0]
        assert pipeline(node, 1000) == 1000
        redis.signal(signal.SIGSTOP)
        stopped, slowest = threading.Event(), [0]

        def load():
            mine = Node.__new__(Node)
            mine.daemon, mine.web = node.daemon, None
            while not stopped.is_set():
                begin = time.monotonic()
                assert mine.check()["verdict"] == "allow"
                slowest[0] = max(slowest[0], time.monotonic() - begin)
            return 0

        def act():
            time.sleep(1)
            redis.signal(signal.SIGCONT)
            node.daemon.event("store back")
            stopped.set()
            return 0

        all_at_once(act, *[load] * 4)
        assert slowest[0] < 1.1
        assert len(node.said("store lost")) == 1
        wait_for("leases again", lambda: pipeline(node, 100) and node.metrics()["weir_store_up"] == 1)


def test_settle_and_reset_of_a_leased_limit(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 2, text(redis)) as nodes:
        a, b = nodes
        got = a.resp("WEIR.RESERVE", "shared", KEY, 100, 60_000)
        assert b.resp("WEIR.PEEK", "shared", KEY)[2] == UNITS - 100
        assert a.resp("WEIR.SETTLE", got[6], 40) == "OK"
        wait_for("what is over", lambda: b.resp("WEIR.PEEK", "shared", KEY)[2] == UNITS - 40)
        pipeline(a, 500)
        assert a.resp("WEIR.RESET", "shared", KEY) == 1
        wait_for("all of it", lambda: b.resp("WEIR.PEEK", "shared", KEY)[2] == UNITS)


BOUGHT = 1600


def quota(kind, port):
    text = policy(port, f"name: shared, quota: {{limit: {BOUGHT}, per: month, zone: Asia/Tokyo}}", store="mode: leased")
    return text.replace('redis: {url: "redis://127.0.0.1:%d/0"}' % port, kind) if kind else text


def stores():
    yield "redis", Redis, None
    yield "memcached", Memcached, lambda server: f'memcached: {{servers: ["127.0.0.1:{server.port}"]}}'
    yield "ring", None, lambda _: 'ring: {self: "127.0.0.1:%d", peers: ["127.0.0.1:%d"], password: secret}' % ((free_port(),) * 2)


@pytest.mark.parametrize("server, store", [pytest.param(*of, id=name) for name, *of in stores()])
def test_what_a_spell_leaves_of_a_quota_is_not_lost(weir, tmp_path, server, store):
    """Twenty customers come in a spell each and go: when their leases have ended the store counts what they used, and
    nothing else; the one that comes back gets all that he has bought."""
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(server()) if server else None
        port = running.port if running else 1
        nodes = stack.enter_context(Nodes(weir, tmp_path, 1, quota(store and store(running), port)))
        node = nodes[0]
        wait_for("the store", lambda: node.metrics()["weir_store_up"] == 1)
        used = {f"spell{i}": 5 + i for i in range(20)}
        for key, count in used.items():
            assert pipeline(node, count, batch=1, key=key) == count

        def units(what):
            return node.metrics()['weir_lease_units_total{what="%s"}' % what]
        wait_for("all to be spent or given back", lambda: units("granted") == units("spent") + units("returned"))
        assert units("returned") > 60
        for key, count in used.items():
            wait_for(f"{key} to be counted", lambda: node.resp("WEIR.PEEK", "shared", key)[2] == BOUGHT - count)
        key = "spell19"
        assert used[key] + pipeline(node, BOUGHT + 200, key=key) == BOUGHT
