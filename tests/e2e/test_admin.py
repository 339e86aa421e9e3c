"""The admin door: its key, its paths, and what it says of the daemon's life."""
import signal
import socket

import pytest

from admin_door import TOKEN, Admin
from serving import wait_for

PER_IP = "name: per-ip, by: [ip], rate: 5/hour"


@pytest.fixture
def make(weir, tmp_path):
    made = []

    def start(limits=(PER_IP,), **options):
        made.append(Admin(weir, tmp_path / "policy.yaml", list(limits), **options))
        return made[-1]
    yield start
    for each in made:
        each.close()


# ---- its key ------------------------------------------------------------------------------------

def is_problem(reply, status):
    assert reply.status == status, (reply.status, reply.body)
    assert reply.one("Content-Type") == "application/problem+json"
    assert reply.json()["status"] == status
    return reply.json()


def test_everything_but_healthz_wants_the_token(make):
    door = make()
    for target in "/readyz", "/", "/no/such/path", "/healthz/", "/healthzz":
        for token in None, "", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper():
            reply = door.admin("GET", target, token=token)
            is_problem(reply, 401)
            assert reply.one("WWW-Authenticate").startswith('Bearer realm="weir admin"')
            assert TOKEN not in reply.body.decode()
    assert 'error="invalid_token"' in door.admin("GET", "/readyz", token="x").one("WWW-Authenticate")
    assert "error" not in door.admin("GET", "/readyz", token=None).one("WWW-Authenticate")
    assert door.admin("GET", "/readyz").status == 200
    assert door.admin("GET", "/healthz", token=None).status == 200
    assert door.admin("GET", "/healthz", token="wrong").status == 200
    assert door.admin("GET", "/healthz?x=1", token=None).status == 200
    assert is_problem(door.admin("GET", "/readyz", token=None, headers={"Authorization": f"Basic {TOKEN}"}), 401)


def test_two_tokens_are_none(make):
    door = make()
    with socket.create_connection(door.daemon.address("admin"), 20) as s:
        field = f"Authorization: Bearer {TOKEN}\r\n"
        s.sendall(f"GET /readyz HTTP/1.1\r\nHost: x\r\n{field}{field}Connection: close\r\n\r\n".encode())
        assert s.makefile("rb").readline() == b"HTTP/1.1 401 Unauthorized\r\n"


def test_without_a_token_in_force_none_is_wanted(make):
    door = make(token=None)
    assert door.admin("GET", "/readyz", token=None).status == 200
    assert door.admin("GET", "/readyz", token="any").status == 200


def test_without_a_token_no_web_page_may_ask(make):
    door = make(token=None)
    port = door.daemon.address("admin")[1]
    for host in f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "127.0.0.1":
        assert door.admin("GET", "/readyz", headers={"Host": host}).status == 200
        assert door.admin("GET", "/readyz", headers={"Host": host, "Origin": f"http://{host}"}).status == 200
        assert door.admin("GET", "/healthz", headers={"Host": "any.example", "Origin": "null"}).status == 200
    for headers in ({"Host": f"rebound.example:{port}"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        for method, target in ("GET", "/readyz"), ("DELETE", "/v1/keys?limit=per-ip&by=ip:a"), ("GET", "/no/such"):
            is_problem(door.admin(method, target, headers=headers), 403)
    # A token is proof enough.
    other = make()
    assert other.admin("GET", "/readyz", headers={"Host": "weir.example", "Origin": "http://evil.example"}).status == 200


@pytest.mark.parametrize("address", ["[::1]:0", "unix:PATH"])
def test_the_other_addresses_of_this_machine(make, tmp_path, address):
    door = make(token=None, address=address.replace("PATH", str(tmp_path / "admin.sock")))
    assert door.admin("GET", "/readyz", token=None).status == 200
    # No browser reaches a unix socket.
    host = {"Host": "a-name.example"}
    assert door.admin("GET", "/readyz", headers=host).status == (200 if "unix" in address else 403)


def test_a_reload_changes_the_token(make):
    door = make()
    kept = door.text
    door.text = kept.replace(TOKEN, "another-token-of-these")
    door.write([PER_IP])
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded")
    wait_for("the new token", lambda: door.admin("GET", "/readyz", token="another-token-of-these").status == 200)
    assert door.admin("GET", "/readyz").status == 401
    door.text = kept.replace(f", admin_token: {TOKEN}", "")
    door.write([PER_IP])
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded", 2)
    wait_for("no token", lambda: door.admin("GET", "/readyz", token=None).status == 200)


def test_a_token_in_a_file(make, tmp_path):
    file = tmp_path / "token"
    file.write_text("a-token-in-a-file\n")
    door = make(listen=f"http: 127.0.0.1:0, admin: 127.0.0.1:0, admin_token_file: {file}")
    assert door.admin("GET", "/readyz", token="a-token-in-a-file").status == 200
    assert door.admin("GET", "/readyz", token=str(file)).status == 401
    file.write_text("\n")  # none: the policy is refused, the token stays
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reload refused, the old policy stays")
    assert door.admin("GET", "/readyz", token="").status == 401
    assert door.admin("GET", "/readyz", token="a-token-in-a-file").status == 200
    file.write_text("the-next-token")
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded")
    wait_for("the next token", lambda: door.admin("GET", "/readyz", token="the-next-token").status == 200)
    assert door.admin("GET", "/readyz", token="a-token-in-a-file").status == 401


def test_the_token_is_in_no_log(make):
    door = make()
    door.admin("GET", "/readyz")
    door.admin("GET", "/readyz", token="wrong")
    assert door.daemon.end() == 0
    assert TOKEN not in "".join(door.daemon.raw)


# ---- paths and methods --------------------------------------------------------------------------

def test_paths_and_methods(make):
    door = make()
    assert is_problem(door.admin("GET", "/nothing"), 404)["detail"]
    reply = door.admin("POST", "/readyz", "{}")
    is_problem(reply, 405)
    assert reply.one("Allow") == "GET, HEAD"
    reply = door.admin("HEAD", "/readyz")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.one("Content-Length")) > 0
    assert reply.one("Cache-Control") == "no-store"
    assert door.admin("GET", "/v1/check").status == 404  # the HTTP door's paths are not here
    assert door.ask("GET", "/readyz").status == 404  # nor the other way round


# ---- life ---------------------------------------------------------------------------------------

def test_alive_and_ready(make):
    door = make()
    reply = door.admin("GET", "/healthz", token=None)
    assert (reply.status, reply.body) == (200, b"ok\n")
    assert door.get("/readyz") == {"ready": True, "detail": "serving", "generation": 1, "reloads": 0,
                                   "reloads_refused": 0}


def test_a_refused_reload_is_told(make):
    door = make()
    door.write(["name: per-ip, by: [ip], rate: 5/fortnight"])
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reload refused, the old policy stays")
    said = door.get("/readyz")  # the old policy serves: a bad one on all nodes must not take them all out
    assert said["ready"] is True and said["generation"] == 1 and said["reloads_refused"] == 1
    assert said["detail"].startswith("reload refused: ") and "fortnight" in said["detail"]
    assert f"{door.policy}:6:" in said["detail"]  # its line
    assert door.admin("GET", "/healthz").status == 200
    door.write([PER_IP])
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded")
    assert door.get("/readyz")["detail"] == "serving"
    assert door.get("/readyz")["reloads_refused"] == 1


def test_while_draining(make):
    door = make()
    with socket.create_connection(door.address, 20) as s:
        s.sendall(b'POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n{"ip":"192.0.2.2"')  # begun, not ended
        wait_for("the connection", lambda: door.check() is not None)
        door.daemon.signal(signal.SIGTERM)
        wait_for("draining", lambda: door.admin("GET", "/readyz").status == 503)
        assert door.get("/readyz", 503)["detail"] == "draining"
        assert door.admin("GET", "/healthz").status == 200
        s.sendall(b"}")
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    assert door.daemon.wait() == 0


# ---- what is asked about a preflight ------------------------------------------------------------

def test_explain_says_of_options_what_check_says(make):
    door = make(["name: zero, by: [ip], rate: 0/hour"])
    assert door.admin("POST", "/v1/bans", {"ip": "203.0.113.66", "for": "1h"}).status == 200
    for ip in "203.0.113.66", "192.0.2.1":
        asked = {"ip": ip, "method": "OPTIONS"}
        checked = door.ask("POST", "/v1/check", asked).json()
        said = door.admin("POST", "/v1/explain", asked).json()
        assert said["counted"] is False and (checked["verdict"], checked["reason"]) == ("allow", None)
        assert {name: said[name] for name in ("verdict", "reason", "limit", "retry_after_ms", "delay_ms")} == \
            {name: checked[name] for name in ("verdict", "reason", "limit", "retry_after_ms", "delay_ms")}
        asked["method"] = "GET"
        assert door.admin("POST", "/v1/explain", asked).json()["verdict"] == "deny"


# ---- what RESP refuses as input -----------------------------------------------------------------

def test_what_resp_refuses_is_counted(make):
    door = make(listen="resp: 127.0.0.1:0, http: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 1", token=None)
    lines = [b"GET x", b"WEIR.CHECK nope x", b"WEIR.CHECK", b"WEIR.CHECK per-ip x -1", b"CL.THROTTLE k a 1 1", b"PING"]
    with socket.create_connection(door.daemon.address("resp"), 20) as s, s.makefile("rb") as replies:
        for line in lines:
            s.sendall(line + b"\r\n")
            assert replies.readline().startswith(b"+" if line == b"PING" else b"-"), line
    found = door.admin("GET", "/metrics").body.decode()
    assert 'weir_door_bad_requests_total{door="resp"} 5' in found
