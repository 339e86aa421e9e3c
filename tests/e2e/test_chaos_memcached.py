"""Two daemons under load and one memcached that is hurt in every way, strict and leased: what chaos_site.py looks at.
Memcached forgets when it restarts, and what was refused around that moment is taken off the new count."""
import contextlib

from chaos_load import COLD, LIMITS, UNDER_WAY, troubles
from chaos_site import (Site, delayed, half_closed_again_and_again, holds_and_recovers, killed_and_restarted_empty, paused,
                        reset_and_refused, swallowed)
from shared_nodes import policy
from test_memcached import Memcached


class MemcachedSite(Site):
    kind = "memcached"
    taken_off = UNDER_WAY

    def __init__(self):
        super().__init__(Memcached())

    def policy(self, mode, deadline):
        text = policy(self.proxy.port, *LIMITS, COLD, deadline=deadline, store=f"mode: {mode}, nodes: 2")
        return text.replace(f'redis: {{url: "redis://127.0.0.1:{self.proxy.port}/0"}}',
                            f'memcached: {{servers: ["127.0.0.1:{self.proxy.port}"]}}')


@contextlib.contextmanager
def flushed(site):
    """It answers all the while, and has forgotten."""
    site.silent, site.forgets = True, 1
    assert site.server.ask("flush_all\r\n") == "OK\r\n"
    yield


TROUBLES = [killed_and_restarted_empty, paused, flushed, delayed, swallowed, reset_and_refused, half_closed_again_and_again]


@troubles(TROUBLES)
def test_what_was_promised_holds_and_it_recovers(weir, tmp_path, trouble, mode):
    with MemcachedSite() as site:
        holds_and_recovers(weir, tmp_path, site, trouble, mode)
