"""Shared limits in a Redis Cluster: real servers, three primaries and a replica."""
import http.client
import json
import time

import pytest

from redis_servers import DEADLINE_MS, SLACK_US, Cluster, Driver, Fake, Redis, Scripted, drive, free_port, need, used
from serving import DEADLINE, wait_for
from shared_nodes import Nodes, all_at_once, policy
from together import Together

LONGEST_US = DEADLINE_MS * 1000 + SLACK_US
MANY = 10_000_000
at_once = Together()


@pytest.fixture(scope="module")
def shared():
    need("redis-server")
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared):
    """As it was when it was made; for those that leave every slot where it is and every node alive."""
    for node in shared.primaries:
        for words in (["FLUSHALL"], ["SCRIPT", "FLUSH"], ["CONFIG", "RESETSTAT"]):
            node(*words)
    return shared


@pytest.fixture
def own_cluster():
    need("redis-server")
    with Cluster() as cluster:
        yield cluster


def load(build, cluster, number, *args, deadline_ms=DEADLINE_MS):
    return Driver(build, *cluster.at(), "--run-ms", 120_000, "--in-flight", 32, "--rate", 1000, "--units", MANY,
                  "--first-key", number, *args, deadline_ms=deadline_ms)


def stop(driver):
    """End it, and what it was allowed, but for what came after the last slice."""
    driver.process.terminate()
    driver.process.wait()
    driver.close()
    return sum(s["allowed"] for s in driver.slices())


def test_exact_over_processes_and_primaries(build, cluster):
    drivers = [Driver(build, *cluster.at(), "--calls", 3000, "--keys", 100, "--units", 70, "--in-flight", 64, "--quiet",
                      deadline_ms=5000) for _ in range(3)]
    ends = [driver.wait() for driver in drivers]
    # 90 calls for each of 100 keys, which lie on all primaries.
    assert sum(end["gone"] for end in ends) == 0
    assert sum(end["allowed"] for end in ends) == 100 * 70
    assert {cluster.owner(number) for number in range(100)} == {0, 1, 2}


def test_limits_in_several_slots_all_or_none(build, cluster):
    # l1 under key 1 has 60 of 100 used up beforehand. Spread, the driver's key 0 counts l0 under 0, l1 under 1, l2
    # under 2: three slots, asked one after the other.
    assert drive(build, *cluster.at(), "--first-key", 1, "--charges", 2, "--units", 100, "--calls", 60,
                 deadline_ms=5000)["allowed"] == 60
    assert len({cluster.slot(number) for number in range(3)}) == 3
    end = drive(build, *cluster.at(), "--spread", "--charges", 3, "--units", 100, "--calls", 300, "--in-flight", 16,
                deadline_ms=5000)
    assert (end["allowed"], end["refused"], end["gone"]) == (40, 260, 0)
    wait_for("what was given back", lambda: cluster.count(0, 0) == 40)
    # A refusal speaks of the others as one command would have: l0 would have let it pass, and had 59 left.
    end = drive(build, *cluster.at(), "--spread", "--charges", 3, "--units", 100, "--calls", 5, deadline_ms=5000)
    assert (end["refused"], end["remaining"]) == (5, 59)
    # Taken, refused, given back, and the two others judged; perhaps one that counts nodes.
    assert end["commands"] - 5 * 5 in (0, 1)
    assert [cluster.count(n, n) for n in range(3)] == [40, 100, 40]


def test_a_leaky_bucket_is_not_filled_by_who_is_refused_elsewhere(weir, tmp_path, cluster):
    """It lies in another slot than `last`, and cannot give back what others have queued behind."""
    text = policy(1, "name: leaky, by: [who], rate: 500/day queue 500, algorithm: leaky-bucket",
                  "name: window, by: [who], rate: 500/day", "name: last, by: [ip], rate: 5/day, algorithm: fixed-window")
    text = text.replace("by: [api_key], ", "").replace("identity: {", "identity: {who: {header: X-Who, trust: anyone}, ")
    text = text.replace('redis: {url: "redis://127.0.0.1:1/0"}', f'redis: {{cluster: ["127.0.0.1:{cluster.primaries[0].port}"]}}')
    with Nodes(weir, tmp_path, 1, text) as nodes:
        def ask():
            door = http.client.HTTPConnection(*nodes[0].daemon.address("http"), timeout=DEADLINE)
            passed = 0
            for _ in range(50):
                door.request("POST", "/v1/check", json.dumps({"ip": "192.0.2.1", "headers": {"X-Who": "somebody"}}))
                passed += json.loads(door.getresponse().read())["verdict"] != "deny"
            return passed
        assert all_at_once(*[ask] * 8) == 5
        left = {limit: nodes[0].resp("WEIR.PEEK", limit, "somebody")[2] for limit in ("leaky", "window")}
        assert left["leaky"] >= 496 and left["window"] == 495, left  # of a queue of 500 and the one that is served


def test_a_slot_migrates_under_load(build, own_cluster):
    cluster = own_cluster
    number = cluster.key_of(0)
    slot = cluster.slot(number)
    with load(build, cluster, number, "--charges", 2, deadline_ms=5000) as driver:
        driver.healthy()
        a, b, c = cluster.primaries
        for source, target in ((a, b), (b, c), (c, a)):
            for _ in cluster.move(slot, source, target):
                time.sleep(0.1)
        driver.healthy()
        end = driver.finish()
    assert all(sum(node.errors(code) for node in cluster.primaries) > 0 for code in ("ASK", "MOVED"))
    assert end["gone"] == 0
    assert [cluster.count(number, limit) for limit in range(2)] == [end["allowed"]] * 2


def test_a_migration_that_takes_long_with_a_key_on_either_side(build, own_cluster):
    """Commands over both keys get TRYAGAIN until it is over: they are asked one by one meanwhile."""
    cluster = own_cluster
    number = cluster.key_of(0)
    a, b, _ = cluster.primaries
    with load(build, cluster, number, "--charges", 2, deadline_ms=5000) as driver:
        driver.healthy()
        steps = cluster.move(cluster.slot(number), a, b)
        assert [next(steps), next(steps)] == ["open", "key"]
        time.sleep(2)
        driver.healthy()
        for _ in steps:
            pass
        driver.healthy()
        end = driver.finish()
    assert sum(node.errors("TRYAGAIN") for node in cluster.primaries) > 0
    assert end["gone"] == 0
    assert [cluster.count(number, limit) for limit in range(2)] == [end["allowed"]] * 2


def test_a_primary_killed_its_replica_takes_over_and_the_others_go_on(build, own_cluster):
    cluster = own_cluster
    there, elsewhere = cluster.key_of(0), cluster.key_of(1)
    first, second = (load(build, cluster, number, deadline_ms=2000) for number in (there, elsewhere))
    try:
        first.healthy()
        second.healthy()
        cluster.primaries[0].kill()
        first.wait_until("the loss is seen", lambda s: s["gone"] > 0)
        wait_for("the replica is a primary", lambda: "role:master" in cluster.replica("INFO", "replication"))
        first.healthy()
        second.healthy()
        assert max(s["slowest_us"] for s in [*first.slices(), *second.slices()]) < 2_000_000 + SLACK_US
        # While the cluster has no primary for some slots it answers CLUSTERDOWN for all: busy, not gone.
        assert sum(s["gone"] - s["busy"] for s in second.slices()) == 0
        allowed = stop(first)
    finally:
        first.close()
        second.close()
    counted = used(build, MANY, *cluster.at(), "--first-key", there)
    assert abs(counted - allowed) < 400


def test_a_primary_without_a_replica_killed_and_restarted(build, own_cluster):
    cluster = own_cluster
    number = cluster.key_of(2)
    with load(build, cluster, number) as driver:
        driver.healthy()
        cluster.primaries[2].kill()
        driver.wait_until("the loss is seen", lambda s: s["gone"] > 0)
        driver.wait_until("nobody waits", lambda s: s["breaker"] > 0 and s["timeout"] == 0)
        cluster.primaries[2].start()
        driver.healthy()
        assert max(s["slowest_us"] for s in driver.slices()) < LONGEST_US


class Down:
    """A node that has all slots, and answers what is asked of keys by CLUSTERDOWN."""

    def __init__(self):
        self.state, self.infos = "fail", 0
        self.server = Scripted(self.answer)

    def answer(self, words):
        if words == ["CLUSTER", "SLOTS"]:
            return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % self.server.port
        if words == ["CLUSTER", "INFO"]:
            self.infos += 1
            text = f"cluster_state:{self.state}\r\n".encode()
            return b"$%d\r\n%s\r\n" % (len(text), text)
        return b"-CLUSTERDOWN The cluster is down\r\n" if words[0].startswith("EVAL") else b"+OK\r\n"


@at_once
def test_a_node_that_is_down_is_not_well_because_it_says_the_slots(build):
    down = Down()
    with down.server, Driver(build, "--kind", "cluster", "--address", f"127.0.0.1:{down.server.port}", "--run-ms", 60_000,
                             "--rate", 50, "--stay", deadline_ms=5000) as driver:
        driver.wait_until("it is down", lambda s: s["busy"] > 0 and not s["reachable"])
        first = len(driver.slices())
        wait_for("it was asked for slots, and how it is", lambda: down.infos > 2)
        # It says that it is well, but as long as somebody asks, what it answers is what counts.
        down.state = "ok"
        infos = down.infos
        wait_for("it was asked again", lambda: down.infos > infos + 1)
        driver.no_more()
        driver.wait_until("nobody asks", lambda s: s["gone"] == 0)
        asked = [s for s in driver.slices()[first:] if s["gone"] > 0]
        assert asked and not any(s["reachable"] for s in asked)
        driver.wait_until("it is well", lambda s: s["reachable"])


def test_slots_that_nobody_has_cost_no_deadline(build, own_cluster):
    cluster = own_cluster
    number, elsewhere = cluster.key_of(0), cluster.key_of(1)
    slot, a = cluster.slot(number), cluster.primaries[0]
    for node in cluster.nodes():
        node("CONFIG", "SET", "cluster-require-full-coverage", "no")
    with load(build, cluster, number, deadline_ms=10_000) as driver, load(build, cluster, elsewhere, deadline_ms=10_000) as other:
        driver.healthy()
        other.healthy()
        for node in cluster.nodes():
            node("CLUSTER", "DELSLOTS", slot)
        gone = driver.wait_until("it is nobody's", lambda s: s["gone"] > 0)
        driver.wait_until("and that is known", lambda s: s["busy"] > 0 and "nobody has 1 of the slots" in s["detail"])
        assert gone["gone"] == gone["busy"] and gone["slowest_us"] < 5_000_000
        other.healthy()
        a("CLUSTER", "ADDSLOTS", slot)
        driver.healthy()
        driver.wait_until("all is well", lambda s: s["reachable"])
        other.healthy()
        assert max(s["slowest_us"] for s in driver.slices()) < 5_000_000
        assert sum(s["gone"] for s in other.slices()) == 0


def test_scripts_flushed_on_every_primary(build, cluster):
    with Driver(build, *cluster.at(), "--run-ms", 60_000, "--in-flight", 64, "--keys", 30, "--units", MANY,
                deadline_ms=5000) as driver:
        driver.healthy()
        for _ in range(10):
            for node in cluster.primaries:
                node("SCRIPT", "FLUSH")
            time.sleep(0.05)
        driver.healthy()
        assert driver.finish()["gone"] == 0
        assert all(node.errors("NOSCRIPT") > 0 for node in cluster.primaries)


@at_once
def test_no_node_of_it_at_all(build):
    end = drive(build, "--kind", "cluster", "--address", f"127.0.0.1:{free_port()}", "--run-ms", 1200, "--rate", 300)
    assert end["allowed"] == 0 and end["breaker"] > 200


def test_under_valgrind(build, cluster):
    need("valgrind")
    end = drive(build, *cluster.at(), "--calls", 100, "--keys", 20, "--spread", "--charges", 3, deadline_ms=20_000,
                wrap=["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"])
    assert end["allowed"] == 100


def refused_at_once(end):
    """Nobody waits for a store that cannot be found out, but those who came before that was known."""
    assert end["allowed"] + end["refused"] == 0
    assert end["gone"] > 300 and end["breaker"] > 0.9 * end["gone"], end
    assert end["reachable"] is False


@at_once
def test_a_redis_that_is_no_cluster(build):
    with Redis() as redis:
        end = drive(build, "--kind", "cluster", "--address", f"127.0.0.1:{redis.port}", "--run-ms", 1500, "--rate", 500)
    refused_at_once(end)
    assert "CLUSTER SLOTS: ERR This instance has cluster support disabled" in end["detail"]


@pytest.mark.parametrize("answer", [b"*0\r\n", b"*1\r\n*3\r\n:1\r\n:99999\r\n:-5\r\n", b":7\r\n"])
@at_once
def test_slots_that_make_no_sense(build, answer):
    with Fake(answer, each=True) as fake:
        end = drive(build, "--kind", "cluster", "--address", f"127.0.0.1:{fake.port}", "--run-ms", 1500, "--rate", 500)
    refused_at_once(end)
    assert "CLUSTER SLOTS: an answer without slots" in end["detail"]


def test_a_seed_that_is_no_cluster_beside_those_that_are(build, cluster):
    with Redis() as redis:
        end = drive(build, "--kind", "cluster", "--address", f"127.0.0.1:{redis.port}", *cluster.at()[2:],
                    "--calls", 300, "--units", 200, deadline_ms=5000)
    assert (end["allowed"], end["refused"], end["gone"]) == (200, 100, 0)
