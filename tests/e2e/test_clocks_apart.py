"""The machine's clock was set after the arena was made: quotas' days begin too late or early, and somebody is told."""
import json
import struct
import urllib.request

import pytest

from serving import Daemon

HOURS_3 = 3 * 3600
POLICY = """version: 1
arena: {{path: {folder}/arena, size: 4MiB}}
listen: {{admin: 127.0.0.1:0, http: 127.0.0.1:0, threads: 1}}
limits:
  - {{name: daily, by: [ip], quota: {{limit: 1000, per: day}}}}
"""


def get(daemon, path):
    with urllib.request.urlopen("http://%s:%d%s" % (*daemon.address("admin"), path)) as reply:
        return reply.read().decode()


def behind(daemon):
    """Seconds, by clock."""
    lines = [line for line in get(daemon, "/metrics").splitlines() if line.startswith("weir_clock_behind_seconds{")]
    return {line.split('"')[1]: float(line.split()[1]) for line in lines}


@pytest.mark.parametrize("late, words, clock", [(HOURS_3, "ahead of the clock of decisions, so days, weeks and months of quotas "
                                                 "begin so much too late", "decisions"),
                                                (-HOURS_3, "behind the clock of decisions, so days, weeks and months of quotas "
                                                 "begin so much too early", "machine")])
def test_it_is_told(weir, tmp_path, late, words, clock):
    (tmp_path / "policy.yaml").write_text(POLICY.format(folder=tmp_path))
    command = [weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"]
    daemon = Daemon(command).ready()
    assert json.loads(get(daemon, "/readyz"))["detail"] == "serving" and behind(daemon) == {"decisions": 0, "machine": 0}
    assert daemon.end() == 0
    with open(tmp_path / "arena", "r+b") as arena:  # docs/formats/arena.md: offset_ns and recorded_ns
        arena.seek(168)
        times = [ns - late * 10**9 for ns in struct.unpack("<2q", arena.read(16))]
        arena.seek(168)
        arena.write(struct.pack("<2q", *times))
    daemon = Daemon(command).ready()
    detail = json.loads(get(daemon, "/readyz"))["detail"]
    seconds = behind(daemon)
    assert detail.startswith("serving, the machine's clock is ") and detail.endswith(words), detail
    assert abs(int(detail.split()[5]) - HOURS_3) <= 1 and abs(seconds.pop(clock) - HOURS_3) < 1 and list(seconds.values()) == [0]
    assert daemon.event("clocks apart")["detail"].endswith(words)
    assert daemon.end() == 0
    assert sum(event["event"] == "clocks apart" for event in daemon.events) == 1
