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

# Rates are slow, or their times are compared one way only: on a machine that stalls anything may be late, and then
# nothing here may fail. What may never be is early.
BURST = "limits: [{name: burst, by: [ip], rate: 100/day, algorithm: token-bucket}]\n"
QUEUE = "limits: [{name: queue, by: [ip], rate: 20/second queue 9, algorithm: leaky-bucket}]\n"
LONG_QUEUE = """limits:
  - {name: queue, match: {path: /q}, by: [ip], rate: 1/hour queue 9, algorithm: leaky-bucket}
"""
# A slow upstream: at 2000 bytes a second the 200 000 bytes of /slow take 100 s.
SLOW = "location /slow { limit_rate 2000; alias %(dir)s/html/slow; }"


def at_once(gate, count, path="/"):
    """|count| requests from as many threads: their statuses."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: gate.get(path).status, range(count)))


def delayed(gate):
    """How many requests it has begun to hold back: by its debug log."""
    return gate.errors().count("weir: outcome:1 ")


def ask_delayed(gate, path, count):
    """Send |count| requests that will be delayed; their sockets, once all of them are."""
    socks = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", gate.port), timeout=60)
        s.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
        socks.append(s)
    Gateway.wait_for(lambda: delayed(gate) == count)
    return socks


def decided(gate, count):
    """What the gateway logged of |count| requests that it decided: dicts, times in s, in the order of the log."""
    path = gate.dir / "access.log"

    def lines():
        return [x for x in path.read_text(errors="replace").splitlines() if "verdict=-" not in x] if path.exists() else []
    Gateway.wait_for(lambda: len(lines()) >= count)
    return [{"status": int(line.split()[0]), "verdict": re.search(r"verdict=(\S+)", line).group(1),
             **{name: float(re.search(rf" {name}=(\S+)", line).group(1).replace("-", "0"))
                for name in ("delay", "at", "took")}} for line in lines()]


# ---- delays --------------------------------------------------------------------------------------------


def test_leaky_bucket_spaces_requests(gateway):
    """Five a second: of ten at once each is sent on when it is its turn, by the server's own log (whole ms)."""
    g = gateway("limits: [{name: queue, by: [ip], rate: 5/second queue 9, algorithm: leaky-bucket}]\n")
    assert at_once(g, 10) == [200] * 10
    requests = decided(g, 10)
    first = min(r["at"] - r["took"] for r in requests)
    for r in requests:
        assert r["took"] >= r["delay"] - 0.002
    for i, ended in enumerate(sorted(r["at"] for r in requests)):
        assert ended >= first + i * 0.200 - 0.005


def test_leaky_bucket_reckons_delays_and_refuses_what_does_not_fit(gateway):
    """One an hour, nine may queue: the delays are whole hours less the time that has passed; then it is full."""
    g = gateway(LONG_QUEUE, errors="debug")
    start = time.monotonic()
    assert g.get("/q").status == 200
    waiting = ask_delayed(g, "/q", 9)
    assert g.statuses(2, "/q") == [429, 429]
    assert g.get("/other").status == 200
    for s in waiting:
        s.close()
    passed = time.monotonic() - start
    requests = decided(g, 12)
    assert sorted(r["status"] for r in requests if r["verdict"] == "delay") == [499] * 9
    delays = sorted(r["delay"] for r in requests if r["verdict"] == "delay")
    for i, delay in enumerate(delays, 1):
        assert 3600 * i - passed - 1 <= delay <= 3600 * i


def test_delay_is_never_short(gateway):
    """One request after the other: each leaves 50 ms after the one before."""
    g = gateway(QUEUE)
    c = g.connect()
    start = time.monotonic()
    for _ in range(11):
        g.get("/", connection=c)
    assert time.monotonic() - start >= 10 * 0.050 - 0.002


def test_delayed_on_http2(gateway):
    if shutil.which("nghttp") is None:
        pytest.skip("nghttp is not installed (nghttp2-client)")
    g = gateway("""limits:
  - {name: queue, by: [ip], rate: 20/second queue 9, algorithm: leaky-bucket}
  - {name: refused, match: {path: /refused}, by: [ip], rate: 0/hour, algorithm: token-bucket}
""", listen="http2")
    start = time.monotonic()
    done = subprocess.run(["nghttp", "-n", "-s", *[f"http://127.0.0.1:{g.port}/{i}" for i in range(10)],
                           f"http://127.0.0.1:{g.port}/refused"], capture_output=True, text=True, timeout=60)
    took = time.monotonic() - start
    codes = re.findall(r" (200|429) +\d+\S* /", done.stdout)
    assert sorted(codes) == ["200"] * 10 + ["429"], done.stdout
    assert took >= 0.45 - 0.002


def test_shadow_does_not_hide_a_delay(gateway):
    g = gateway("""limits:
  - {name: queue, by: [ip], rate: 20/second queue 9, algorithm: leaky-bucket}
  - {name: new, by: [ip], rate: 0/hour, algorithm: token-bucket, mode: shadow}
""")
    c = g.connect()
    start = time.monotonic()
    assert [g.get("/", connection=c).status for _ in range(5)] == [200] * 5
    assert time.monotonic() - start >= 4 * 0.050 - 0.002


def test_client_gone_during_a_delay(gateway):
    """Eight clients leave while they are delayed; the server neither crashes nor serves them."""
    g = gateway(LONG_QUEUE, errors="debug")
    assert g.get("/q").status == 200
    waiting = ask_delayed(g, "/q", 8)
    for s in waiting:
        s.close()
    assert [r["status"] for r in decided(g, 9)] == [200] + [499] * 8
    assert g.get("/").status == 200
    assert len(g.workers()) == 1


def test_http2_client_gone_during_a_delay(gateway):
    g = gateway(LONG_QUEUE, listen="http2", errors="debug")
    url = f"http://127.0.0.1:{g.port}"
    command = ["curl", "-s", "-o", "/dev/null", "--http2-prior-knowledge"]
    assert subprocess.run([*command, f"{url}/q"], timeout=60).returncode == 0
    gone = [subprocess.Popen([*command, f"{url}/q"]) for _ in range(2)]
    Gateway.wait_for(lambda: delayed(g) == 2)
    for process in gone:
        assert process.poll() is None  # still waiting
        process.kill()
        process.wait()
    assert sorted(r["status"] for r in decided(g, 3)) == [200, 499, 499]
    assert subprocess.run([*command, f"{url}/"], timeout=60).returncode == 0
    assert len(g.workers()) == 1


# ---- places (concurrency) ------------------------------------------------------------------------------


def slow_gateway(gateway, hold="1h"):
    """Two at a time. GET /slow trickles for about 100 s."""
    g = gateway(f"limits: [{{name: places, match: {{path: /slow}}, by: [ip], concurrent: 2, hold: {hold}}}]\n",
                start=False, api=SLOW, server="proxy_buffering off;")
    (g.dir / "html" / "slow").write_bytes(b"x" * 200_000)
    return g.start()


def open_slow(gate):
    """Send GET /slow and read its status; the rest keeps trickling."""
    s = socket.create_connection(("127.0.0.1", gate.port), timeout=60)
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
    Gateway.wait_for(lambda: open_slow_status(g) == 200)  # long before hold
    b.close()


def open_slow_status(gate):
    s, status = open_slow(gate)
    s.close()
    time.sleep(0.05)
    return status


def test_places_are_freed_when_a_delayed_client_leaves(gateway):
    g = gateway("""limits:
  - {name: places, by: [ip], concurrent: 1, hold: 1h}
  - {name: queue, match: {path: /q}, by: [ip], rate: 1/hour queue 5, algorithm: leaky-bucket}
""", errors="debug")
    assert g.get("/q").status == 200
    (s,) = ask_delayed(g, "/q", 1)  # to be sent on in an hour
    assert g.get("/").status == 429
    s.close()
    Gateway.wait_for(lambda: g.get("/").status == 200)


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
    """kill -9 of the worker: its places come back when their hold is over."""
    g = slow_gateway(gateway, hold="10s")
    held = [open_slow(g) for _ in range(3)]
    assert [status for _, status in held] == [200, 200, 429]
    old = g.workers()
    os.kill(old[0], signal.SIGKILL)
    Gateway.wait_for(lambda: g.workers() and g.workers() != old)
    Gateway.wait_for(lambda: open_slow_status(g) == 200)
    g.stop(signal.SIGTERM)
    g.log.write_text(g.errors().replace("[alert]", "[expected]"))  # nginx reports the kill


# ---- many workers --------------------------------------------------------------------------------------


def count_allowed(gate, seconds=3.0, threads=16, disturb=None):
    """How many of as many requests as |threads| can send are let through while |disturb| runs, and until each thread
    has been refused once."""
    end = time.monotonic() + seconds
    last = end + 60
    counts = []

    def client():
        counts_here = {}
        while time.monotonic() < (end if 429 in counts_here else last):
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
        disturb()
    for w in workers:
        w.join()
    return {s: sum(c.get(s, 0) for c in counts) for s in {k for c in counts for k in c}}


def test_four_workers_admit_exactly_the_burst(gateway):
    g = gateway(BURST, workers=4)
    got = count_allowed(g, 2.0)
    assert got[200] == 100 and set(got) == {200, 429}


def test_reloads_forget_nothing(gateway):
    g = gateway(BURST, workers=4)

    def reloads():
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

    def kills():
        for _ in range(6):
            time.sleep(0.2)
            Gateway.wait_for(g.workers)
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
    g.set_policy(BURST.replace("100/day", "20/day"))
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
