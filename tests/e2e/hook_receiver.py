"""A receiver of webhooks that behaves as a test tells it to, and a shop that tells it, for test_alerts*.py."""
import contextlib
import hashlib
import hmac
import http.client
import http.server
import json
import sqlite3
import ssl
import threading

import pytest

from http_door import Door
from serving import wait_for

SECRET = "hook-secret-0123456789"
IDENTITY = "identity: {ip: {from: x-forwarded-for, trusted: [127.0.0.1]}, api_key: {header: X-Api-Key}}\n"
PLANS = "{free: {upgrade_to: pro}, pro: {}}"
LIMIT = ("name: monthly, by: [customer], quota: {limit: {default: 100, pro: 1000}, per: month, anchor: 15, zone: Europe/Istanbul, "
         "alert_at: [50%, 80%, 100%]}")
ROSTER = """version: 1
customers:
  - {name: acme, tenant: north, plan: free, keys: [{identity: api_key, value: k-acme}]}
  - {name: globex, plan: pro, keys: [{identity: api_key, value: k-globex}]}
"""


def signature(secret, moment, body):
    """As a receiver works it out, by the standard library alone."""
    return hmac.new(secret.encode(), b"%d." % moment + body, hashlib.sha256).hexdigest()


class Receiver:
    """Each request is answered by answer(body) -> status, or (status, header fields); and remembered."""

    def __init__(self, answer=lambda body: 204, secret=SECRET, port=0, tls=None):
        self.answer, self.secret = answer, secret
        self.requests, self.wrong = [], []  # bodies as JSON; those whose signature was refused
        self.gate = threading.Event()  # waits() answers when it is set
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                receiver.take(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):  # callers that have gone
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def take(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        fields = dict(part.split("=", 1) for part in handler.headers["Weir-Signature"].split(","))
        event = json.loads(body)
        assert handler.headers["Weir-Event"] == event["event"]
        assert handler.headers["Content-Type"] == "application/json"
        if not hmac.compare_digest(fields["v1"], signature(self.secret, int(fields["t"]), body)):
            self.wrong.append(event)
            status = 401
        else:
            self.requests.append(event)
            status = self.answer(event)
        status, headers = status if isinstance(status, tuple) else (status, {})
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def waits(self, status=204):
        """An answer that does not come until the gate is open."""
        def answer(event):
            self.gate.wait(60)
            return status
        return answer

    def got(self, count):
        """That many requests, once they are there."""
        return wait_for(f"{count} requests", lambda: len(self.requests) >= count and list(self.requests))

    def percents(self, name="acme"):
        return sorted(r["percent"] for r in self.requests if r["type"] == "quota" and r["customer"]["name"] == name)

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Shop(Door):
    """A daemon with customers acme (free, 100 a month) and globex (pro, 1000). |hooks|: YAML."""

    def __init__(self, weir, folder, hooks="", limits=(LIMIT,), more="", plans=PLANS, name="policy.yaml"):
        self.weir, self.folder = weir, folder
        if not (folder / "customers.yaml").exists():
            (folder / "customers.yaml").write_text(ROSTER)
        super().__init__(weir, folder / name, limits, IDENTITY,
                         f"customers: {{directory: {folder}/state, file: {folder}/customers.yaml, room: 100,"
                         f" flush: 100ms{hooks}}}\nplans: {plans}\n{more}",
                         "http: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 2")

    def use(self, units, key="k-acme"):
        return self.check(headers={"X-Api-Key": key}, method="GET", path="/", cost=units)["verdict"]

    def rows(self, sql):
        with sqlite3.connect(f"file:{self.folder}/state/customers.db?mode=ro", uri=True) as db:
            return db.execute(sql).fetchall()

    def states(self, names="percent, state"):
        return dict(self.rows(f"SELECT {names} FROM alert"))

    def metric(self, name):
        text = self.admin("GET", "/metrics")[1]
        return float(next(l for l in text.splitlines() if l.startswith(name + " ")).rsplit(" ", 1)[1])

    def counts(self, name, value):
        wait_for(f"{name} {value}", lambda: self.metric(name) == value)

    def admin(self, method, path, body=None):
        connection = http.client.HTTPConnection(*self.daemon.address("admin"), timeout=20)
        connection.request(method, path, json.dumps(body) if body is not None else None)
        response = connection.getresponse()
        return response.status, response.read().decode()


def hook(url, secret=SECRET, name="webhook", more=""):
    return f', {name}: {{url: "{url}", secret: "{secret}"{more}}}'


@contextlib.contextmanager
def shops(weir, tmp_path):
    made = []

    def start(*hooks, **options):
        made.append(Shop(weir, tmp_path, "".join(hooks), **options))
        return made[-1]
    try:
        yield start
    finally:
        for shop in made:
            shop.close()


# ---- fixtures, for those who import them

@pytest.fixture
def receiver():
    with contextlib.closing(Receiver()) as made:
        yield made


@pytest.fixture
def make(weir, tmp_path):
    with shops(weir, tmp_path) as start:
        yield start
