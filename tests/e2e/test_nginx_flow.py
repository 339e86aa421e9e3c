"""Requests on their way: delays, places, aborts, many workers, reloads, kills."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from gateway import Gateway, gateway  # noqa: F401 (a fixture)

BURST = "limits: [{name: burst, by: [ip], rate: 100/hour, algorithm: token-bucket}]\n"
QUEUE = "limits: [{name: queue, by: [ip], rate: 20/second queue 9, algorithm: leaky-bucket}]\n"
# A slow upstream: at 2000 bytes a second the 10 000 bytes of /slow take 5 s.
SLOW = "location /slow { limit_rate 2000; alias %(dir)s/html/slow; }"


def at_once(gate, count, path="/", threads=16):
    """|count| requests from |threads| threads: [(status, seconds since the start)]."""
    start = time.monotonic()

    def one(_):
        status = gate.get(path).status
        return status, time.monotonic() - start

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(count)))


# ---- delays --------------------------------------------------------------------------------------------


def test_leaky_bucket_spaces_requests(gateway):
    """Five a second, nine may queue: of twelve at once ten leave 200 ms apart, two are refused at once."""
    g = gateway("limits: [{name: queue, by: [ip], rate: 5/second queue 9, algorithm: leaky-bucket}]\n")
    got = at_once(g, 12, threads=12)
    assert sorted(status for status, _ in got) == [200] * 10 + [429] * 2
    assert max(t for status, t in got if status == 429) < 0.2
    departures = []
    for line in g.access(22):  # ten are also of the API's server
        delay, at, took = (float(re.search(rf"{name}=([\d.]+|-)", line).group(1).replace("-", "0"))
                           for name in ("delay", "at", "took"))
        if "verdict=-" in line or line.startswith("429"):
            continue
        assert took >= delay - 0.001  # never sent on before its time; both in whole ms
        assert took <= delay + 0.200  # nor long after it, on a busy machine
        departures.append(at - took + delay)
    departures.sort()
    for i, departure in enumerate(departures):  # exact, but for nginx's clock: when it woke up
        assert abs(departure - departures[0] - i * 0.200) < 0.030


def test_delay_is_never_short(gateway):
    """One request after the other: each leaves 50 ms after the one before."""
    g = gateway(QUEUE)
    c = g.connect()
    g.get("/", connection=c)
    start = time.monotonic()
    for _ in range(10):
        g.get("/", connection=c)
    # Ten gaps since the first departure, which was up to one answer before the start.
    assert time.monotonic() - start >= 10 * 0.050 - 0.020


def test_delayed_on_http2(gateway):
    if shutil.which("nghttp") is None:
        pytest.skip("nghttp is not installed (nghttp2-client)")
    g = gateway(QUEUE, listen="http2")
    start = time.monotonic()
    done = subprocess.run(["nghttp", "-n", "-s", *[f"http://127.0.0.1:{g.port}/{i}" for i in range(12)]],
                          capture_output=True, text=True, timeout=20)
    took = time.monotonic() - start
    codes = re.findall(r" (200|429) +\d+\S* /", done.stdout)
    assert sorted(codes) == ["200"] * 10 + ["429"] * 2, done.stdout
    assert took >= 0.45


def test_shadow_does_not_hide_a_delay(gateway):
    g = gateway("""limits:
  - {name: queue, by: [ip], rate: 20/second queue 9, algorithm: leaky-bucket}
  - {name: new, by: [ip], rate: 0/hour, algorithm: token-bucket, mode: shadow}
""")
    c = g.connect()
    start = time.monotonic()
    assert [g.get("/", connection=c).status for _ in range(5)] == [200] * 5
    assert time.monotonic() - start >= 0.190


def test_client_gone_during_a_delay(gateway):
    """Eight clients leave while they are delayed; the server neither crashes nor serves them."""
    g = gateway("limits: [{name: queue, by: [ip], rate: 5/second queue 50, algorithm: leaky-bucket}]\n")
    g.get("/")
    socks = []
    for _ in range(8):
        s = socket.create_connection(("127.0.0.1", g.port))
        s.sendall(b"GET /gone HTTP/1.1\r\nHost: x\r\n\r\n")
        socks.append(s)
    time.sleep(0.05)
    for s in socks:
        s.close()
    lines = g.access(9, 8)
    assert sum(line.startswith("499 ") for line in lines) >= 7  # the first may have been sent on
    assert g.get("/").status == 200
    assert len(g.workers()) == 1


def test_http2_client_gone_during_a_delay(gateway):
    g = gateway("limits: [{name: queue, by: [ip], rate: 1/second queue 50, algorithm: leaky-bucket}]\n", listen="http2")
    command = ["curl", "-s", "-o", "/dev/null", "--http2-prior-knowledge", f"http://127.0.0.1:{g.port}/"]
    assert subprocess.run(command, timeout=10).returncode == 0
    assert subprocess.run([*command, "-m", "0.2"], timeout=10).returncode == 28
    assert subprocess.run([*command, "-m", "0.2"], timeout=10).returncode == 28
    assert len(g.access(3)) == 3
    assert subprocess.run(command, timeout=10).returncode == 0
    assert len(g.workers()) == 1


# ---- places (concurrency) ------------------------------------------------------------------------------


def slow_gateway(gateway, **more):
    """Two at a time. GET /slow trickles for about 5 s."""
    g = gateway("limits: [{name: places, match: {path: /slow}, by: [ip], concurrent: 2, hold: 8s}]\n", start=False,
                api=SLOW, server="proxy_buffering off;", **more)
    (g.dir / "html" / "slow").write_bytes(b"x" * 10_000)
    return g.start()


def open_slow(gate):
    """Send GET /slow and read its status; the rest keeps trickling."""
    s = socket.create_connection(("127.0.0.1", gate.port), timeout=10)
    s.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    return s, int(s.recv(4096).split()[1])


def test_places_are_freed_at_the_end(gateway):
    g = gateway("limits: [{name: places, by: [ip], concurrent: 2, hold: 60s}]\n")
    c = g.connect()
    assert [g.get("/", connection=c).status for _ in range(30)] == [200] * 30


def test_places_are_held_while_streaming_and_freed_on_abort(gateway):
    g = slow_gateway(gateway)
    (a, first), (b, second), (c, third) = open_slow(g), open_slow(g), open_slow(g)
    assert (first, second, third) == (200, 200, 429)
    c.close()
    a.close()
    Gateway.wait_for(lambda: open_slow_status(g) == 200, 4)  # well before hold
    b.close()


def open_slow_status(gate):
    s, status = open_slow(gate)
    s.close()
    time.sleep(0.05)
    return status


def test_places_are_freed_when_a_delayed_client_leaves(gateway):
    g = gateway("""limits:
  - {name: places, by: [ip], concurrent: 1, hold: 60s}
  - {name: queue, match: {path: /q}, by: [ip], rate: 1/minute queue 5, algorithm: leaky-bucket}
""")
    assert g.get("/q").status == 200
    s = socket.create_connection(("127.0.0.1", g.port))
    s.sendall(b"GET /q HTTP/1.1\r\nHost: x\r\n\r\n")  # to be sent on in a minute
    time.sleep(0.2)
    assert g.get("/").status == 429
    s.close()
    Gateway.wait_for(lambda: g.get("/").status == 200, 5)


def test_places_are_freed_by_a_fast_stop(gateway):
    """SIGTERM ends the workers at once, and their requests with them: the next start has all places."""
    g = slow_gateway(gateway)
    held = [open_slow(g) for _ in range(3)]
    assert [status for _, status in held] == [200, 200, 429]
    g.stop(signal.SIGTERM)
    g.start()
    assert open_slow(g)[1] == 200
    g.stop(signal.SIGTERM)


def test_places_of_a_killed_worker_are_freed_in_time(gateway):
    """kill -9 of the worker: its places come back when their hold is over, at the latest."""
    g = slow_gateway(gateway)
    start = time.monotonic()
    held = [open_slow(g) for _ in range(3)]
    assert [status for _, status in held] == [200, 200, 429]
    old = g.workers()
    os.kill(old[0], signal.SIGKILL)
    Gateway.wait_for(lambda: g.workers() and g.workers() != old)
    Gateway.wait_for(lambda: open_slow_status(g) == 200, 10)
    assert time.monotonic() - start < 9
    g.stop(signal.SIGTERM)
    g.log.write_text(g.errors().replace("[alert]", "[expected]"))  # nginx reports the kill


# ---- many workers --------------------------------------------------------------------------------------


def count_allowed(gate, seconds=3.0, threads=16, disturb=None):
    """How many of as many requests as |threads| can send are let through while |disturb| runs."""
    end = time.monotonic() + seconds
    counts = []

    def client():
        counts_here = {}
        while time.monotonic() < end:
            try:
                status = gate.get("/").status
            except (OSError, ValueError):
                status = 0  # its worker was killed: not let through, or let through unseen
            except Exception:  # http.client's own, for a connection that was cut
                status = 0
            counts_here[status] = counts_here.get(status, 0) + 1
        counts.append(counts_here)

    workers = [threading.Thread(target=client) for _ in range(threads)]
    for w in workers:
        w.start()
    if disturb:
        disturb(end)
    for w in workers:
        w.join()
    return {s: sum(c.get(s, 0) for c in counts) for s in {k for c in counts for k in c}}


def test_four_workers_admit_exactly_the_burst(gateway):
    g = gateway(BURST, workers=4)
    got = count_allowed(g, 2.0)
    assert got[200] == 100 and set(got) == {200, 429}


def test_reloads_forget_nothing(gateway):
    g = gateway(BURST, workers=4)

    def reloads(end):
        for _ in range(5):
            time.sleep(0.3)
            g.reload()

    got = count_allowed(g, 3.5, disturb=reloads)
    assert got[200] == 100 and set(got) == {200, 429}
    assert g.get("/").status == 429
    maps = [len(re.findall(re.escape(str(g.arena)), pathlib.Path(f"/proc/{p}/maps").read_text()))
            for p in [g.master.pid, *g.workers()]]
    assert max(maps) - min(maps) == 0 and min(maps) >= 1  # none left over from before


def test_killed_workers_forget_nothing(gateway):
    g = gateway(BURST, workers=4)

    def kills(end):
        for _ in range(6):
            time.sleep(0.2)
            os.kill(g.workers()[0], signal.SIGKILL)

    got = count_allowed(g, 2.5, disturb=kills)
    # A request that was charged when its worker was killed got no answer: at most one per client and kill.
    assert 0 < got[200] <= 100
    assert g.get("/").status == 429
    g.stop()
    g.log.write_text(g.errors().replace("[alert]", "[expected]"))


def test_restart_forgets_nothing(gateway):
    g = gateway(BURST, workers=2)
    assert g.statuses(60) == [200] * 60
    g.stop()
    g.start()
    assert g.statuses(41) == [200] * 40 + [429]


def test_changed_rate_keeps_what_was_used(gateway):
    g = gateway(BURST)
    assert g.statuses(10) == [200] * 10
    g.set_policy(BURST.replace("100/hour", "20/hour"))
    g.reload()
    left = int(g.get("/").one("X-RateLimit-Remaining"))
    assert left < 19  # 100 - 11 of 100 used, carried over; never a fresh 20


def test_unusable_policy_at_reload_leaves_the_old_one(gateway):
    g = gateway(BURST)
    g.get("/")
    g.set_policy("limits: [{name: burst, rate: many}]\n")
    g.master.send_signal(signal.SIGHUP)
    Gateway.wait_for(lambda: "cannot be used" in g.errors())
    assert re.search(r"\[emerg\].*policy\.yaml:3:\d+: error: ", g.errors())
    assert g.get("/").one("X-RateLimit-Remaining") == "98"
    g.set_policy(BURST)
    g.reload()
    assert g.get("/").one("X-RateLimit-Remaining") == "97"
    g.stop()
    g.log.write_text(g.errors().replace("[emerg]", "[expected]"))


def test_unusable_arena_at_reload_leaves_the_old_one(gateway):
    g = gateway(BURST)
    g.get("/")
    g.arena = g.dir / "foreign"
    g.arena.write_text("not an arena")
    g.set_policy(BURST)
    g.master.send_signal(signal.SIGHUP)
    Gateway.wait_for(lambda: "cannot be used" in g.errors())
    assert g.get("/").one("X-RateLimit-Remaining") == "98"
    g.stop()
    g.log.write_text(g.errors().replace("[emerg]", "[expected]"))


def test_policy_without_an_arena_keeps_its_counts_over_reloads(gateway):
    g = gateway(BURST, arena=None)
    assert g.statuses(10) == [200] * 10
    g.reload()
    assert g.get("/").one("X-RateLimit-Remaining") == "89"
    files = set(re.findall(r"\S*/weir-nginx-\S+\.arena", pathlib.Path(f"/proc/{g.master.pid}/maps").read_text()))
    assert len(files) == 1
    g.stop()
    os.unlink(files.pop())


def mounts(*commands):
    """A command that runs another where /run and /dev/shm are mounted otherwise; skips where that is not allowed."""
    inside = ["unshare", "-m", "sh", "-ec", "\n".join([*commands, 'exec "$@"']), "sh"]
    if shutil.which("unshare") is None or subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("may not mount file systems in a name space of its own (unshare -m)")
    return inside


TMPFS, DISK = "mount -t tmpfs tmpfs {at}", "mount --bind {dir}{at} {at}"


def with_mounts(gateway, run, shm):
    """A gateway with the default arena, and the command to start it under."""
    if os.geteuid() != 0:
        pytest.skip("not root: the default arena is in /dev/shm")
    g = gateway(BURST, start=False, arena=None)
    (g.dir / "run").mkdir()
    (g.dir / "dev" / "shm").mkdir(parents=True)
    kind = subprocess.run(["stat", "-f", "-c", "%T", g.dir], capture_output=True, text=True).stdout.strip()
    if kind == "tmpfs":
        pytest.skip(f"{g.dir} is itself in memory: TMPDIR on a disk, please")
    return g, mounts(run.format(dir=g.dir, at="/run"), shm.format(dir=g.dir, at="/dev/shm"))


@pytest.mark.parametrize("run, shm, folder, warning", [
    (TMPFS, TMPFS, "run", None),
    (DISK, TMPFS, "dev/shm", None),  # as in many a container
    (DISK, TMPFS + " -o size=16m", "run", "use a tmpfs such as /dev/shm"),  # too small for the arena
    (DISK, DISK, "run", "mount a tmpfs for it"),
])
def test_default_arena_is_in_memory_if_anything_is(gateway, run, shm, folder, warning):
    g, command = with_mounts(gateway, run, shm)
    g.start(command)
    root = pathlib.Path(f"/proc/{g.master.pid}/root")
    found = [*(root / "run").glob("weir-nginx-*.arena"), *(root / "dev/shm").glob("weir-nginx-*.arena")]
    assert [str(path.parent.relative_to(root)) for path in found] == [folder]
    assert re.findall(r"lies on a disk file system.*milliseconds; (.*)", g.errors()) == ([warning] if warning else [])


def test_default_arena_of_another_user_is_refused(gateway):
    """Whoever owns the arena can grant himself requests: in /dev/shm anybody could have made it first."""
    g, command = with_mounts(gateway, DISK, DISK)
    g.start(command)
    g.stop()
    (arena,) = (g.dir / "run").glob("weir-nginx-*.arena")
    os.chown(arena, 65534, 65534)
    with pytest.raises(AssertionError, match="belongs to another user: remove it"):
        g.start(command)
    g.log.write_text(g.errors().replace("[emerg]", "[expected]"))


def test_single_process(gateway):
    g = gateway(BURST, main="master_process off;")
    assert g.get("/").one("X-RateLimit-Remaining") == "99"


def test_workers_without_privileges(gateway):
    """As root, nginx serves as another user, who cannot open the arena by its name."""
    root = os.geteuid() == 0
    g = gateway("""limits:
  - {name: exact, by: [ip], rate: 5/minute, algorithm: sliding-log}
  - {name: places, by: [ip], concurrent: 3, hold: 60s}
""", main="user nobody nogroup;" if root else "", workers=2)
    assert not root or pathlib.Path(f"/proc/{g.workers()[0]}").stat().st_uid != 0
    assert g.statuses(6) == [200] * 5 + [429]
    g.reload()
    assert g.get("/").status == 429


# ---- valgrind ------------------------------------------------------------------------------------------


def test_under_valgrind(gateway):
    """A short load with everything in it: no error of memcheck in the module or in libweir."""
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    g = gateway("""identity: {api_key: {header: X-Api-Key}}
limits:
  - {name: rate, by: [ip], rate: 10/hour, algorithm: token-bucket}
  - {name: exact, by: [api_key], rate: 100/hour, algorithm: sliding-log}
  - {name: queue, match: {path: /q}, by: [ip], rate: 20/second queue 9, algorithm: leaky-bucket}
  - {name: places, by: [ip], concurrent: 5, hold: 60s}
""", start=False, main="master_process off;", arena="2MiB",
                server="location /page { error_page 429 /file; proxy_pass http://127.0.0.1:%(up)d; }")
    report = g.dir / "valgrind.txt"
    try:
        g.start(["valgrind", "-q", "--error-exitcode=99", f"--log-file={report}", "--leak-check=no",
                 "--undef-value-errors=yes"])
    except AssertionError as e:
        if report.exists() and "cmpxchg16b" in report.read_text():
            pytest.skip("this valgrind does not know cmpxchg16b")
        raise e
    for path in ("/", "/q", "/q", "/page", "/none"):
        g.get(path, headers={"X-Api-Key": "k", "X-Forwarded-For": "1.1.1.1"}, method="POST", body=b"x" * 5000)
    g.statuses(8, "/page")
    g.statuses(2)
    master = g.master
    g.stop()
    text = report.read_text()
    ours = [block for block in text.split("\n==") if "weir" in block]
    assert not ours, text
    assert master.returncode != 99, text


def test_the_first_list_limit_comes_with_a_reload(gateway):
    """The arena is divided when it is made; a concurrency limit added later must find room for its lists, and a
    changed size must not stop a reload."""
    g = gateway(BURST)
    assert g.get("/").status == 200
    g.arena_size = "8MiB"
    g.set_policy(BURST.replace("}]", "}, {name: places, by: [ip], concurrent: 5}, "
                                     "{name: log, by: [ip], rate: 2/hour, algorithm: sliding-log}]"))
    g.reload()
    assert [g.get("/").status for _ in range(3)] == [200, 200, 429]
