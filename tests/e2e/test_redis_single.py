"""Shared limits in one Redis: exact over processes, whatever happens to the server. The calls are those of the
backend itself (tests/remote/driver.c); the server is a real one."""
import pathlib
import signal
import time

import pytest

from chaos_proxy import ChaosProxy
from serving import wait_for
from redis_servers import DEADLINE_MS, SLACK_US, Driver, Fake, Redis, drive, free_port, members, need, used
from together import Together

LONGEST_US = DEADLINE_MS * 1000 + SLACK_US
at_once = Together(redis=lambda: Redis())


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


def at(server):
    return ["--address", f"127.0.0.1:{server.port}"]


def together(build, count, *args):
    """|count| drivers at once: their last events."""
    drivers = [Driver(build, *args, "--quiet", deadline_ms=5000) for _ in range(count)]
    try:
        return [driver.wait() for driver in drivers]
    finally:
        for driver in drivers:
            driver.close()


@pytest.mark.parametrize("algorithm", [1, 3, 4, 5])
def test_processes_together_admit_exactly_the_limit(build, redis, algorithm):
    ends = together(build, 3, *at(redis), "--calls", 1500, "--in-flight", 64, "--units", 1000, "--algorithm", algorithm,
                    "--window-ms", 86_400_000)
    assert sum(end["gone"] for end in ends) == 0
    assert sum(end["allowed"] for end in ends) == 1000


def test_nodes_that_differ_in_the_algorithm_have_one_limit_each(build, redis):
    """As in a fleet that is being given another policy: they must not reset each other's counts."""
    drivers = [Driver(build, *at(redis), "--calls", 3000, "--in-flight", 4, "--units", 500, "--algorithm", algorithm, "--window-ms",
                      86_400_000, "--quiet", deadline_ms=5000) for algorithm in (1, 3, 4)]
    try:
        ends = [driver.wait() for driver in drivers]
    finally:
        for driver in drivers:
            driver.close()
    assert [end["gone"] for end in ends] == [0, 0, 0]
    assert [end["allowed"] for end in ends] == [500, 500, 500]


def test_several_limits_of_a_call_all_or_none(build, redis):
    end = drive(build, *at(redis), "--calls", 300, "--charges", 1, "--units", 500, deadline_ms=5000)
    assert end["allowed"] == 300
    # The first limit has 200 left; the two others are met only by what it lets pass.
    end = drive(build, *at(redis), "--calls", 400, "--charges", 3, "--units", 500, "--in-flight", 32, deadline_ms=5000)
    assert (end["allowed"], end["refused"]) == (200, 200)
    assert end["commands"] <= 400 + 2  # all keys in one command; and one that counts nodes
    counts = sorted(used(build, 500, *at(redis), "--charges", n) for n in (1, 3))
    assert counts[1] == 500


def test_given_back_at_once_is_as_never_taken(build, redis):
    end = drive(build, *at(redis), "--calls", 500, "--units", 100, "--give-back", deadline_ms=5000)
    assert end["allowed"] == 500
    # Nobody is told when the last one is given back; another connection may look before.
    wait_for("all is given back", lambda: used(build, 100, *at(redis)) == 0)


def test_killed_and_restarted_empty(build, redis):
    with Driver(build, *at(redis), "--run-ms", 60_000, "--in-flight", 16, "--rate", 2000, "--units", 10_000_000) as driver:
        driver.healthy()
        redis.kill()
        lost = driver.wait_until("the loss is seen", lambda s: s["gone"] > 0 and not s["reachable"])
        driver.wait_until("the breaker spares the deadline", lambda s: s["breaker"] > 0 and s["slowest_us"] < 50_000)
        redis.start()
        driver.healthy()
        assert lost["detail"]
        assert driver.slices()[-1]["reachable"]
        assert max(s["slowest_us"] for s in driver.slices()) < LONGEST_US


def test_stopped_for_longer_than_the_deadline_counts_nothing_twice(build, redis):
    with Driver(build, *at(redis), "--run-ms", 60_000, "--in-flight", 32, "--rate", 1000, "--units", 10_000_000,
                "--stay") as driver:
        driver.healthy()
        redis.signal(signal.SIGSTOP)
        driver.wait_until("timeouts", lambda s: s["timeout"] > 0)
        driver.wait_until("the breaker", lambda s: s["breaker"] > 0 and s["timeout"] == 0)
        redis.signal(signal.SIGCONT)
        driver.healthy()
        # What it decided after its callers had gone was given back: the store counts what was allowed.
        late_ones_are_given_back(build, redis, driver)
        assert max(s["slowest_us"] for s in driver.slices()) < LONGEST_US


def test_scripts_flushed_under_load(build, redis):
    with Driver(build, *at(redis), "--run-ms", 60_000, "--in-flight", 64, "--units", 10_000_000, deadline_ms=5000) as driver:
        driver.healthy()
        for _ in range(20):
            redis("SCRIPT", "FLUSH")
            time.sleep(0.05)
        driver.healthy()
        end = driver.finish()
    assert end["gone"] == 0
    assert used(build, 10_000_000, *at(redis)) == end["allowed"]


def test_memory_full_is_busy_not_gone_from_the_net(build, redis):
    with Driver(build, *at(redis), "--run-ms", 60_000, "--in-flight", 16, "--rate", 2000, "--units", 10_000_000) as driver:
        driver.healthy()
        redis("CONFIG", "SET", "maxmemory", "1mb")
        full = driver.wait_until("memory is full", lambda s: s["busy"] > 0 and s["allowed"] == 0)
        assert full["detail"].split(": ", 1)[1].startswith("OOM")
        assert full["breaker"] == 0
        redis("CONFIG", "SET", "maxmemory", "0")
        driver.healthy()
        assert driver.slices()[-1]["breaker"] == 0


def test_a_wrong_password_until_it_is_right(build, tmp_path):
    password = tmp_path / "password"
    password.write_text("wrong\n")
    with Redis("--requirepass", "right") as redis, \
            Driver(build, *at(redis), "--password-file", password, "--run-ms", 60_000, "--rate", 500) as driver:
        denied = driver.wait_until("denied", lambda s: s["breaker"] > 0 and "WRONGPASS" in s["detail"])
        assert denied["allowed"] == 0
        assert "right" not in denied["detail"]
        password.write_text("right\n")
        driver.healthy()


def test_no_password_where_one_is_needed(build):
    with Redis("--requirepass", "right") as redis:
        end = drive(build, *at(redis), "--run-ms", 300, "--rate", 200)
        assert end["allowed"] == 0
        assert end["detail"].split(": ", 1)[1].startswith("NOAUTH")
        assert drive(build, *at(redis), "--password", "right", "--calls", 5, deadline_ms=5000)["allowed"] == 5


def test_a_user_who_may_do_no_more_than_the_docs_say(build, redis, acl_of_docs):
    redis("ACL", "SETUSER", "weir", *acl_of_docs)
    where = [*at(redis), "--user", "weir", "--password", "secret"]
    for algorithm in range(1, 7):
        end = drive(build, *where, "--calls", 20, "--units", 10, "--algorithm", algorithm, "--first-key", algorithm,
                    "--window-ms", 86_400_000, "--give-back" if algorithm == 6 else "--quiet", deadline_ms=5000)
        assert end["gone"] == 0, end
    assert drive(build, *where, "--run-ms", 500, "--rate", 20)["detail"] == ""
    assert redis("ZCARD", "weir:nodes") > 0  # it may count nodes, too
    redis("ACL", "SETUSER", "weir", "-get", "-mget", "-@read")
    end = drive(build, *where, "--calls", 5, deadline_ms=5000)
    assert end["denied"] == 5


@pytest.fixture
def acl_of_docs():
    """The line ACL SETUSER of docs/distributed.md."""
    text = (pathlib.Path(__file__).parents[2] / "docs/distributed.md").read_text()
    line = next(line for line in text.splitlines() if line.strip().startswith("ACL SETUSER weir"))
    return line.split()[3:]


def test_database_and_unix_socket(build, tmp_path):
    path = tmp_path / "redis.sock"
    with Redis("--unixsocket", str(path)) as redis:
        end = drive(build, "--address", path, "--database", 3, "--calls", 7, deadline_ms=5000)
        assert end["allowed"] == 7
        assert "db3" in redis("INFO", "keyspace")
        assert "db0" not in redis("INFO", "keyspace")


def test_its_name_is_seen_and_nodes_are_counted(build, redis):
    drivers = [Driver(build, *at(redis), "--run-ms", 60_000, "--rate", 10) for _ in range(3)]
    try:
        for driver in drivers:
            driver.wait_until("three nodes", lambda s: s["nodes"] == 3)
        assert redis("CLIENT", "LIST").count("name=weir ") == 3
        assert redis("TTL", "weir:nodes") in range(1, 16)
    finally:
        for driver in drivers:
            driver.close()


@at_once
def test_who_starts_alone_does_not_divide_by_one(build, redis):
    """The driver's policy says three nodes. Others may be about to start: they are believed in for a while."""
    with Driver(build, *at(redis), "--run-ms", 60_000, "--rate", 20) as driver:
        driver.healthy()
        wait_for("it is counted", lambda: len(members(redis)) == 1)
        time.sleep(0.5)
        assert driver.slices()[-1]["nodes"] == 3
        driver.wait_until("nobody else has come", lambda s: s["nodes"] == 1)


def now_ms(redis):
    seconds, micros = redis("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


def emptied(redis):
    redis("FLUSHALL")


def restored(redis):
    """From a file of 10 s ago: all are counted for a while yet, but not until all have been seen again."""
    redis("EVAL", "for _, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZINCRBY', KEYS[1], -10000, m) end",
          1, "weir:nodes")


@pytest.mark.parametrize("how", [emptied, restored])
@at_once
def test_a_store_that_forgot_the_nodes_does_not_count_from_one(build, redis, how):
    """Nine nodes, eight of them of the test's own. Not all have been seen again when the store has been for 5 s."""
    def mark():
        return redis("ZCOUNT", "weir:nodes", f"({now_ms(redis)}", "+inf")

    with Driver(build, *at(redis), "--run-ms", 120_000, "--rate", 20) as driver:
        wait_for("it is counted", lambda: members(redis))
        redis("ZREM", "weir:nodes", "")
        for i in range(8):
            redis("ZADD", "weir:nodes", now_ms(redis), f"node{i}")
        driver.wait_until("nine nodes", lambda s: s["nodes"] == 9)
        assert not mark()
        how(redis)
        wait_for("the set is marked", mark)
        driver.healthy()  # a slice of after that
        nodes = driver.slices()[-1]["nodes"]
        assert not mark() or nodes == 9
        redis("ZREM", "weir:nodes", "", *[f"node{i}" for i in range(8)])
        driver.wait_until("the mark is gone", lambda s: s["nodes"] <= 3)  # 3: what its policy says


@at_once
def test_the_mark_of_a_new_set_ends(build, redis):
    with Driver(build, *at(redis), "--run-ms", 120_000, "--rate", 20):
        wait_for("it is counted", lambda: members(redis))
        mark, end = redis("ZRANGE", "weir:nodes", -1, -1, "WITHSCORES")
        assert mark == "" and float(end) <= now_ms(redis) + 15_000
        redis("ZADD", "weir:nodes", now_ms(redis) - 1, "")  # time passes
        wait_for("it is taken out", lambda: redis("ZCARD", "weir:nodes") == 1)


def test_a_replica_is_busy_until_it_is_a_primary(build, redis):
    with Redis("--replicaof", "127.0.0.1", str(redis.port)) as replica, \
            Driver(build, *at(replica), "--run-ms", 60_000, "--rate", 500) as driver:
        driver.wait_until("read only", lambda s: s["busy"] > 0)
        replica("REPLICAOF", "NO", "ONE")
        driver.healthy()


@at_once
def test_no_server_at_all(build):
    end = drive(build, "--address", f"127.0.0.1:{free_port()}", "--run-ms", 1500, "--rate", 500)
    assert end["allowed"] == 0 and end["gone"] > 300
    assert end["breaker"] > 300
    assert end["slowest_us"] < LONGEST_US
    assert "refused" in end["detail"]


OK = b"+OK\r\n"


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\0" * 100, OK * 50, b"$-7\r\n", b"*-9\r\n", b"$99999999999999999999\r\n",
    b"*2147483647\r\n", b"*1\r\n" * 12 + b":1\r\n", b":12345678901234567890\r\n", b"-\r\n", b"-ERR\r\n", b"*0\r\n" * 2,
    OK * 2 + b"*1\r\n:1\r\n", OK * 2 + b"*3\r\n:1\r\n$-1\r\n*0\r\n", OK * 2 + b"*2\r\n:-1\r\n:5\r\n"])
@at_once
def test_a_server_that_talks_nonsense(build, answer):
    with Fake(answer) as fake:
        end = drive(build, *at(fake), "--run-ms", 500, "--rate", 200, "--in-flight", 4)
        assert end["allowed"] + end["refused"] == 0 and end["gone"] > 0
        assert end["slowest_us"] < LONGEST_US


def test_a_password_is_not_in_what_is_told(build):
    with Fake(b"-ERR unknown command 'AUTH', with args beginning with: 'hush-hush'\r\n") as fake:
        end = drive(build, *at(fake), "--password", "hush-hush", "--run-ms", 300, "--rate", 100)
        assert b"hush-hush" in fake.heard
        assert end["detail"].endswith(": AUTH: ERR")


def test_a_name_with_addresses_of_which_one_listens(build, redis):
    assert drive(build, "--address", f"localhost:{redis.port}", "--calls", 5, deadline_ms=5000)["allowed"] == 5


@at_once
def test_a_name_that_is_none(build):
    end = drive(build, "--address", "no-such-host.invalid:6379", "--run-ms", 600, "--rate", 100)
    assert end["allowed"] == 0 and end["reachable"] is False


def test_more_calls_than_may_be_under_way(build, redis):
    redis.signal(signal.SIGSTOP)
    end = drive(build, *at(redis), "--calls", 6000, "--in-flight", 6000, deadline_ms=1500)
    assert end["busy"] == 6000 - 4096
    assert end["gone"] == 6000
    redis.signal(signal.SIGCONT)


# ---- a bad network ------------------------------------------------------------------------------

@pytest.fixture
def proxy(redis):
    with ChaosProxy(("127.0.0.1", redis.port)) as proxy:
        yield proxy


def through(build, proxy, *args, deadline_ms=DEADLINE_MS):
    return Driver(build, "--address", f"127.0.0.1:{proxy.port}", "--run-ms", 60_000, "--in-flight", 16, "--rate", 1000,
                  "--units", 10_000_000, *args, deadline_ms=deadline_ms)


def test_slower_than_the_deadline(build, redis, proxy):
    with through(build, proxy, "--stay") as driver:
        driver.healthy()
        proxy.delay = 0.5
        driver.wait_until("timeouts", lambda s: s["timeout"] > 0)
        driver.wait_until("the breaker", lambda s: s["breaker"] > 0 and s["timeout"] == 0)
        proxy.delay = 0
        driver.healthy()
        assert max(s["slowest_us"] for s in driver.slices()) < LONGEST_US
        wait_for("nothing is on its way", lambda: not proxy.delayed)
        late_ones_are_given_back(build, redis, driver)


def late_ones_are_given_back(build, redis, driver):
    """What was taken by answers that came too late: nobody is told when it is there again."""
    allowed = driver.over()
    wait_for(f"{allowed} in use", lambda: used(build, 10_000_000, *at(redis)) == allowed)


def test_stalled_again_before_the_answers_of_the_first_time_are_in(build, redis, proxy):
    """What is on its way on a connection then takes 3 s, each way; a new connection is not so slow meanwhile."""
    with through(build, proxy, "--stay") as driver:
        for _ in range(3):
            driver.healthy()
            proxy.delay = 3
            driver.wait_until("the breaker", lambda s: s["breaker"] > 0)
            proxy.delay = 0
        driver.healthy()
        wait_for("nothing is on its way", lambda: not proxy.delayed)
        late_ones_are_given_back(build, redis, driver)


def test_a_cable_pulled_out(build, proxy):
    with through(build, proxy) as driver:
        driver.healthy()
        proxy.swallow = True
        driver.wait_until("the breaker", lambda s: s["breaker"] > 0 and s["timeout"] == 0)
        time.sleep(1)
        proxy.swallow = False
        driver.healthy()
        assert max(s["slowest_us"] for s in driver.slices()) < LONGEST_US


@pytest.mark.parametrize("how", ["reset", "half_close"])
def test_connections_broken_again_and_again(build, redis, proxy, how):
    with through(build, proxy) as driver:
        for _ in range(5):
            driver.healthy()
            getattr(proxy, how)()
            driver.wait_until("loss or none", lambda s: True)
        driver.healthy()
        assert max(s["slowest_us"] for s in driver.slices()) < LONGEST_US
        end = driver.finish()
    # Never fewer than were allowed; more by what was under way when it broke, and is not asked again.
    assert 0 <= used(build, 10_000_000, *at(redis)) - end["allowed"] <= 5 * 16


def test_a_lasting_connection_that_breaks_is_replaced_at_once(build, proxy):
    with through(build, proxy, deadline_ms=5000) as driver:
        driver.healthy()
        time.sleep(1.5)
        proxy.reset()
        driver.healthy()
        assert sum(s["breaker"] for s in driver.slices()) == 0


def test_attempts_to_connect_are_few(build, proxy):
    proxy.refuse = True
    with through(build, proxy) as driver:
        time.sleep(3)
        # 200 ms, doubled each time, its second half random: 0, 0.2, 0.6, 1.4, 3.0 s at most so fast.
        assert proxy.accepted <= 6
        proxy.refuse = False
        driver.healthy()


def test_under_valgrind(build, redis):
    need("valgrind")
    end = drive(build, *at(redis), "--calls", 200, "--in-flight", 8, "--charges", 2, deadline_ms=20_000,
                wrap=["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"])
    assert end["allowed"] == 200
