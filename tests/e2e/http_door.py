"""A `weir serve` with an HTTP door under test, and what talks to it: http.client, and raw bytes."""
import http.client
import json
import socket

from serving import Daemon, DEADLINE

TRUSTED = "identity: {ip: {from: x-forwarded-for, trusted: [127.0.0.1]}, api_key: {header: X-Api-Key}}\n"


class Fields:
    """Of a response: self.fields, as sent, in order."""

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]

    def one(self, name):
        values = self.all(name)
        assert len(values) == 1, f"{name}: {values} in {self.fields}"
        return values[0]


class Reply(Fields):
    def __init__(self, response, body):
        self.status, self.body = response.status, body
        self.fields = response.getheaders()

    def json(self):
        return json.loads(self.body)


class Door:
    def __init__(self, weir, path, limits, identity=TRUSTED, more="", listen="http: 127.0.0.1:0, threads: 1"):
        self.policy = path
        self.text = f"version: 1\narena: {{size: 4MiB}}\nlisten: {{{listen}}}\n{identity}{more}limits:\n%s"
        self.write(limits)
        self.daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"]).ready()
        self.address = self.daemon.address("http")
        self.connection = None

    def write(self, limits):
        self.policy.write_text(self.text % "".join(f"  - {{{limit}}}\n" for limit in limits))

    def url(self):
        return "http://%s:%d" % self.address

    def ask(self, method, target, body=None, headers=None, fresh=False):
        """One request over a connection that is kept."""
        if self.connection is None or fresh:
            self.connection = http.client.HTTPConnection(*self.address, timeout=DEADLINE)
        text = json.dumps(body) if isinstance(body, (dict, list)) else body
        self.connection.request(method, target, text, headers or {})
        response = self.connection.getresponse()
        return Reply(response, response.read())

    def check(self, *requests, door="/v1/check", **members):
        """What POST /v1/check says of one request given by its members, or of an array."""
        reply = self.ask("POST", door, list(requests) if requests else {"ip": "192.0.2.1", **members})
        assert reply.status == 200, reply.body
        return reply.json()

    def auth(self, query="", headers=None, **names):
        return self.ask(names.get("method", "GET"), f"/v1/auth{query}", headers=headers)

    def raw(self, *pieces, until_closed=True):
        """All that comes back for |pieces| of bytes, sent one by one."""
        with socket.create_connection(self.address, DEADLINE) as s:
            for piece in pieces:
                s.sendall(piece)
            got = b""
            while True:
                data = s.recv(65536)
                got += data
                if not data or (not until_closed and got.count(b"\r\n\r\n")):
                    return got

    def hang_up(self):
        if self.connection is not None:
            self.connection.close()

    def end(self):
        """SIGTERM, and the exit status. A drain waits for connections that are kept: ours is not."""
        self.hang_up()
        return self.daemon.end()

    def close(self):
        self.hang_up()
        self.daemon.close()


def replies(raw):
    """Raw bytes as [(status, {field: value}, body)], by Content-Length."""
    out = []
    while raw:
        head, _, raw = raw.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        length = int(fields.get("content-length", 0))
        out.append((int(lines[0].split()[1]), fields, raw[:length]))
        raw = raw[length:]
    return out
