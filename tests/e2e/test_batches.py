"""Long arrays of /v1/check: what they cost others in time and everybody in memory is bounded."""
import json
import signal
import socket
import statistics
import threading
import time

from http_door import replies
from serving import DEADLINE, wait_for
from test_http_wire import post
from test_resp import command
from test_slow_peers import rss

LIMITS = 16  # with long names: an answer is 150 times its question
POLICY = """version: 1
arena: {size: 1MiB}
listen: {http: 127.0.0.1:0, resp: 127.0.0.1:0, threads: 1, unsent_max: 8MiB, stall_timeout: 2s}
identity: {api_key: {header: X-Key}}
limits:
  - {name: users, by: [api_key], rate: 1000/day, algorithm: fixed-window}
""" + "".join(f"  - {{name: a-limit-with-a-name-long-enough-to-make-the-answer-long-{i}, by: [ip], "
              f"rate: 1000000/day, algorithm: token-bucket}}\n" for i in range(LIMITS - 1))


def array(count, user="u"):
    return post(body=json.dumps([{"ip": "192.0.2.1", "headers": {"X-Key": user}}] * count).encode())


def connect(daemon, door="http"):
    return socket.create_connection(daemon.address(door), DEADLINE)


def receive(s, count=1):
    """|count| responses whole."""
    got = b""
    while True:
        data = s.recv(1 << 20)
        got += data
        at, have = 0, 0
        while (end := got.find(b"\r\n\r\n", at)) >= 0:
            length = int(got[at:end].lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            if len(got) < end + 4 + length:
                break
            at, have = end + 4 + length, have + 1
        if have == count or not data:
            return replies(got)


def left(reply):
    """What is said to remain of the limit `users`, question by question."""
    status, _, body = reply
    assert status == 200, body
    return [next(v["remaining"] for v in answer["limits"] if v["name"] == "users") for answer in json.loads(body)]


def test_a_long_array_is_decided_in_order(daemon):
    with connect(daemon) as s:
        s.sendall(array(400, "a"))
        assert left(receive(s)[0]) == list(range(999, 599, -1))


def test_arrays_on_one_connection_and_on_many(daemon):
    """In line behind each other, on a loop that answers others meanwhile: each gets its own answers, in its order."""
    sockets = [connect(daemon) for _ in range(6)]
    for i, s in enumerate(sockets):
        s.sendall(array(300, f"user {i}") + array(100, f"user {i}") + array(1, f"user {i}"))
    for s in sockets:
        first, second, third = receive(s, 3)
        assert left(first) == list(range(999, 699, -1))
        assert left(second) == list(range(699, 599, -1))
        assert left(third) == [599]
        s.close()


def test_who_ends_its_half_is_answered(daemon):
    with connect(daemon) as s:
        s.sendall(array(1000))
        s.shutdown(socket.SHUT_WR)
        assert len(left(receive(s)[0])) == 1000


def test_who_goes_away_leaves_the_line(daemon):
    for _ in range(20):
        with connect(daemon) as s:
            s.sendall(array(1000))
    with connect(daemon) as s:
        s.sendall(array(1000, "later"))
        assert len(left(receive(s)[0])) == 1000


def test_a_policy_that_comes_meanwhile(daemon):
    """Each array is decided by one policy."""
    text = daemon.policy.read_text()
    stop, wrong = threading.Event(), []

    def ask():
        with connect(daemon) as s:
            while not stop.is_set():
                s.sendall(array(200))
                counts = {len(answer["limits"]) for answer in json.loads(receive(s)[0][2])}
                if len(counts) != 1 or not counts <= {LIMITS, 1}:
                    wrong.append(counts)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for t in threads:
        t.start()
    for n in range(10):
        daemon.policy.write_text("\n".join(text.split("\n")[:6]) + "\n" if n % 2 == 0 else text)
        daemon.signal(signal.SIGHUP)
        daemon.event("reloaded", n + 1)
    stop.set()
    for t in threads:
        t.join()
    assert not wrong
    assert daemon.end() == 0


def test_others_do_not_wait_for_arrays(daemon):
    stop = threading.Event()

    def ask():
        with connect(daemon) as s:
            while not stop.is_set():
                s.sendall(array(400))
                receive(s)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for t in threads:
        t.start()
    with connect(daemon, "resp") as s:
        waits = []
        for _ in range(40):
            before = time.monotonic()
            s.sendall(command("PING"))
            assert s.recv(100) == b"+PONG\r\n"
            waits.append(time.monotonic() - before)
            time.sleep(0.01)
    stop.set()
    for t in threads:
        t.join()
    assert statistics.median(waits) < 0.03, waits


def test_what_nobody_reads_is_bounded(daemon):
    before = rss(daemon)
    greedy, most = [], 0
    for _ in range(100):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(daemon.address("http"))
        s.sendall(array(1000) * 2)
        greedy.append(s)
    with connect(daemon, "resp") as other, connect(daemon) as asker:
        refused = 0
        for _ in range(20):
            other.sendall(command("PING"))
            assert other.recv(100) == b"+PONG\r\n"
            asker.sendall(array(1))  # what is short goes on
            assert receive(asker)[0][0] == 200
            asker.sendall(array(1000))
            status, fields, _ = receive(asker)[0]
            if status == 503:
                assert fields["retry-after"] == "1"
                refused += 1
            most = max(most, rss(daemon) - before)
            time.sleep(0.02)
        assert refused > 0
    # The bound, an array being worked on, the input of those in line.
    assert most < 30 << 20
    for s in greedy:
        s.close()
    wait_for("memory to come back", lambda: rss(daemon) - before < 8 << 20)
    with connect(daemon) as s:
        s.sendall(array(1000))
        assert receive(s)[0][0] == 200
