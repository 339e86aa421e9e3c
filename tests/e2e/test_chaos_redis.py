"""Two daemons under load and one Redis that is hurt in every way, strict and leased: what chaos_site.py looks at."""
import contextlib
import time

import pytest

from chaos_load import COLD, DEADLINE_MS, LIMITS
from chaos_site import (Site, delayed, half_closed_again_and_again, holds_and_recovers, killed_and_restarted_empty, paused,
                        reset_and_refused, swallowed)
from redis_servers import Redis, Wire
from shared_nodes import policy


class RedisSite(Site):
    kind = "redis"

    def __init__(self, tmp_path):
        self.password = tmp_path / "password"
        self.password.write_text("right\n")
        self.word = "right"
        super().__init__(Redis("--requirepass", self.word))

    def admin(self, *words):
        wire = Wire(self.server.port)
        try:
            wire("AUTH", self.word)
            return wire(*words)
        finally:
            wire.close()

    def policy(self, mode, deadline):
        text = policy(self.proxy.port, *LIMITS, COLD, deadline=deadline, store=f"mode: {mode}, nodes: 2")
        return text.replace('/0"}', f'/0", password_file: "{self.password}"}}')


@contextlib.contextmanager
def scripts_flushed(site):
    site.silent = True
    for _ in range(10):
        site.admin("SCRIPT", "FLUSH")
        time.sleep(0.02)
    yield


@contextlib.contextmanager
def full(site):
    site.admin("CONFIG", "SET", "maxmemory", 1)
    yield
    site.admin("CONFIG", "SET", "maxmemory", 0)


@contextlib.contextmanager
def wrong_password(site):
    """The operator changes it at the server first, and in the file of the nodes later."""
    site.admin("CONFIG", "SET", "requirepass", "changed")
    site.word = "changed"
    site.admin("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    yield
    site.password.write_text("changed\n")


TROUBLES = [killed_and_restarted_empty, paused, scripts_flushed, full, wrong_password, delayed, swallowed,
            reset_and_refused, half_closed_again_and_again]


@pytest.mark.parametrize("mode", ["strict", "leased"])
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda t: t.__name__)
def test_what_was_promised_holds_and_it_recovers(weir, tmp_path, trouble, mode):
    deadline = 5000 if trouble is scripts_flushed else DEADLINE_MS  # nobody may notice: nor a machine that stands still
    with RedisSite(tmp_path) as site:
        holds_and_recovers(weir, tmp_path, site, trouble, mode, deadline)
