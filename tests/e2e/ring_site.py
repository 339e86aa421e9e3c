"""Daemons of a ring with a proxy in each line between two of them. They have names, which each looks up in a hosts file
of its own: its own name is where it listens, the others' are its proxies."""
import pathlib
import signal

from chaos_load import DEADLINE_MS
from chaos_proxy import ChaosProxy
from redis_servers import free_port
from serving import wait_for
from shared_nodes import Node, policy

COUNT = 3
LOOPS = 2


class RingSite:
    def __init__(self, weir, directory, limits, mode, deadline=DEADLINE_MS):
        self.weir, self.directory, self.port = weir, directory, free_port()
        self.ids = [f"node{i}.weir.example:{self.port}" for i in range(COUNT)]
        self.proxies = {(i, j): ChaosProxy((f"127.61.0.{j + 1}", self.port), (f"127.60.{i}.{j + 1}", self.port))
                        for i in range(COUNT) for j in range(COUNT) if i != j}
        self.texts = [self._policy(i, limits, mode, deadline) for i in range(COUNT)]
        self.nodes = [None] * COUNT
        for i in range(COUNT):
            self._hosts(i)
            self.start(i)
        self.settle(range(COUNT))

    def _policy(self, number, limits, mode, deadline):
        text = policy(1, *limits, deadline=deadline, store=f"mode: {mode}", threads=LOOPS)
        peers = ", ".join(f'"{each}"' for each in self.ids)
        return text.replace('redis: {url: "redis://127.0.0.1:1/0"}',
                            f'ring: {{self: "{self.ids[number]}", peers: [{peers}], password: secret}}').replace(
                                "arena: {size: 4MiB}", f'arena: {{path: "{self.directory}/arena{number}", size: 4MiB}}')

    def _hosts(self, number):
        lines = [f"127.6{0 if i != number else 1}.{number if i != number else 0}.{i + 1} node{i}.weir.example" for i in range(COUNT)]
        (self.directory / f"hosts{number}").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))

    def start(self, number, empty=False):
        if empty:
            pathlib.Path(f"{self.directory}/arena{number}").unlink()
        hosts = self.directory / f"hosts{number}"
        wrap = ("unshare", "--mount", "sh", "-ec", f'mount --bind "{hosts}" /etc/hosts; exec "$@"', "sh")
        self.nodes[number] = Node(self.weir, self.directory / f"weir{number}.yaml", self.texts[number], wrap=wrap)

    def end(self, number, how=signal.SIGTERM):
        """Its exit status."""
        self.nodes[number].daemon.signal(how)
        return self.nodes[number].daemon.wait()

    def lines(self, number):
        """The proxies to and from that node."""
        return [p for pair, p in self.proxies.items() if number in pair]

    def settle(self, numbers):
        """All of them count with each other, and nothing moves any more."""
        numbers = list(numbers)
        for i in numbers:
            wait_for(f"{i} counts {numbers}", lambda: self._is_settled(self.nodes[i], len(numbers)))

    def _is_settled(self, node, count):
        metrics = node.metrics()
        up = sum(v for k, v in metrics.items() if k.startswith("weir_ring_peer_up"))
        return metrics["weir_store_nodes"] == count and up == count - 1 and node.readyz()[1] == "serving"

    def forwarded(self, number, to):
        return self.nodes[number].metrics()[f'weir_ring_forwarded_total{{peer="{self.ids[to]}"}}']

    def owner(self, limit, key):
        """Who counts the key: whom a node asks for it; while not all are ready that may be somebody else."""
        def look():
            before = [self.forwarded(0, n) for n in (1, 2)]
            try:
                self.nodes[0].resp("WEIR.PEEK", limit, key)
            except RuntimeError:  # too late, of a machine that stood still
                return False
            asked = [n for n, b in zip((1, 2), before) if self.forwarded(0, n) > b]
            return (len(asked) < 2) and (asked or [0])[0] + 1
        found = []
        wait_for("one owner", lambda: found.append(look()) or (len(found) > 3 and found[-1] and len(set(found[-3:])) == 1))
        return found[-1] - 1

    def changes(self, number, of):
        return [e["change"] for e in self.nodes[number].said("ring") if e["node"] == self.ids[of]]

    def close(self):
        for node in self.nodes:
            if node is not None:
                node.daemon.process.send_signal(signal.SIGCONT)
                node.close()
        for proxy in self.proxies.values():
            proxy.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
