"""What all doors of the daemon share, through a door of lines: sockets, reload, drain, deadlines."""
import fcntl
import os
import shutil
import signal
import socket
import threading

import pytest

from serving import Daemon, Lines, wait_for

LIMITS = "limits: [{name: per-ip, by: [ip], rate: 5/hour, algorithm: token-bucket}]\n"


def policy_text(listen="{resp: 127.0.0.1:0, threads: 2, drain: 20s}", limits=LIMITS):
    return f"version: 1\narena: {{size: 1MiB}}\nlisten: {listen}\n{limits}"


@pytest.fixture
def serve(build, tmp_path):
    """serve(listen=…, limits=…, env=…) starts a daemon; all are ended with the test."""
    daemons = []

    def start(listen="{resp: 127.0.0.1:0, threads: 2, drain: 20s}", limits=LIMITS, env=None, **options):
        path = tmp_path / f"policy{len(daemons)}.yaml"
        path.write_text(policy_text(listen, limits))
        daemon = Daemon([build / "tests/e2e/echo_daemon", path], env=env, **options)
        daemon.policy = path
        daemons.append(daemon)
        return daemon

    yield start
    for daemon in daemons:
        daemon.close()


# ---- sockets ------------------------------------------------------------------------------------


def test_every_kind_of_address(serve, tmp_path):
    path = tmp_path / "door.sock"
    d = serve(f'{{resp: [127.0.0.1:0, "[::1]:0", "unix:{path}"], threads: 2}}').ready()
    for index, peer in enumerate(["127.0.0.1", "::1", ""]):
        with Lines(d.address("resp", index)) as c:
            assert c.ask("peer") == peer
    assert path.stat().st_mode & 0o777 == 0o660
    assert d.end() == 0
    assert not path.exists()


def test_loops_share_one_arena(serve):
    d = serve("{resp: 127.0.0.1:0, threads: 4}").ready()
    left = []
    for _ in range(8):  # the kernel spreads connections over the loops as it likes
        with Lines(d.address("resp")) as c:
            left.append(c.ask("check 192.0.2.1"))
    assert left == ["0 4", "0 3", "0 2", "0 1", "0 0", "2 0", "2 0", "2 0"]


def test_a_second_daemon_on_the_address_is_refused(serve):
    first = serve().ready()
    host, port = first.address("resp")
    second = serve(f"{{resp: {host}:{port}}}")
    assert second.wait() == 1
    assert f"resp: {host}:{port}: the port is taken by another process" in "".join(second.raw)


def test_a_stale_unix_socket_is_replaced_and_a_live_one_is_not(serve, tmp_path):
    path = tmp_path / "door.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
    first = serve(f'{{resp: "unix:{path}"}}').ready()
    second = serve(f'{{resp: "unix:{path}"}}')
    assert second.wait() == 1
    with Lines(str(path)) as c:
        assert c.ask("echo still here") == "still here"
    assert first.end() == 0


def test_a_file_in_the_way_of_a_unix_socket_is_left(serve, tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    assert serve(f'{{resp: "unix:{path}"}}').wait() == 1
    assert path.read_text() == "data"


def test_a_door_that_is_not_built_says_so(serve):
    d = serve("{grpc: 127.0.0.1:0}")
    assert d.wait() == 1
    assert "grpc: 127.0.0.1:0: this build of weir does not have that door" in "".join(d.raw)


def test_no_door_at_all_says_what_to_write(serve):
    d = serve("{threads: 1}")
    assert d.wait() == 1
    assert "write an address into the policy" in "".join(d.raw)


# ---- reload -------------------------------------------------------------------------------------


def test_reload_keeps_counts_and_connections(serve):
    d = serve().ready()
    with Lines(d.address("resp")) as c:
        assert c.ask("check 192.0.2.1") == "0 4"
        d.policy.write_text(policy_text(limits=LIMITS.replace("5/hour", "10/hour")))
        d.signal(signal.SIGHUP)
        assert d.event("reloaded")["generation"] == 2
        wait_for("the loop's turn", lambda: c.ask("generation") == "2")
        # 4 of 5 were left; what was used stays used under the new limit, whatever its scale
        assert c.ask("check 192.0.2.1") in ("0 8", "0 7")
        assert c.ask("ready") == "yes "


def test_a_bad_policy_is_refused_and_heard_of(serve):
    d = serve().ready()
    good = d.policy.read_text()
    with Lines(d.address("resp")) as c:
        d.policy.write_text(good.replace("5/hour", "5/fortnight"))
        d.signal(signal.SIGHUP)
        reason = d.event("reload refused, the old policy stays")["reason"]
        assert reason.startswith(f"{d.policy}:4:") and "error" in reason
        ready = c.ask("ready")
        assert ready.startswith("yes reload refused: ") and reason[:100] in ready
        assert c.ask("counters").split()[:2] == ["0", "1"]
        assert c.ask("generation") == "1"
        assert c.ask("check 192.0.2.1") == "0 4"
        d.policy.write_text(good)
        d.signal(signal.SIGHUP)
        d.event("reloaded")
        assert c.ask("ready") == "yes "
        assert c.ask("counters").split()[:2] == ["1", "1"]


def test_warnings_and_addresses_of_a_reload_are_logged(serve):
    d = serve().ready()
    d.policy.write_text(policy_text("{resp: 127.0.0.1:0, threads: 3}").replace("1MiB", "2MiB"))
    d.signal(signal.SIGHUP)
    d.event("reloaded")
    assert d.event("listen: takes effect at a restart")["member"] == "threads"
    assert any("goes on with its size" in e["reason"] for e in d.events if e["event"] == "policy warning")


def test_a_reload_is_compared_with_what_is_open(serve):
    """What takes effect at a restart is told each time until it is so again, whatever was reloaded in between."""
    d = serve().ready()
    first = d.policy.read_text()
    other = policy_text("{resp: 127.0.0.2:0, threads: 2, drain: 20s, idle_timeout: 9s, stall_timeout: 8s}")
    for turn, text in enumerate((other, other, first), 1):
        d.policy.write_text(text)
        d.signal(signal.SIGHUP)
        d.event("reloaded", turn)
    told = [e for e in d.events if e["event"].startswith("listen: ")]
    assert [(e["event"][8:], e.get("address"), e.get("member")) for e in told] == 2 * [
        ("a new address takes effect at a restart", "127.0.0.2:0", None),
        ("a door stays open until a restart", "%s:%d" % d.address("resp"), None),
        ("takes effect at a restart", None, "idle_timeout"), ("takes effect at a restart", None, "stall_timeout")]


def test_reloads_without_end(serve):
    """The arena's table of classes (1023 of them here) holds the limits in force, not all that ever were."""
    def limits(turn):
        each = (f"{{name: l{i}, match: {{path: /{i}}}, by: [ip], rate: {10 + 250 * turn + i}/hour}}" for i in range(250))
        return f"limits: [{{name: per-ip, by: [ip], rate: 5/hour, algorithm: token-bucket}}, {', '.join(each)}]\n"

    d = serve(limits=limits(0)).ready()
    with Lines(d.address("resp")) as c:
        for turn in range(1, 13):
            c.ask("check 192.0.2.1")
            d.policy.write_text(policy_text(limits=limits(turn)))
            d.signal(signal.SIGHUP)
            assert d.event("reloaded", turn)["generation"] == turn + 1
            wait_for("the loop's turn", lambda: c.ask("generation") == str(turn + 1))
        assert c.ask("check 192.0.2.1") == "2 0"  # what is the same all along is counted on


def test_a_reload_asked_for_by_a_loop(serve):
    d = serve().ready()
    with Lines(d.address("resp")) as c:
        assert c.ask("reload") == "0"
        wait_for("the loop's turn", lambda: c.ask("generation") == "2")


def test_a_policy_that_is_gone_is_refused(serve):
    d = serve().ready()
    d.policy.unlink()
    d.signal(signal.SIGHUP)
    d.event("reload refused, the old policy stays")
    with Lines(d.address("resp")) as c:
        assert c.ask("check 192.0.2.1") == "0 4"


def test_reloads_under_load(serve):
    d = serve().ready()
    stop = threading.Event()
    wrong = []

    def ask():
        with Lines(d.address("resp")) as c:
            while not stop.is_set():
                if c.ask("check 192.0.2.9").split()[0] not in ("0", "2"):
                    wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    for n in range(20):
        d.signal(signal.SIGHUP)
        d.event("reloaded", n + 1)
    stop.set()
    for t in threads:
        t.join()
    assert not wrong
    assert d.end() == 0


# ---- the end ------------------------------------------------------------------------------------


def test_drain_answers_what_is_in_flight(serve):
    d = serve().ready()
    with Lines(d.address("resp")) as busy, Lines(d.address("resp")) as idle:
        busy.send("later 300 done")
        assert idle.ask("echo x") == "x"
        assert busy.ask("echo seen") == "seen"
        d.signal(signal.SIGTERM)
        assert idle.receive() == ""
        assert busy.receive() == "done"
        assert busy.receive() == ""
    assert d.wait() == 0
    d.event("drained")
    with pytest.raises(OSError):
        Lines(d.address("resp"))


def test_drain_ends_at_its_deadline(serve):
    d = serve("{resp: 127.0.0.1:0, threads: 2, drain: 100ms}").ready()
    with Lines(d.address("resp")) as c:
        c.send("later 60000 never")
        assert c.ask("echo seen") == "seen"
        assert d.end() == 0
        assert d.event("drain deadline passed")["connections"] == 1


def test_a_second_signal_ends_at_once(serve):
    d = serve("{resp: 127.0.0.1:0, threads: 2, drain: 1h}").ready()
    with Lines(d.address("resp")) as c:
        c.send("later 60000 never")
        assert c.ask("echo seen") == "seen"
        d.signal(signal.SIGTERM)
        d.event("signal")
        d.signal(signal.SIGINT)
        assert d.wait() == 0


# ---- deadlines ----------------------------------------------------------------------------------


def late(d):
    """Connections closed because the other side was too slow."""
    with Lines(d.address("resp")) as c:
        return int(c.ask("counters").split()[4])


def test_a_slow_writer_is_closed_and_others_are_not(serve):
    d = serve("{resp: 127.0.0.1:0, threads: 1}", env={"ECHO_MESSAGE_MS": "150"}).ready()
    with Lines(d.address("resp")) as slow, Lines(d.address("resp")) as other:
        slow.socket.sendall(b"ech")  # and never the rest
        assert other.ask("echo fine") == "fine"
        assert slow.receive() == ""
        assert other.ask("echo fine") == "fine"
    assert late(d) == 1


def test_bytes_that_trickle_in_do_not_move_the_deadline(serve):
    d = serve("{resp: 127.0.0.1:0, threads: 1}", env={"ECHO_MESSAGE_MS": "200"}).ready()
    with Lines(d.address("resp")) as slow:
        slow.socket.settimeout(0.03)
        with pytest.raises(OSError):  # closed under it: reset or broken pipe, long before 1000 bytes
            for _ in range(1000):
                slow.socket.sendall(b"x")
                try:
                    if slow.socket.recv(1) == b"":
                        raise ConnectionResetError
                except TimeoutError:
                    pass
    assert late(d) == 1


def test_a_slow_reader_is_closed_and_holds_nobody_up(serve):
    d = serve("{resp: 127.0.0.1:0, threads: 1}", env={"ECHO_WRITE_MS": "300"}).ready()
    with Lines(d.address("resp")) as slow, Lines(d.address("resp")) as other:
        slow.send("big 50000000")  # more than the kernel takes, and nobody reads
        assert other.ask("echo fine") == "fine"
        wait_for("the slow reader closed", lambda: late(d) == 1)
        assert other.ask("echo fine") == "fine"


def test_what_is_written_slowly_but_read_arrives_whole(serve):
    d = serve("{resp: 127.0.0.1:0, threads: 1}").ready()
    with Lines(d.address("resp")) as c:
        c.send("big 20000000\necho end")
        got = 0
        while got < 20000000:
            got += len(c.file.read(min(65536, 20000000 - got)))
        assert c.receive() == "end"


def test_an_idle_connection_is_closed(serve):
    d = serve("{resp: 127.0.0.1:0, threads: 1}", env={"ECHO_IDLE_MS": "100"}).ready()
    with Lines(d.address("resp")) as c:
        assert c.ask("echo x") == "x"
        assert c.receive() == ""


def test_a_half_closed_connection_gets_its_answers_and_is_closed(serve):
    d = serve().ready()
    with Lines(d.address("resp")) as c:
        c.socket.sendall(b"echo one\necho two\n")
        c.socket.shutdown(socket.SHUT_WR)
        assert [c.receive(), c.receive(), c.receive()] == ["one", "two", ""]


def test_input_without_an_end_is_refused(serve):
    d = serve().ready()
    with Lines(d.address("resp")) as c:
        c.socket.sendall(b"x" * 2000)  # the door of lines takes 1024 unread bytes
        assert c.receive() == ""


def test_answers_before_a_close_arrive(serve):
    d = serve().ready()
    with Lines(d.address("resp")) as c:
        c.socket.sendall(b"echo a\nclose\n" + b"echo ignored\n" * 1000)
        assert [c.receive(), c.receive(), c.receive()] == ["a", "bye", ""]


def test_connections_do_not_leak(serve):
    d = serve("{resp: 127.0.0.1:0, threads: 2}").ready()
    for _ in range(50):
        with Lines(d.address("resp")) as c:
            assert c.ask("echo x") == "x"

    def settled():
        with Lines(d.address("resp")) as c:
            opened, closed = c.ask("counters").split()[2:4]
        return int(opened) == int(closed) + 1
    wait_for("all closed", settled)
    descriptors = len(os.listdir(f"/proc/{d.process.pid}/fd"))
    for _ in range(50):
        Lines(d.address("resp")).close()
    wait_for("all closed", settled)
    wait_for("descriptors back", lambda: len(os.listdir(f"/proc/{d.process.pid}/fd")) <= descriptors)


# ---- the service manager ------------------------------------------------------------------------


def test_sd_notify(serve, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        d = serve(env={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}).ready()
        told = []

        def until(text):
            while not any(text in t for t in told):
                told.append(manager.recv(4096).decode())

        until("READY=1")
        until("WATCHDOG=1")
        d.signal(signal.SIGHUP)
        until("RELOADING=1\nMONOTONIC_USEC=")
        del told[:]
        until("READY=1")
        assert d.end() == 0
        until("STOPPING=1")


def test_sd_notify_to_an_abstract_socket(serve):
    name = f"weir-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name)
        manager.settimeout(20)
        serve(env={"NOTIFY_SOCKET": "@" + name}).ready()
        assert "READY=1" in manager.recv(4096).decode()


def activated(build, policy, names, sockets):
    """The daemon started as systemd starts it, with sockets from descriptor 3 on."""
    command = f"LISTEN_PID=$$ LISTEN_FDS={len(sockets)} LISTEN_FDNAMES={names} exec {build}/tests/e2e/echo_daemon {policy}"
    kept = [os.dup(s.fileno()) for s in sockets]
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in kept]  # above what the shell has and moves
    moves = " ".join(f"{3 + i}<&{fd}" for i, fd in enumerate(high))
    try:
        return Daemon(["/bin/bash", "-c", f"exec {moves}; {command}"], pass_fds=high)
    finally:
        for fd in kept + high:
            os.close(fd)


def test_socket_activation(build, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_text("{resp: 127.0.0.1:1, threads: 2}"))  # port 1: must not be opened
    with socket.socket() as passed:
        passed.bind(("127.0.0.1", 0))
        passed.listen()
        d = activated(build, policy, "resp", [passed])
        try:
            d.ready()
            assert d.address("resp") == passed.getsockname()
            for _ in range(4):
                with Lines(passed.getsockname()) as c:
                    assert c.ask("echo x") == "x"
            assert d.end() == 0
        finally:
            d.close()


def test_activated_sockets_of_no_door_are_refused(build, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_text())
    with socket.socket() as passed:
        passed.bind(("127.0.0.1", 0))
        passed.listen()
        d = activated(build, policy, "weir.socket", [passed])
        try:
            assert d.wait() == 1
            assert "FileDescriptorName=" in "".join(d.raw)
        finally:
            d.close()


@pytest.mark.parametrize("kind", ["datagram", "pair", "silent"])
def test_activated_sockets_that_do_not_listen_are_refused(build, tmp_path, kind):
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_text())
    sockets = [socket.socket(type=socket.SOCK_DGRAM)] if kind == "datagram" else list(socket.socketpair()) if kind == "pair" else [socket.socket()]
    if kind != "pair":
        sockets[0].bind(("127.0.0.1", 0))
    d = activated(build, policy, "resp", sockets[:1])
    try:
        assert d.wait() == 1
        assert f"{policy}: error: listen: socket activation: resp: expected a listening stream socket" in "".join(d.raw)
    finally:
        d.close()
        for s in sockets:
            s.close()


@pytest.mark.parametrize("kind", ["unix", "port"])
def test_one_socket_under_two_names_in_a_policy(serve, tmp_path, free_port, kind):
    (tmp_path / "a").mkdir()
    two = (f'"unix:{tmp_path}/x.sock", "unix:{tmp_path}/a/../x.sock"' if kind == "unix"
           else f"127.0.0.1:{free_port}, 0.0.0.0:{free_port}")
    d = serve(f"{{resp: [{two}], threads: 1}}")
    assert d.wait() == 1
    assert f"another address of this policy {'is the same socket' if kind == 'unix' else 'has the same port'}" in "".join(d.raw)


def test_an_activated_admin_door_beyond_this_machine_needs_a_token(build, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_text("{resp: 127.0.0.1:0}"))
    with socket.socket() as passed:
        passed.bind(("0.0.0.0", 0))
        passed.listen()
        d = activated(build, policy, "admin", [passed])
        try:
            assert d.wait() == 1
            assert "admin_token" in "".join(d.raw)
        finally:
            d.close()


def test_systemd_socket_activate(build, tmp_path, free_port):
    """The same by systemd's own hand: the daemon is started by the first connection."""
    if shutil.which("systemd-socket-activate") is None:
        pytest.skip("systemd-socket-activate is not installed")
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_text("{resp: 127.0.0.1:1, threads: 2}"))
    d = Daemon(["systemd-socket-activate", "--fdname=resp", "-l", f"127.0.0.1:{free_port}",
                build / "tests/e2e/echo_daemon", policy])
    try:
        wait_for("listening", lambda: any("Listening" in line for line in d.raw))
        with Lines(("127.0.0.1", free_port)) as c:
            assert c.ask("echo woken up") == "woken up"
        assert d.end() == 0
    finally:
        d.close()
