"""A `weir serve` with an admin door under test."""
import http.client
import json
import socket

from http_door import Door, Reply
from serving import DEADLINE

TOKEN = "a-token-of-these-tests"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(self.path)


class Admin(Door):
    """Both doors; ask() is of the HTTP door, admin() of the admin door. No token in force: token=None."""

    def __init__(self, weir, path, limits, token=TOKEN, address="127.0.0.1:0", **options):
        self.token = token
        key = f", admin_token: {token}" if token is not None else ""
        super().__init__(weir, path, limits, **{
            "listen": f'http: 127.0.0.1:0, admin: "{address}", threads: 2{key}', **options})

    def admin(self, method, target, body=None, headers=None, token=...):
        """One request of its own connection, with the token, another one, or None for none."""
        address = self.daemon.address("admin")
        connection = UnixConnection(address) if isinstance(address, str) else \
            http.client.HTTPConnection(*address, timeout=DEADLINE)
        token = self.token if token is ... else token
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, target, json.dumps(body) if isinstance(body, (dict, list)) else body, headers)
            response = connection.getresponse()
            return Reply(response, response.read())
        finally:
            connection.close()

    def get(self, target, status=200):
        """JSON of the admin door."""
        reply = self.admin("GET", target)
        assert reply.status == status, (reply.status, reply.body)
        return reply.json()
