"""Shared limits, strict: three daemons with an arena each, one Redis, all doors at once."""
import json
import signal
import socket
import time

import pytest

from redis_servers import Redis, members
from serving import DEADLINE, wait_for
from shared_nodes import KEY, Node, Nodes, all_at_once, one, policy, send_resp, times

UNITS = 150

# Windows of a day: what refills during a test is nothing.
ALGORITHMS = {
    "token-bucket": f"rate: {UNITS}/day, algorithm: token-bucket",
    "fixed-window": f"rate: {UNITS}/day, algorithm: fixed-window",
    "sliding-window": f"rate: {UNITS}/day, algorithm: sliding-window",
    "sliding-log": f"rate: {UNITS}/day, algorithm: sliding-log",
    "leaky-bucket": f"rate: 1/day queue {UNITS - 1}, algorithm: leaky-bucket",
    "concurrency": f"concurrent: {UNITS}, hold: 1h",
}


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_doors_of_three_nodes_admit_exactly_the_limit(weir, build, tmp_path, redis, algorithm):
    with Nodes(weir, tmp_path, 3, policy(redis.port, f"name: shared, {ALGORITHMS[algorithm]}")) as nodes:
        callers = []
        for node in nodes:
            twin = Node.__new__(Node)  # a thread talks over connections of its own
            twin.daemon, twin.web, twin.wire = node.daemon, None, None
            node.open_grpc(build)
            callers += [times(40, node.by_check), times(40, node.by_resp), times(20, node.by_grpc)]
            callers.append(times(4, lambda node=twin: node.by_array(10)))
        # A delay of a day is nothing that /v1/auth waits for: it takes nothing then.
        if algorithm != "leaky-bucket":
            other = Node.__new__(Node)
            other.daemon, other.web = nodes[0].daemon, None
            callers.append(times(40, other.by_auth))
        assert all_at_once(*callers) == UNITS
        assert not any(node.by_check() for node in nodes)
        for node in nodes:
            metrics = node.metrics()
            assert metrics["weir_store_up"] == 1
            assert sum(v for k, v in metrics.items() if k.startswith("weir_degraded")) == 0


def test_who_is_answered_finds_the_store_up(weir, tmp_path, redis):
    """At once: how it stands is looked at five times a second, and a decision is news as well."""
    for _ in range(5):
        with Nodes(weir, tmp_path, 1, policy(redis.port, "name: shared, rate: 100/day", deadline=5000)) as nodes:
            assert nodes[0].by_check()
            assert nodes[0].metrics()["weir_store_up"] == 1


def test_nodes_of_several_loops_while_policies_change(weir, tmp_path, redis):
    """Each loop has its own connections; metrics are read and policies reloaded meanwhile."""
    def text(more):
        return policy(redis.port, f"name: shared, rate: {UNITS}/day", f"name: other, rate: {1000 + more}/day", threads=3)

    with Nodes(weir, tmp_path, 2, text(0)) as nodes:
        done = []

        def ask(node):
            passed = 0
            for _ in range(60):
                passed += node.ask("POST", "/v1/check", one(), fresh=True).json()["verdict"] == "allow"
            done.append(1)
            return passed

        def change(node):
            count = 0
            while len(done) < 6:
                count += 1
                node.reload(text(count), count)
                node.metrics()
            return 0

        twins = []
        for node in nodes:
            for _ in range(3):
                twin = Node.__new__(Node)
                twin.daemon, twin.web = node.daemon, None
                twins.append(twin)
        assert all_at_once(*(lambda t=t: ask(t) for t in twins), *(lambda n=n: change(n) for n in nodes)) == UNITS
        assert all(node.said("store lost") == [] for node in nodes)


def test_refused_requests_consume_nothing(weir, tmp_path, redis):
    limits = ["name: narrow, rate: 5/day", "name: wide, rate: 50/day"]
    with Nodes(weir, tmp_path, 2, policy(redis.port, *limits)) as nodes:
        passed = all_at_once(*(times(40, node.by_check) for node in nodes))
        assert passed == 5
        assert nodes[0].resp("WEIR.PEEK", "wide", KEY)[2] == 45
        # More than is left takes nothing of what is.
        assert nodes[1].check(key="k2", cost=4)["verdict"] == "allow"
        assert nodes[0].check(key="k2", cost=2)["verdict"] == "deny"
        assert nodes[1].check(key="k2", cost=1)["verdict"] == "allow"


def test_a_local_limit_refuses_after_the_store_has_taken(weir, tmp_path, redis):
    limits = ["name: mine, rate: 3/day, shared: false", "name: ours, rate: 50/day"]
    text = policy(redis.port, *limits).replace("{shared: true, by: [api_key], name: mine", "{by: [api_key], name: mine")
    text = text.replace("3/day, shared: false", "3/day")
    with Nodes(weir, tmp_path, 1, text) as nodes:
        answers = nodes[0].ask("POST", "/v1/check", [one()] * 20).json()
        assert sum(a["verdict"] == "allow" for a in answers) == 3
        wait_for("refunds", lambda: nodes[0].resp("WEIR.PEEK", "ours", KEY)[2] == 47)


def test_a_batch_is_asked_at_once_and_answered_in_order(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 1, policy(redis.port, "name: shared, rate: 100/day", "name: other, rate: 3/day")) as nodes:
        node = nodes[0]
        s = send_resp(node.daemon.address("resp"), ["PING"], *[["WEIR.CHECK", "shared", "a"]] * 30, ["ECHO", "between"],
                      *[["WEIR.CHECK", "other", "b"]] * 5, ["WEIR.PEEK", "other", "b"], ["PING"])
        file = s.makefile("rb")

        def line():
            return file.readline().decode().strip()

        def verdict():
            assert line() == "*6"
            return [int(line()[1:]) for _ in range(6)]

        assert line() == "+PONG"
        assert [verdict()[2] for _ in range(30)] == list(range(99, 69, -1))
        assert (line(), line()) == ("$7", "between")
        assert [verdict()[0] for _ in range(5)] == [1, 1, 1, 0, 0]
        assert verdict()[2] == 0
        assert line() == "+PONG"
        s.close()


def test_more_than_the_input_may_hold_waits_in_the_socket(weir, tmp_path, redis):
    """Megabytes of commands while the store is being asked are read as they are decided."""
    count = 40_000
    with Nodes(weir, tmp_path, 1, policy(redis.port, "name: shared, rate: 1000000/day", deadline=5000)) as nodes:
        s = socket.create_connection(nodes[0].daemon.address("resp"), 60)
        one = b"*3\r\n$10\r\nWEIR.CHECK\r\n$6\r\nshared\r\n$1\r\na\r\n"

        def write():
            s.sendall(one * count)
            return 0

        def read():
            file, got = s.makefile("rb"), 0
            while got < count * 7:
                assert file.readline(), "closed"
                got += 1
            return 0

        all_at_once(write, read)
        assert nodes[0].resp("WEIR.PEEK", "shared", "a")[2] == 1_000_000 - count
        s.close()


def test_reserve_settle_release(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 2, policy(redis.port, "name: shared, rate: 100/day", "name: places, concurrent: 2, hold: 1h")) as nodes:
        a, b = nodes

        def left(node=b, limit="shared"):
            return node.resp("WEIR.PEEK", limit, KEY)[2]

        reply = a.ask("POST", "/v1/reserve", {**one(), "cost": 30, "ttl": "1m"}).json()
        assert (reply["verdict"], left(), left(limit="places")) == ("allow", 70, 1)
        assert a.ask("POST", "/v1/settle", {"id": reply["id"], "cost": 12}).status == 200
        wait_for("what is over comes back", lambda: left() == 88)
        assert a.ask("POST", "/v1/release", {"id": reply["id"]}).status == 200
        wait_for("the place comes back", lambda: left(limit="places") == 2)
        got = b.resp("WEIR.RESERVE", "shared", KEY, 8, 60_000)
        assert (got[0], left(a)) == (1, 80)
        assert b.resp("WEIR.SETTLE", got[6], 20) == "OK"
        wait_for("what is more is charged", lambda: left(a) == 68)
        assert b.resp("WEIR.RELEASE", got[6]) == "OK"


def test_looks_and_resets_are_the_stores(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 2, policy(redis.port, "name: shared, rate: 10/day")) as nodes:
        a, b = nodes
        assert a.check(cost=4)["remaining"] == 6
        seen = b.ask("GET", f"/v1/keys?limit=shared&by=api_key:{KEY}", door="admin").json()
        assert (seen["used"], seen["remaining"]) == (4, 6)
        told = b.ask("POST", "/v1/explain", {**one(), "cost": 7}, door="admin").json()
        assert told["verdict"] == "deny"
        assert told["limits"][0]["remaining"] == 6
        assert b.resp("WEIR.RESET", "shared", KEY) == 1
        wait_for("it is forgotten", lambda: a.resp("WEIR.PEEK", "shared", KEY)[2] == 10)
        a.check(cost=4)
        assert a.ask("DELETE", f"/v1/keys?limit=shared&by=api_key:{KEY}", door="admin").json()["reset"] is True
        wait_for("it is forgotten", lambda: b.resp("WEIR.PEEK", "shared", KEY)[2] == 10)


def test_who_goes_while_the_store_is_asked_has_taken_nothing(weir, tmp_path, redis):
    """The store is slow, the caller is gone: what it took for him comes back."""
    with Nodes(weir, tmp_path, 1, policy(redis.port, "name: shared, rate: 100/day", deadline=5000)) as nodes:
        node = nodes[0]
        node.by_check()
        redis.signal(19)  # SIGSTOP
        s = send_resp(node.daemon.address("resp"), *[["WEIR.CHECK", "shared", KEY]] * 20)
        body = json.dumps([one()] * 20)
        web = socket.create_connection(node.daemon.address("http"))
        web.sendall(f"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        wait_for("the questions", lambda: node.metrics()["weir_store_calls_total"] == 41)
        s.close()
        web.close()
        wait_for("the end of them", lambda: node.metrics()['weir_door_connections{door="resp"}'] == 0)
        redis.signal(18)  # SIGCONT
        wait_for("all but one", lambda: node.resp("WEIR.PEEK", "shared", KEY)[2] == 99)


def test_a_reload_while_the_store_is_asked(weir, tmp_path, redis):
    """What was asked under the old policy is asked again under the new one; nothing is counted twice."""
    before = policy(redis.port, "name: gone, rate: 7/day", "name: shared, rate: 100/day", deadline=5000)
    after = policy(redis.port, "name: shared, rate: 50/day", deadline=5000)
    with Nodes(weir, tmp_path, 1, before) as nodes:
        node = nodes[0]
        node.by_check()
        redis.signal(19)
        results = []

        def ask():
            results.extend(node.ask("POST", "/v1/check", [one()] * 3).json())
            return 0

        def act():
            wait_for("the questions", lambda: node.metrics()["weir_store_calls_total"] == 4)
            node.reload(after)
            time.sleep(0.1)
            redis.signal(18)
            return 0

        all_at_once(ask, act)
        assert [[limit["name"] for limit in r["limits"]] for r in results] == [["shared"]] * 3
        # 1 + 3 were used of it, by whichever size.
        assert node.resp("WEIR.PEEK", "shared", KEY)[2] in (46, 47)


def test_a_reload_to_another_store(weir, tmp_path, redis):
    with Redis() as second, Nodes(weir, tmp_path, 1, policy(redis.port, "name: shared, rate: 10/day")) as nodes:
        node = nodes[0]
        assert node.check(cost=9)["remaining"] == 1
        node.reload(policy(redis.port, "name: shared, rate: 10/day", "name: more, rate: 5/day"))
        assert node.check()["verdict"] == "allow"  # the same store, the same count
        assert node.check()["verdict"] == "deny"
        node.reload(policy(second.port, "name: shared, rate: 10/day"), 2)
        wait_for("the other store's count", lambda: node.check(cost=0)["remaining"] == 10)
        node.reload(policy(redis.port, "name: shared, rate: 10/day").replace("shared: true, ", "")
                    .replace(node.path.read_text().split("\n")[4], ""), 3)
        assert node.check(cost=10)["verdict"] == "allow"  # local now
        assert node.metrics()["weir_store_up"] == 0


def test_a_reload_that_lets_counts_begin_anew_says_so(weir, tmp_path, redis):
    def text(algorithm):
        return policy(redis.port, f"name: shared, rate: 10/day, algorithm: {algorithm}", "name: other, rate: 10/day", deadline=5000)

    with Nodes(weir, tmp_path, 1, text("token-bucket")) as nodes:
        node = nodes[0]
        node.reload(text("token-bucket").replace("rate: 10/day", "rate: 9/day"))
        assert node.said("counts begin anew") == []
        node.reload(text("fixed-window"), 2)
        assert [e["limit"] for e in node.said("counts begin anew")] == ["shared"]


def test_who_drains_is_counted_no_longer(weir, tmp_path, redis):
    """Its loops take it out of the members, so that the others do not divide by it for 15 s more."""
    with Nodes(weir, tmp_path, 2, policy(redis.port, f"name: shared, rate: {UNITS}/day", threads=3)) as nodes:
        wait_for("both are counted", lambda: len(members(redis)) == 2)
        both = members(redis)
        nodes[0].daemon.signal(signal.SIGTERM)
        assert nodes[0].daemon.process.wait(DEADLINE) == 0
        left = members(redis)
        assert len(left) == 1 and left < both
        assert nodes[1].by_check()
