"""A TCP proxy between a client and a server that can be told to delay, to swallow, to reset, to half-close and
to refuse. In the test's own process; a thread a direction."""
import socket
import struct
import threading
import time

CHUNK = 65536


class ChaosProxy:
    """Listens on a port of its own, or |at|, and passes on to |target|, (host, port).

    delay   seconds that each chunk waits, both ways
    swallow nothing is passed on any more, and nothing is closed: a cable pulled out
    refuse  new connections are reset at once"""

    def __init__(self, target, at=("127.0.0.1", 0)):
        self.target = target
        self.delay = 0
        self.swallow = False
        self.refuse = False
        self.accepted = 0
        self.delayed = 0  # chunks that wait, now
        self.pairs = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(at, backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                if self.refuse:
                    raise OSError("refused")
                server = socket.create_connection(self.target, timeout=5)
            except OSError:
                reset(client)
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.pairs.append((client, server))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source, sink):
        try:
            while data := source.recv(CHUNK):
                if self.delay:
                    self._wait()
                while self.swallow:
                    time.sleep(0.01)
                    if source.fileno() < 0:
                        return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _wait(self):
        with self.lock:
            self.delayed += 1
        try:
            time.sleep(self.delay)
        finally:
            with self.lock:
                self.delayed -= 1

    def _take(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        return pairs

    def reset(self):
        """RST to the clients of all connections that are open."""
        for client, server in self._take():
            reset(client)
            reset(server)

    def half_close(self):
        """FIN to the clients; what they still send is passed on."""
        with self.lock:
            pairs = list(self.pairs)
        for client, _ in pairs:
            try:
                client.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def close(self):
        self.swallow = False
        self.listener.close()
        self.reset()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def reset(sock):
    """Close it so that the peer sees a reset."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RD)
    except OSError:
        pass
    sock.close()
