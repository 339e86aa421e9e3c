"""The store of shared limits is gone: each limit does what it says it does then, no request waits for longer than
the deadline, it is said once, and all is as before when the store is back."""
import signal
import threading
import time

import pytest

from chaos_proxy import ChaosProxy
from grpc_client import SERVICE, question
from redis_servers import Redis, Wire
from serving import wait_for
from shared_nodes import KEY, SLACK_S, Node, Nodes, all_at_once, one, policy, timed
from together import Together

DEADLINE_MS = 100
LONGEST_S = DEADLINE_MS / 1000 + SLACK_S

LIMITS = ["name: opened, rate: 20/day, when_store_gone: open, match: {path: /opened}",
          "name: closed, rate: 20/day, when_store_gone: closed, match: {path: /closed}",
          "name: halved, rate: 20/day, match: {path: /halved}"]


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


at_once = Together(redis=lambda: Redis())


def stop(server):
    server.signal(signal.SIGSTOP)


def kill(server):
    server.kill()


def text(port):
    return policy(port, *LIMITS, store="nodes: 2", deadline=DEADLINE_MS)


def info(redis, name):
    return next(int(line.split(":")[1]) for line in redis("INFO").splitlines() if line.startswith(name + ":"))


def lose(node):
    """Ask until the loss is known."""
    def ask():
        node.check(path="/opened", cost=0)
        return node.said("store lost")
    wait_for("the loss is said", ask)


def answers(node, path, count):
    """Of |count| requests one after the other: (those that passed, the reasons of the others)."""
    passed, reasons = 0, set()
    for _ in range(count):
        seconds, answer = timed(lambda: node.check(path=path))
        assert seconds < LONGEST_S
        passed += answer["verdict"] == "allow"
        if answer["verdict"] != "allow":
            reasons.add(answer["reason"])
    return passed, reasons


@pytest.mark.parametrize("how", [stop, kill])
def test_open_closed_and_local_as_promised(weir, build, tmp_path, redis, how):
    with Nodes(weir, tmp_path, 2, text(redis.port)) as nodes:
        node = nodes[0]
        wait_for("both are counted", lambda: node.metrics()["weir_store_nodes"] == 2)
        assert all(node.check(path=f"/{name}")["verdict"] == "allow" for name in ("opened", "closed", "halved"))
        how(redis)
        lose(node)
        assert answers(node, "/opened", 40) == (40, set())
        assert answers(node, "/closed", 10) == (0, {"store"})
        assert answers(node, "/halved", 40) == (10, {"limit"})  # half of it, as there are two
        metrics = node.metrics()
        assert metrics["weir_store_up"] == 0
        assert metrics['weir_degraded_decisions_total{limit="closed",how="closed"}'] >= 10
        assert metrics['weir_degraded_decisions_total{limit="opened",how="open"}'] >= 40
        assert metrics['weir_degraded_decisions_total{limit="halved",how="local"}'] >= 40
        assert sum(v for k, v in metrics.items() if k.startswith("weir_store_gone_total")) >= 90
        status, detail = node.readyz()
        assert status == 200 and detail.startswith("serving, the store is gone: redis: ")
        assert len(node.said("store lost")) == 1


@at_once
def test_closed_is_503_and_unavailable_never_429(weir, build, tmp_path, redis):
    limit = "name: shared, rate: 20/day, when_store_gone: closed"
    with Nodes(weir, tmp_path, 1, policy(redis.port, limit, deadline=DEADLINE_MS)) as nodes:
        node = nodes[0]
        node.open_grpc(build)
        assert node.by_check() and node.by_grpc() and node.by_auth()
        kill(redis)
        wait_for("the loss", lambda: node.check()["reason"] == "store")
        reply = node.ask("GET", "/v1/auth?body=1", headers={"X-Api-Key": KEY})
        assert (reply.status, reply.one("X-Weir-Reason")) == (503, "store")
        assert int(reply.one("Retry-After")) >= 1
        assert reply.json()["error"] == "store_unavailable"
        # Until the server is tried again: pauses grow to 5 s.
        waits = []

        def wait():
            waits.append(int(node.ask("GET", "/v1/auth", headers={"X-Api-Key": KEY}).one("Retry-After")))
            return waits[-1] > 2
        wait_for("a longer pause", wait)
        assert all(1 <= s <= 5 for s in waits)
        code, why = node.grpc.call(SERVICE, question("weir", [("x-api-key", KEY)]))
        assert (code, why) == ("UNAVAILABLE", "the store of a shared limit is gone")
        with pytest.raises(RuntimeError, match="UNAVAILABLE"):
            node.resp("WEIR.CHECK", "shared", KEY)
        assert node.ask("POST", "/json", {"domain": "weir", "descriptors": [
            {"entries": [{"key": "x-api-key", "value": KEY}]}]}).status == 503
        assert node.metrics()['weir_requests_total{outcome="denied"}'] >= 4


@pytest.mark.parametrize("how", [stop, kill])
def test_it_recovers_by_itself_and_counts_nothing_twice(weir, tmp_path, redis, how):
    with Nodes(weir, tmp_path, 2, text(redis.port)) as nodes:
        assert nodes[0].check(path="/halved", cost=5)["remaining"] == 15
        how(redis)
        for node in nodes:
            lose(node)
            answers(node, "/halved", 3)
        if how is kill:
            redis.start()
        else:
            redis.signal(signal.SIGCONT)
        for node in nodes:
            node.daemon.event("store back")
            assert node.readyz() == (200, "serving")
            assert len(node.said("store lost")) == 1
        left = 20 if how is kill else 15  # it has lost what it knew, or none of it
        wait_for("the store's own count", lambda: nodes[0].check(path="/halved", cost=0)["remaining"] == left)
        assert nodes[1].check(path="/halved", cost=left)["verdict"] == "allow"
        assert nodes[0].check(path="/halved")["verdict"] == "deny"


def test_under_load_no_request_waits_longer_than_the_deadline(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 1, text(redis.port)) as nodes:
        node = nodes[0]
        slowest, stopped = [0.0], threading.Event()

        def load(path):
            mine = Node.__new__(Node)
            mine.daemon, mine.web = node.daemon, None
            while not stopped.is_set():
                seconds, answer = timed(lambda: mine.check(path=path))
                slowest[0] = max(slowest[0], seconds)
                assert answer["reason"] in (None, "limit", "store")
            return 0

        def act():
            for _ in range(2):
                time.sleep(0.3)
                stop(redis)
                time.sleep(1)
                redis.signal(signal.SIGCONT)
            stopped.set()
            return 0

        all_at_once(act, *[lambda p=p: load(p) for p in ("/opened", "/closed", "/halved")])
        assert slowest[0] < LONGEST_S


def test_a_proxy_that_swallows_resets_and_refuses(weir, tmp_path, redis):
    proxy = ChaosProxy(("127.0.0.1", redis.port))
    try:
        with Nodes(weir, tmp_path, 1, text(proxy.port)) as nodes:
            node = nodes[0]
            assert node.check(path="/halved", cost=2)["remaining"] == 18
            for trouble in ("swallow", "refuse"):
                setattr(proxy, trouble, True)
                if trouble == "refuse":
                    proxy.reset()
                count = len(node.said("store back"))
                answers(node, "/closed", 8)
                lose(node)
                setattr(proxy, trouble, False)
                node.daemon.event("store back", count + 1)
            wait_for("decisions of the store", lambda: node.check(path="/closed", cost=0)["verdict"] == "allow")
            assert node.check(path="/halved", cost=0)["remaining"] == 18
    finally:
        proxy.close()


@at_once
def test_several_loops_say_it_once(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 1, policy(redis.port, *LIMITS, deadline=DEADLINE_MS, threads=4)) as nodes:
        node = nodes[0]
        for _ in range(2):
            before = len(node.said("store lost"))
            kill(redis)
            node.daemon.event("store lost", before + 1)
            time.sleep(0.5)
            assert all(node.ask("POST", "/v1/check", one(), fresh=True).status == 200 for _ in range(20))
            redis.start()
            node.daemon.event("store back", before + 1)
            assert len(node.said("store lost")) == before + 1
            assert node.readyz() == (200, "serving")


def greeted(redis):
    return sum(1 for line in redis("CLIENT", "LIST").splitlines() if "name=weir" in line)


@at_once
def test_a_store_that_is_paused_for_writes_is_lost_once(weir, tmp_path, redis):
    """As by a failover by hand: it connects and greets, and decides nothing."""
    with Nodes(weir, tmp_path, 1, text(redis.port)) as nodes:
        node = nodes[0]
        node.daemon.event("ready")
        wait_for("it is decided", lambda: node.check(path="/closed", cost=0)["verdict"] == "allow")
        redis("CLIENT", "PAUSE", 600_000, "WRITE")
        lose(node)
        wire = Wire(redis.port)
        connections = info(wire, "total_connections_received")
        wait_for("it has tried again and again", lambda: info(wire, "total_connections_received") > connections + 3)
        wire.close()
        assert (len(node.said("store lost")), len(node.said("store back"))) == (1, 0)
        redis("CLIENT", "UNPAUSE")
        node.daemon.event("store back")
        assert (len(node.said("store lost")), len(node.said("store back"))) == (1, 1)
        assert node.check(path="/closed", cost=0)["verdict"] == "allow"


@at_once
def test_connections_that_are_killed_again_and_again_are_one_loss(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 1, text(redis.port)) as nodes:
        node = nodes[0]
        slow, before = 0, time.monotonic()
        for _ in range(12):
            wait_for("it is there", lambda: greeted(redis) and node.check(path="/closed", cost=0)["verdict"] == "allow")
            redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            killed = time.monotonic()
            slow += killed - before > 0.8  # long enough for it to be back
            before = killed
        node.daemon.event("store back")
        assert len(node.said("store lost")) <= 1 + slow
        assert len(node.said("store back")) == len(node.said("store lost"))


@at_once
def test_a_replica_is_lost_once(weir, tmp_path, redis):
    """It is greeted, again and again, while nobody asks it anything."""
    with Redis("--replicaof", "127.0.0.1", str(redis.port)) as replica, Nodes(weir, tmp_path, 1, text(replica.port)) as nodes:
        node = nodes[0]
        node.daemon.event("store lost")
        refused = replica.errors("READONLY")
        wait_for("it has tried again and again", lambda: replica.errors("READONLY") > refused + 2)
        assert node.said("store back") == []
        assert "READONLY" in node.readyz()[1]
        replica("REPLICAOF", "NO", "ONE")
        wait_for("it is back", lambda: node.check(path="/closed", cost=0) and node.said("store back"))
        assert len(node.said("store lost")) == 1


@pytest.mark.parametrize("password", ["", ", password: secret"])
@at_once
def test_a_store_that_has_no_room_says_so(weir, tmp_path, password):
    with Redis("--requirepass", "secret") as redis:
        held = Wire(redis.port)
        held("AUTH", "secret")
        held("CONFIG", "SET", "maxclients", 1)
        wait_for("the only one", lambda: "connected_clients:1\r" in held("INFO", "clients"))
        with Nodes(weir, tmp_path, 1, text(redis.port).replace('/0"', f'/0"{password}')) as nodes:
            wait_for("it says why", lambda: "max number of clients reached" in nodes[0].readyz()[1])
            held("CONFIG", "SET", "maxclients", 100)
            if password:
                nodes[0].daemon.event("store back")
        held.close()


@at_once
def test_a_node_without_a_store_from_the_start(weir, tmp_path, free_port):
    with Nodes(weir, tmp_path, 1, text(free_port)) as nodes:
        node = nodes[0]
        seconds, answer = timed(lambda: node.check(path="/closed"))
        assert answer["reason"] == "store" and seconds < LONGEST_S
        lose(node)
        with Redis(port=free_port):
            node.daemon.event("store back")
            wait_for("decisions", lambda: node.check(path="/closed")["verdict"] == "allow")


@at_once
def test_sigterm_while_the_store_is_paused_ends_in_time(weir, tmp_path, redis):
    with Nodes(weir, tmp_path, 1, policy(redis.port, "name: shared, rate: 20/day", deadline=3000)) as nodes:
        node = nodes[0]
        node.by_check()
        stop(redis)
        got = []
        thread = threading.Thread(target=lambda: got.append(node.check()))
        thread.start()
        wait_for("the question", lambda: node.metrics()["weir_store_calls_total"] == 2)
        seconds, status = timed(node.daemon.end)
        thread.join()
        assert status == 0 and seconds < 10
        assert got[0]["verdict"] == "allow"  # answered, if without the store
