"""Load on the doors of many daemons from one thread: pipelines of questions, each answered with when it was sent and
when its answer was there. For test_chaos_*.py, and for the models that judge what was admitted."""
import collections
import json
import selectors
import socket
import threading
import time

from serving import DEADLINE

# Of a batch: what was asked, (limit, key) each, and what was said: True, False, or None where the store was gone.
Batch = collections.namedtuple("Batch", "lane sent received asked said")


def resp(asked):
    return b"".join(b"*3\r\n$10\r\nWEIR.CHECK\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(limit), limit.encode(), len(key), key.encode())
                    for limit, key in asked)


def read_resp(data, count):
    """The answers once all are there, else None."""
    if data.count(b"\n") < count:
        return None
    lines, said, at = data.split(b"\r\n"), [], 0
    while at < len(lines) - 1:
        if lines[at] == b"*6":
            if at + 7 >= len(lines):
                return None
            said.append(lines[at + 1] == b":1")
            at += 7
        else:
            assert lines[at].startswith(b"-UNAVAILABLE"), lines[at]
            said.append(None)
            at += 1
    return said if len(said) == count else None


def array(asked):
    """One POST /v1/check: limits are chosen by the path that is their name."""
    body = json.dumps([{"ip": "192.0.2.1", "path": f"/{limit}", "headers": {"X-Api-Key": key}} for limit, key in asked]).encode()
    return b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def read_array(data, count):
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return None
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if len(body) < int(fields[b"content-length"]):
        return None
    assert head.startswith(b"HTTP/1.1 200"), data
    said = [None if a.get("reason") == "store" else a["verdict"] != "deny" for a in json.loads(body)]
    assert len(said) == count
    return said


def gets(asked):
    """Pipelined requests to a gateway."""
    return b"".join(b"GET /%s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n" % (limit.encode(), key.encode()) for limit, key in asked)


def read_gets(data, count):
    said = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        if not end:
            return None
        size = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
        if len(data) < size:
            return None
        data = data[size:]
        status = int(head[9:12])
        assert status in (200, 429, 503), head
        said.append({200: True, 429: False, 503: None}[status])
    return said if len(said) == count else None


DOORS = {"resp": (resp, read_resp), "http": (array, read_array), "nginx": (gets, read_gets)}


class Lane:
    """A connection that asks |questions|, an iterator of (limit, key), |batch| at a time, each |pause| seconds after
    the last answer."""

    def __init__(self, address, questions, door="resp", batch=50, pause=0):
        self.address, self.questions, self.batch, self.pause = address, iter(questions), batch, pause
        self.encode, self.decode = DOORS[door]
        self.socket = self.asked = None
        self.due = 0


class Flood:
    """Runs lanes, in a thread of its own, until their questions end or stop() is called."""

    def __init__(self, lanes):
        self.lanes = lanes
        self.batches = []
        self.lost = []  # lanes whose connection broke: of a daemon that was killed
        self.error = None
        self.stopping = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            with selectors.DefaultSelector() as selector:
                self._serve(selector)
        except BaseException as error:  # told in the test's own thread
            self.error = error
        finally:
            for lane in self.lanes:
                if lane.socket is not None:
                    lane.socket.close()

    def _serve(self, selector):
        waiting, idle = 0, collections.deque(self.lanes)
        while waiting or idle:
            for _ in range(len(idle)):
                lane = idle.popleft()
                if time.time() < lane.due:
                    idle.append(lane)
                elif self._send(lane, selector):
                    waiting += 1
            for key, _ in selector.select(0.005 if idle or not waiting else 0.1):
                lane = key.data
                answered = self._receive(lane)
                if answered is None:
                    continue
                selector.unregister(lane.socket)
                waiting -= 1
                if answered:
                    idle.append(lane)
                else:
                    self.lost.append(lane)
            late = [lane for lane in self.lanes if lane.asked and time.time() - lane.sent > DEADLINE]
            assert not late, [(lane.address, lane.asked[:3], lane.data) for lane in late]

    def _send(self, lane, selector):
        lane.asked = None if self.stopping else [q for _, q in zip(range(lane.batch), lane.questions)]
        if not lane.asked:
            return False
        if lane.socket is None:
            lane.socket = socket.create_connection(lane.address, DEADLINE)
            lane.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lane.data = b""
        message = lane.encode(lane.asked)
        lane.sent = time.time()
        try:
            lane.socket.sendall(message)
        except OSError:
            lane.asked = None
            self.lost.append(lane)
            return False
        selector.register(lane.socket, selectors.EVENT_READ, lane)
        return True

    def _receive(self, lane):
        """True: all answers are there; None: not yet; False: the connection broke."""
        try:
            data = lane.socket.recv(1 << 18)
        except OSError:
            data = b""
        now = time.time()
        if not data:
            lane.asked = None
            return False
        lane.data += data
        said = lane.decode(lane.data, len(lane.asked))
        if said is None:
            return None
        self.batches.append(Batch(lane, lane.sent, now, lane.asked, said))
        lane.asked, lane.due = None, now + lane.pause
        return True

    def decided(self):
        return sum(len(b.asked) for b in list(self.batches))

    def join(self):
        self.thread.join(300)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.batches

    def stop(self):
        self.stopping = True
        return self.join()

    def hurry(self):
        """No pauses from now on: what is left of a limit is only to be used up."""
        for lane in self.lanes:
            lane.pause = 0

    def slowest(self, since=0):
        return max((b.received - b.sent for b in list(self.batches) if b.sent >= since), default=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join(DEADLINE)


def by_key(batches):
    """{(limit, key): [(sent, received, said)]}, one a request, in the order of the answers."""
    out = collections.defaultdict(list)
    for batch in batches:
        for question, said in zip(batch.asked, batch.said):
            out[question].append((batch.sent, batch.received, said))
    return out


def count(batches, *said):
    return sum(s in said for b in batches for s in b.said)
