"""Three daemons, a quota that is shared over one Redis: the ledgers of all nodes add up to what was admitted, and
`weir usage --verify` compares them with what Redis counts."""
import json
import subprocess
import time

import pytest

from redis_servers import Redis
from serving import wait_for
from shared_nodes import Node, all_at_once
from test_memcached import Memcached
from together import Together

LIMIT = 8000
EACH = 200   # requests of a node, before and after
CALLERS = 4  # of a node

POLICY = """version: 1
arena: {{path: {folder}/arena, size: 4MiB}}
listen: {{http: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 2}}
store: {{{store}, mode: {mode}, deadline: 5s, nodes: 3, secret: pepper}}
identity: {{api_key: {{header: X-Api-Key}}}}
customers: {{directory: {folder}/customers, by: [api_key], room: 100, flush: 100ms}}
limits:
  - {{name: per-ip, by: [ip], rate: 1000000/minute}}
  - {{name: daily, by: [customer], shared: true, when_store_gone: closed, quota: {{limit: {limit}, per: day, zone: "{zone}"}}}}
"""


STORES = {"redis": 'redis: {{url: "redis://127.0.0.1:{port}/0"}}', "memcached": 'memcached: {{servers: ["127.0.0.1:{port}"]}}'}


def noon():
    """A zone in which no day ends soon."""
    return "Etc/GMT%+d" % (time.gmtime().tm_hour - 12)


at_once = Together()


class Site:
    def __init__(self, weir, tmp_path, port, mode, store="redis"):
        self.weir, self.nodes, zone, store = weir, [], noon(), STORES[store].format(port=port)
        self.folders = [tmp_path / f"node{i}" for i in range(3)]
        self.texts = [POLICY.format(folder=f, store=store, mode=mode, limit=LIMIT, zone=zone) for f in self.folders]
        for folder, text in zip(self.folders, self.texts):
            folder.mkdir()
            (folder / "policy.yaml").write_text(text)
        self.nodes = [self.start(i, new=True) for i in range(3)]

    def command(self, folder, name, *words, value=None):
        done = subprocess.run([self.weir, name, "-c", folder / "policy.yaml", *words], capture_output=True, text=True, timeout=60,
                              input=value)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    def start(self, i, new=False):
        node = Node(self.weir, self.folders[i] / "policy.yaml", self.texts[i])
        if new:
            self.command(self.folders[i], "customer", "create", "acme", "--plan", "default", "--value", "-", value="k1\n")
        wait_for("the customer is known", lambda: any(v["name"] == "daily" for v in node.check(cost=0)["limits"]))
        return node

    def verify(self):
        """By the first node's policy: (exit status, what it says, what it complains of)."""
        done = subprocess.run(
            [self.weir, "usage", "-c", self.folders[0] / "policy.yaml", "--verify", "--json",
             *[f / "customers" / "customers.db" for f in self.folders[1:]]], capture_output=True, text=True, timeout=60)
        return done.returncode, json.loads(done.stdout), done.stderr

    def close(self):
        for node in self.nodes:
            node.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Caller:
    """On a connection of its own. |answered|: how often it was let through; |silent|: how often nothing came."""

    def __init__(self, node, count):
        self.node, self.count, self.answered, self.silent = node, count, 0, 0

    def __call__(self):
        mine = Node.__new__(Node)
        mine.daemon, mine.web = self.node.daemon, None
        for _ in range(self.count):
            try:
                self.answered += mine.check()["verdict"] == "allow"
            except Exception:  # whatever a connection does whose other end is killed
                self.silent += 1
                return 0
        return 0


def callers(node):
    return [Caller(node, EACH // CALLERS) for _ in range(CALLERS)]


@pytest.mark.parametrize("mode", ["strict", "leased"])
@at_once
def test_the_ledgers_add_up_to_what_redis_counts(weir, tmp_path, mode):
    def unspent(said):
        """A spell that used u units may leave 2u of leases, which are void after a second: docs/distributed.md."""
        return 2 * said["store"]["ledgers"] if mode == "leased" else 0

    with Redis() as redis, Site(weir, tmp_path, redis.port, mode) as site:
        all_at_once(*[c for node in site.nodes for c in callers(node)])
        wait_for("all is in the ledgers", lambda: site.verify()[1]["store"]["ledgers"] == 3 * EACH)
        for folder in site.folders:  # each tells its own part, and that it is one
            [quota] = json.loads(site.command(folder, "usage", "--json", "acme"))["quotas"]
            assert (quota["used"], quota["shared"], quota["remaining"]) == (EACH, True, None)
            assert f"of {LIMIT} that all nodes share" in site.command(folder, "usage", "acme")
        status, said, _ = site.verify()
        assert status == 0 and said["wrong"] == said["store"]["more"] == 0 and said["store"]["windows"] == 1
        assert said["store"]["counted"] - said["store"]["ledgers"] == said["store"]["fewer"] <= unspent(said)

        second = [c for node in site.nodes for c in callers(node)]
        victims = second[-CALLERS:]

        def kill():
            wait_for("the last one is asked", lambda: sum(c.answered for c in victims) >= CALLERS)
            site.nodes[2].daemon.process.kill()
            return 0
        all_at_once(kill, *second)
        site.nodes[2].close()
        site.nodes[2] = site.start(2)  # what it had counted is in its cells
        assert [node.end() for node in site.nodes] == [0, 0, 0]

        answered = 3 * EACH + sum(c.answered for c in second)
        silent = sum(c.silent for c in second)
        status, said, errors = site.verify()
        assert status == 0, errors
        assert answered <= said["store"]["ledgers"] == said["used"] <= answered + silent
        assert 0 <= said["store"]["fewer"] <= unspent(said) + silent and said["store"]["more"] == 0
        assert (said["store"]["fewer"] > 0) == ("customer acme, daily: the store counts" in errors)

        redis("FLUSHALL")
        status, said, errors = site.verify()
        assert status == 1 and said["wrong"] == 1 and said["store"]["counted"] == 0
        assert said["store"]["more"] == said["used"] and f"{said['used']} more" in errors
        redis.kill()
        status, said, errors = site.verify()
        assert status == 1 and "the store cannot be asked" in errors


@pytest.mark.parametrize("mode", ["strict", "leased"])
@at_once
def test_the_same_over_memcached(weir, tmp_path, mode):
    with Memcached() as memcached, Site(weir, tmp_path, memcached.port, mode, "memcached") as site:
        all_at_once(*[c for node in site.nodes for c in callers(node)])
        assert [node.end() for node in site.nodes] == [0, 0, 0]
        status, said, errors = site.verify()
        assert status == 0, errors
        assert said["store"]["ledgers"] == 3 * EACH and said["store"]["more"] == 0
        assert said["store"]["fewer"] <= (2 * 3 * EACH if mode == "leased" else 0)


@at_once
def test_who_verifies_is_no_node(weir, tmp_path):
    with Redis() as redis, Site(weir, tmp_path, redis.port, "strict") as site:
        seen = wait_for("all are counted", lambda: len(n := set(redis("ZRANGE", "weir:nodes", 0, -1)) - {""}) == 3 and n)
        assert site.verify()[0] == 0
        assert set(redis("ZRANGE", "weir:nodes", 0, -1)) - {""} == seen
