"""The RESP door under load: several clients that pipeline, on several loops, over reloads. Under a sanitizer
(scripts/sanitize.sh) this is what shows a race; without one, that nobody is answered twice and no unit is lost."""
import signal
import threading

from test_resp import Client, command

CLIENTS, ROUNDS, PIPELINE, ALLOWED = 8, 30, 100, 5000
POLICY = f"""version: 1
arena: {{size: 4MiB}}
listen: {{resp: "127.0.0.1:0", threads: 2}}
identity: {{api_key: {{header: X-Api-Key}}}}
limits:
  - {{name: shared, by: [api_key], rate: 1/day burst {ALLOWED}, algorithm: token-bucket}}
  - {{name: log, by: [api_key], rate: 500/day, algorithm: sliding-log}}
  - {{name: places, by: [api_key], concurrent: 3, hold: 10ms}}
"""


class Caller(threading.Thread):
    """Pipelines; counts what it was allowed of the keys that all share."""

    def __init__(self, address, number):
        super().__init__()
        self.client, self.number, self.allowed, self.error = Client(address), number, [0, 0, 0], None

    def run(self):
        try:
            for i in range(ROUNDS):
                self.once(i)
        except BaseException as error:  # told by the test's own thread
            self.error = error
        self.client.close()

    def once(self, i):
        calls = [("CL.THROTTLE", "all", ALLOWED - 1, 1, 86400), ("WEIR.CHECK", "shared", "all"), ("WEIR.CHECK", "log", "all"),
                 ("CL.THROTTLE", f"own{self.number}-{i}", 99, 1, 3600), ("WEIR.RESERVE", "places", "all", 1, 10)]
        self.client.raw(b"".join(command(*call) for call in calls) * PIPELINE)
        for n in range(PIPELINE):
            cell, shared, log, own, place = (self.client.receive() for _ in calls)
            self.allowed[0] += cell[0] == 0
            self.allowed[1] += shared[0]
            self.allowed[2] += log[0]
            assert own[:3] == [0, 100, 99 - n]
            assert (place[6] is not None) == bool(place[0])


def test_several_clients_that_pipeline_over_reloads(daemon):
    callers = [Caller(daemon.address("resp"), i) for i in range(CLIENTS)]
    for caller in callers:
        caller.start()
    for i in range(5):
        daemon.signal(signal.SIGHUP)
        daemon.event("reloaded", i + 1)
    for caller in callers:
        caller.join()
        assert caller.error is None, caller.error
    asked = CLIENTS * ROUNDS * PIPELINE
    got = [sum(caller.allowed[i] for caller in callers) for i in range(3)]
    assert asked > ALLOWED and got == [ALLOWED, ALLOWED, 500]  # nothing comes back within a day
    assert daemon.end() == 0
