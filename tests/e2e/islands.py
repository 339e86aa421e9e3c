"""Daemons in network namespaces, all at one switch, whose cables can be pulled."""
import os
import subprocess

import pytest

from redis_servers import need

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="not root: namespaces cannot be made")


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True)


class Islands:
    """|count| namespaces. Each has a cable to the outside, for its callers, and one to the switch, a bridge in a
    namespace of its own."""

    def __init__(self, count):
        need("ip")
        self.tag, self.count, self.made = os.getpid() % 0x10000, count, []
        self.net = self.tag % 250 + 1
        try:
            self._space("switch")
            self._ip("switch", "link", "add", "bridge0", "type", "bridge")
            self._ip("switch", "link", "set", "bridge0", "up")
            for i in range(count):
                self._island(i)
        except BaseException:
            self.close()
            raise

    def _name(self, what):
        return f"weir{self.tag}-{what}"

    def _ip(self, what, *words):
        ip("-n", self._name(what), *words)

    def _space(self, what):
        ip("netns", "add", self._name(what))
        self.made.append(what)
        self._ip(what, "link", "set", "lo", "up")

    def _island(self, i):
        self._space(i)
        out = self._cable(i)
        ip("link", "add", out, "type", "veth", "peer", "name", "eth0", "netns", self._name(i))
        ip("addr", "add", f"10.214.{self.net}.{4 * i + 1}/30", "dev", out)
        ip("link", "set", out, "up")
        self._ip(i, "addr", "add", f"{self.outside(i)}/30", "dev", "eth0")
        self._ip(i, "link", "set", "eth0", "up")
        self._ip("switch", "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth1", "netns", self._name(i))
        self._ip("switch", "link", "set", f"port{i}", "master", "bridge0", "up")
        self._ip(i, "addr", "add", f"{self.inside(i)}/24", "dev", "eth1")
        self._ip(i, "link", "set", "eth1", "up")

    def _cable(self, i):
        return f"wo{self.tag:x}{i}"

    def outside(self, i):
        """Where its callers reach it."""
        return f"10.214.{self.net}.{4 * i + 2}"

    def inside(self, i):
        """Where the others do."""
        return f"10.215.{self.net}.{i + 1}"

    def wrap(self, i):
        return "ip", "netns", "exec", self._name(i)

    def pull(self, i):
        """Packets vanish, both ways."""
        self._ip("switch", "link", "set", f"port{i}", "down")

    def plug(self, i):
        self._ip("switch", "link", "set", f"port{i}", "up")

    def close(self):
        for what in self.made:
            if what != "switch":  # else it goes some time after its namespace
                subprocess.run(["ip", "link", "del", self._cable(what)], check=False)
            subprocess.run(["ip", "netns", "del", self._name(what)], check=False)
        self.made = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
