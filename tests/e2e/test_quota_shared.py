"""Two daemons, quotas that they share over one Redis: overage adds up to what all used beyond the limit, and whoever comes
to the end of his plan moves to the next one at once, on each node with the first request that needs it."""
import json
import subprocess

from redis_servers import Redis
from serving import wait_for
from shared_nodes import Node, all_at_once
from test_usage_verify import noon

POLICY = """version: 1
arena: {{path: {folder}/arena, size: 4MiB}}
listen: {{http: 127.0.0.1:0, resp: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 2}}
store: {{redis: {{url: "redis://127.0.0.1:{port}/0"}}, deadline: 5s, nodes: 2, secret: pepper-of-two-nodes}}
identity: {{api_key: {{header: X-Api-Key}}, plan: {{default: free}}}}
customers: {{directory: {folder}/customers, by: [api_key], room: 100, flush: 100ms}}
plans:
  free: {{quotas: {{daily: {{limit: 10, on_exceed: upgrade}}}}, upgrade_to: pro}}
  pro: {{quotas: {{daily: {{limit: 30, grace: 10%}}}}}}
  metered: {{quotas: {{daily: {{limit: 100, on_exceed: overage, ceiling: 150}}}}}}
limits:
  - {{name: per-ip, by: [ip], rate: 1000000/minute}}
  - {{name: daily, by: [customer], shared: true, when_store_gone: closed, quota: {{limit: 10, per: day, zone: "{zone}"}}}}
"""
CUSTOMERS = {"k1": ("acme", "metered"), "k2": ("globex", "free"), "k3": ("initech", "free")}


class Site:
    def __init__(self, weir, tmp_path, port):
        self.weir, self.nodes = weir, []
        self.folders = [tmp_path / f"node{i}" for i in range(2)]
        for folder in self.folders:
            folder.mkdir()
            self.nodes.append(Node(weir, folder / "policy.yaml", POLICY.format(folder=folder, port=port, zone=noon())))
            for key, (name, plan) in CUSTOMERS.items():
                self.command(folder, "customer", "create", name, "--plan", plan, "--value", "-", value=key + "\n")
        for node in self.nodes:
            for key, (_, plan) in CUSTOMERS.items():
                wait_for(f"{key} is known", lambda: node.check(key, cost=0)["plan"] == plan)

    def command(self, folder, *words, value=None):
        done = subprocess.run([self.weir, words[0], "-c", folder / "policy.yaml", *words[1:]], capture_output=True, text=True,
                              timeout=60, input=value)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    def standing(self, folder, name):
        [quota] = json.loads(self.command(folder, "usage", "--json", name))["quotas"]
        return quota["used"], quota["over"]

    def sums(self, name):
        """(used, over) of all nodes."""
        return tuple(map(sum, zip(*[self.standing(folder, name) for folder in self.folders])))

    def moves(self, folder, name):
        changes = json.loads(self.command(folder, "customer", "log", "--json", name))["changes"]
        return [change for change in changes if change["what"] == "plan"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.close()


def daily(answer):
    return next(limit for limit in answer["limits"] if limit["name"] == "daily")


def test_overage_and_upgrades_over_two_nodes(weir, tmp_path):
    with Redis() as redis, Site(weir, tmp_path, redis.port) as site:
        one, two = site.nodes

        # Both at once, across the limit: what is admitted ends at the ceiling, and all beyond the limit is on one bill.
        def use(node, times, cost):
            mine = Node.__new__(Node)
            mine.daemon, mine.web = node.daemon, None
            return lambda: sum(cost for _ in range(times) if mine.check("k1", cost)["verdict"] == "allow")
        assert all_at_once(use(one, 30, 1), use(one, 15, 2), use(two, 30, 1), use(two, 11, 3)) == 123
        wait_for("the overage", lambda: site.sums("acme") == (123, 23))
        assert all_at_once(use(one, 10, 2), use(two, 10, 2)) == 26  # 149 of 150
        refused = one.check("k1", 2)
        assert (refused["verdict"], daily(refused)["remaining"]) == ("deny", 0)
        assert two.check("k1")["verdict"] == "allow"
        wait_for("the overage", lambda: site.sums("acme") == (150, 50))

        # The end of the plan: met on one node, which records it; on the other when it is needed there.
        assert all(node.check("k2")["plan"] == "free" for node in site.nodes * 5)
        moved = one.check("k2")
        assert (moved["verdict"], moved["plan"], daily(moved)["remaining"]) == ("allow", "pro", 19)
        wait_for("it is recorded", lambda: len(site.moves(site.folders[0], "globex")) == 1)
        assert site.moves(site.folders[1], "globex") == []
        moved = two.check("k2", 5)
        assert (moved["verdict"], moved["plan"], daily(moved)["remaining"]) == ("allow", "pro", 14)
        wait_for("it is recorded there", lambda: len(site.moves(site.folders[1], "globex")) == 1)

        # The grace of the next plan: admitted, not told, and no overage.
        assert one.check("k2", 16)["verdict"] == "allow"
        assert (one.check("k2")["verdict"], two.check("k2")["verdict"]) == ("allow", "deny")
        wait_for("all is in the ledgers", lambda: site.sums("globex") == (33, 0))
        assert [len(site.moves(folder, "globex")) for folder in site.folders] == [1, 1]

        # By a door that knows keys and no requests: the same customers and the same counts.
        assert [site.nodes[i % 2].resp("WEIR.CHECK", "daily", "k3")[0] for i in range(34)] == [1] * 33 + [0]
        assert site.nodes[0].resp("WEIR.CHECK", "daily", "nobody's", 50)[0] == 1
        wait_for("all is in the ledgers", lambda: site.sums("initech") == (33, 0))
        assert [len(site.moves(folder, "initech")) for folder in site.folders] == [1, 1]


def test_usage_is_told_over_all_nodes(weir, tmp_path):
    """What a caller and an operator see of a shared quota is the store's count; without the store, this node's, and so it says."""
    with Redis() as redis, Site(weir, tmp_path, redis.port) as site:
        one, two = site.nodes

        def own(node, key):
            reply = node.ask("GET", "/v1/usage", headers={"X-Api-Key": key})
            assert reply.status == 200, reply.body
            return reply.json()["quotas"][0]

        def operators(node, name):
            return node.ask("GET", f"/v1/usage?name={name}", door="admin").json()["quotas"][0]

        def told(standing):
            return standing["scope"], standing["used"], standing["limit"], standing["remaining"]

        assert [one.check("k1", 70)["verdict"], two.check("k1", 50)["verdict"]] == ["allow", "allow"]
        assert one.check("k2", 4)["verdict"] == two.check("k2", 3)["verdict"] == "allow"
        wait_for("both ledgers", lambda: (site.standing(site.folders[0], "acme"), site.standing(site.folders[1], "acme"))
                 == ((70, 0), (50, 20)))
        for node in site.nodes:
            assert told(own(node, "k1")) == told(operators(node, "acme")) == ("all", 120, 100, 0)
            assert told(own(node, "k2")) == told(operators(node, "globex")) == ("all", 7, 10, 3)
            assert told(own(node, "k3")) == ("all", 0, 10, 10)
        assert [own(node, "k1")["over"] for node in site.nodes] == [0, 20]
        [quota] = json.loads(site.command(site.folders[0], "usage", "--json", "acme"))["quotas"]
        assert told(quota) == ("node", 70, 100, None) and quota["resets_at"] == own(one, "k1")["resets_at"]
        assert "this node's part" in site.command(site.folders[0], "usage", "acme")

        # A key of it is judged by its customer's plan.
        number = json.loads(site.command(site.folders[0], "customer", "show", "--json", "acme"))["customer"]["id"]
        state = one.ask("GET", f"/v1/keys?limit=daily&by=customer:{number}", door="admin").json()
        assert (state["plan"], state["capacity"], state["used"], state["remaining"], state["scope"]) == ("metered", 100, 120, 0, "all")

        redis.kill()
        for target in (lambda: own(one, "k1"), lambda: operators(one, "acme")):
            assert told(target()) == ("node", 70, 100, None)
        state = two.ask("GET", f"/v1/keys?limit=daily&by=customer:{number}", door="admin").json()
        assert (state["scope"], state["used"], state["capacity"]) == ("node", 50, 100) and "remaining" not in state
