"""Daemons that share one store, each with an arena of its own, and clients of all their doors, for
test_shared_*.py."""
import http.client
import json
import signal
import socket
import threading
import time

from grpc_client import OVER, GrpcClient
from http_door import Reply
from redis_servers import Wire
from serving import DEADLINE, Daemon

KEY = "k1"
DEADLINE_MS = 5000  # of the store: a machine that stands still answers late, and late is gone
SLACK_S = 1.0      # on top of it, the same

POLICY = """version: 1
arena: {{size: 4MiB}}
listen: {{http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, admin: 127.0.0.1:0, threads: {threads}}}
identity: {{api_key: {{header: X-Api-Key}}}}
store: {{redis: {{url: "redis://127.0.0.1:{port}/0"}}, deadline: {deadline}ms{store}}}
limits:
{limits}
"""


def policy(port, *limits, store="", deadline=DEADLINE_MS, threads=1):
    """Limits by the caller's key, all shared unless they say otherwise."""
    lines = "".join(f"  - {{shared: true, by: [api_key], {limit}}}\n" for limit in limits)
    return POLICY.format(port=port, limits=lines, deadline=deadline, threads=threads, store=", " + store if store else "")


def one(key=KEY):
    """A request, for bodies."""
    return {"ip": "192.0.2.1", "headers": {"X-Api-Key": key}}


class Node:
    """One daemon. Every door asks about the key KEY unless told otherwise; True: it passes."""

    def __init__(self, weir, path, text, wrap=()):
        self.path = path
        self.path.write_text(text)
        self.daemon = Daemon([*wrap, weir, "serve", "-c", path, "--log-format", "json"]).ready()
        self.web = self.wire = self.grpc = None

    # ---- doors

    token = None  # of the admin door

    def ask(self, method, target, body=None, headers=None, door="http", fresh=False):
        if door == "admin" and self.token:
            headers = {"Authorization": f"Bearer {self.token}"}
        if door == "admin" or self.web is None or fresh:
            web = http.client.HTTPConnection(*self.daemon.address(door), timeout=DEADLINE)
            if door == "http":
                self.web = web
        else:
            web = self.web
        web.request(method, target, json.dumps(body) if isinstance(body, (dict, list)) else body, headers or {})
        response = web.getresponse()
        return Reply(response, response.read())

    def check(self, key=KEY, cost=1, **more):
        """What POST /v1/check says."""
        reply = self.ask("POST", "/v1/check", {**one(key), "cost": cost, **more})
        assert reply.status == 200, reply.body
        return reply.json()

    def by_check(self):
        return self.check()["verdict"] != "deny"

    def by_array(self, count=1):
        reply = self.ask("POST", "/v1/check", [one()] * count)
        assert reply.status == 200, reply.body
        return sum(a["verdict"] != "deny" for a in reply.json())

    def by_auth(self):
        status = self.ask("GET", "/v1/auth", headers={"X-Api-Key": KEY}).status
        assert status in (200, 429), status
        return status == 200

    def resp(self, *words):
        if self.wire is None:
            host, port = self.daemon.address("resp")
            self.wire = Wire(port, host)
        return self.wire(*words)

    def by_resp(self, limit="shared"):
        return self.resp("WEIR.CHECK", limit, KEY)[0] == 1

    def open_grpc(self, build):
        self.grpc = GrpcClient(build, "%s:%d" % self.daemon.address("grpc"))

    def by_grpc(self):
        return self.grpc.ask("weir", [("x-api-key", KEY)])["code"] != OVER

    # ---- what it says of itself

    def metrics(self):
        """{series with its labels: value}"""
        text = self.ask("GET", "/metrics", door="admin").body.decode()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in text.splitlines() if line and line[0] != "#"}

    def readyz(self):
        reply = self.ask("GET", "/readyz", door="admin")
        return reply.status, reply.json()["detail"]

    def said(self, event):
        return [e for e in list(self.daemon.events) if e["event"] == event]

    def reload(self, text, count=1):
        self.path.write_text(text)
        self.daemon.signal(signal.SIGHUP)
        self.daemon.event("reloaded", count)

    def hang_up(self):
        if self.web is not None:
            self.web.close()
        if self.wire is not None:
            self.wire.close()
        self.wire = None

    def end(self):
        """SIGTERM, and the exit status. A drain waits for connections that are kept: ours are not."""
        self.hang_up()
        return self.daemon.end()

    def close(self):
        if self.grpc is not None:
            self.grpc.close()
        self.hang_up()
        self.daemon.close()


class Nodes:
    def __init__(self, weir, tmp_path, count, text):
        self.nodes = []
        try:
            for i in range(count):
                self.nodes.append(Node(weir, tmp_path / f"node{i}.yaml", text))
        except BaseException:
            self.close()
            raise

    def __getitem__(self, i):
        return self.nodes[i]

    def __iter__(self):
        return iter(self.nodes)

    def close(self):
        for node in self.nodes:
            node.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def all_at_once(*callers):
    """Call each in a thread of its own: the sum of what they return."""
    results, errors = [], []

    def run(caller):
        try:
            results.append(caller())
        except BaseException as error:  # told in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(c,)) for c in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sum(results)


def times(count, caller):
    return lambda: sum(int(caller()) for _ in range(count))


def timed(caller):
    """(seconds, what it returned)"""
    begin = time.monotonic()
    result = caller()
    return time.monotonic() - begin, result


def send_resp(address, *commands):
    """A connection that has sent |commands| in one write and read nothing."""
    s = socket.create_connection(address, DEADLINE)
    s.sendall(b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)
                       for words in commands))
    return s
