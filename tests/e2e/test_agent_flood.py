"""One client of the agent's socket cannot make decisions of others degrade: whatever it sends, however much, and whether
or not it reads."""
import contextlib
import itertools
import socket
import struct
import threading
import time

import pytest

from agent_wire import DECIDED, RELEASE, Client, ask, fingerprint, frame
from chaos_proxy import ChaosProxy
from redis_servers import Redis, Wire
from serving import Daemon

POLICY = """version: 1
arena: {{path: {dir}/arena, size: 4MiB}}
listen: {{admin: "127.0.0.1:0", resp: "127.0.0.1:0", threads: 1}}
store:
  redis: {{url: "redis://127.0.0.1:{port}/0"}}
  agent: "unix:{dir}/agent.sock"
  deadline: 2s
  shared: true
identity: {{api_key: {{header: X-Api-Key}}}}
limits:
  - {{name: keys, by: [api_key], rate: 1000000/hour, algorithm: fixed-window, when_store_gone: closed}}
"""
MARK = fingerprint([("k", "api_key"), ("h", "X-Api-Key")], ("keys",))


def flood(client, read, first, stop):
    """Ever new keys, as fast as they are taken."""
    number = first
    client.socket.settimeout(0.2)
    while not stop.is_set():
        batch = b"".join(ask(number + i, MARK, fields=[None, f"k{number + i}"]) for i in range(500))
        number += 500
        while batch and not stop.is_set():
            try:
                batch = batch[client.socket.send(batch):]
            except OSError as error:
                if not isinstance(error, TimeoutError):
                    return
            if read:
                try:
                    while client.socket.recv(1 << 20, socket.MSG_DONTWAIT):
                        pass
                except OSError:
                    pass


class Site:
    """A daemon of one loop whose Redis is 100 ms away (there and back), so that what is under way is many."""

    def __init__(self, weir, directory):
        self.redis = Redis()
        self.proxy = ChaosProxy(("127.0.0.1", self.redis.port))
        self.proxy.delay = 0.05
        self.path = directory / "agent.sock"
        policy = directory / "policy.yaml"
        policy.write_text(POLICY.format(dir=directory, port=self.proxy.port))
        self.daemon = Daemon([weir, "serve", "-c", policy, "--log-format", "json"]).ready()
        self.wire = Wire(self.daemon.address("resp")[1])
        self.stop, self.threads = threading.Event(), []

    def background(self, function, *args):
        self.threads.append(threading.Thread(target=function, args=(*args, self.stop)))
        self.threads[-1].start()

    def undisturbed(self, seconds=3):
        """Another caller is answered by the store, each time."""
        begin, count = time.monotonic(), 0
        while time.monotonic() < begin + seconds or count < 10:
            assert self.wire("WEIR.CHECK", "keys", f"me{count}")[0] == 1
            count += 1
        assert not [e for e in self.daemon.events if e["event"] == "store lost"]

    def close(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        self.wire.close()
        self.daemon.close()
        self.proxy.close()
        self.redis.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@pytest.mark.parametrize("connections", [1, 8])
@pytest.mark.parametrize("read", [True, False], ids=["reads", "never_reads"])
def test_a_flood(weir, tmp_path, connections, read):
    with Site(weir, tmp_path) as site, contextlib.ExitStack() as stack:
        for i in range(connections):
            site.background(flood, stack.enter_context(Client(site.path)), read, i * 10**9)
        site.undisturbed()
        with Client(site.path) as client:  # one that asks for little is heard
            for n in range(5):
                assert client.ask(n, MARK, fields=[None, "quiet"]).status == DECIDED
        site.stop.set()


def garbage(path, stop):
    """Ever new connections, each with another kind of nonsense."""
    whole = ask(1, MARK, fields=[None, "x"])
    kinds = [b"\0" * 4096, b"GET / HTTP/1.1\r\n\r\n", struct.pack("<I", 1 << 31), whole[:-1] + b"", whole[:4] + b"\xff" + whole[5:],
             frame(RELEASE, 1, MARK, b""), frame(77, 1, MARK, b"x" * 100), whole * 100 + b"\xff" * 100]
    for kind in itertools.cycle(kinds):
        if stop.is_set():
            return
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(str(path))
                s.sendall(kind)
                s.shutdown(socket.SHUT_WR)
                s.settimeout(2)
                while s.recv(65536):
                    pass
            except OSError:
                pass


def test_malformed_frames(weir, tmp_path):
    with Site(weir, tmp_path) as site:
        for _ in range(2):
            site.background(garbage, site.path)
        site.undisturbed()
        with Client(site.path) as client:
            assert client.ask(1, MARK, fields=[None, "quiet"]).status == DECIDED
