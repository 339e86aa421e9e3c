"""HTTPS: the HTTP door under TLS, with client certificates, and over a reload while connections are kept."""
import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess

import pytest

from certificates import Authority
from http_door import Door, replies
from serving import DEADLINE
from test_http_wire import post

LIMIT = "name: x, by: [ip], rate: 1000/day burst 1000, algorithm: token-bucket"


@pytest.fixture
def serve(weir, tmp_path, tls_files):
    doors = []

    def start(more=""):
        tls = f"tls: {{certificate: {tls_files[0]}, key: {tls_files[1]}{more}}}"
        doors.append(Door(weir, tmp_path / "policy.yaml", [LIMIT],
                          listen=f'http: {{address: "127.0.0.1:0", {tls}}}, threads: 2'))
        return doors[-1]

    yield start
    for door in doors:
        door.close()


def trusting(authority, certificate=None):
    context = ssl.create_default_context(cafile=authority.certificate)
    if certificate:
        context.load_cert_chain(*certificate)
    return context


def connect(door, context):
    connection = http.client.HTTPSConnection("localhost", door.address[1], timeout=DEADLINE, context=context)
    connection.connect()
    return connection


def check(connection, **members):
    connection.request("POST", "/v1/check", json.dumps({"ip": "192.0.2.1", **members}))
    response = connection.getresponse()
    assert response.status == 200
    return json.loads(response.read())


def common_name(connection):
    return dict(pair[0] for pair in connection.sock.getpeercert()["subject"])["commonName"]


def test_https(serve, authority):
    door = serve()
    connection = connect(door, trusting(authority))
    assert [check(connection)["remaining"] for _ in range(3)] == [999, 998, 997]
    connection.request("GET", "/v1/auth", headers={"X-Forwarded-For": "192.0.2.1", "X-Original-URI": "/"})
    response = connection.getresponse()
    assert (response.status, response.read()) == (200, b"")
    assert check(connection, cost=0)["remaining"] == 996
    connection.request("GET", "/v1/openapi.json")  # more than a record of TLS
    assert json.loads(connection.getresponse().read())["openapi"].startswith("3.1")
    connection.close()


def test_pipelined_and_torn_under_tls(serve, authority):
    """Requests in one record, and one request in many."""
    door = serve()
    with socket.create_connection(door.address, DEADLINE) as plain, \
            trusting(authority).wrap_socket(plain, server_hostname="localhost") as s:
        s.sendall(post() * 300)
        last = post(b"Connection: close")
        for i in range(0, len(last), 7):
            s.sendall(last[i:i + 7])
        got = b""
        while data := s.recv(65536):
            got += data
    answers = replies(got)
    assert [status for status, _, _ in answers] == [200] * 301
    assert b'"remaining":699' in answers[300][2]


def test_curl(serve, authority):
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    url = f"https://localhost:{serve().address[1]}/v1/check"
    run = subprocess.run(["curl", "-sS", "--resolve", url.split("/")[2] + ":127.0.0.1", "--cacert", authority.certificate,
                          url, "--json", '{"ip":"192.0.2.7"}'], capture_output=True, text=True, timeout=DEADLINE)
    assert run.returncode == 0 and json.loads(run.stdout)["remaining"] == 999, run
    strangers = subprocess.run(["curl", "-sS", url], capture_output=True, text=True, timeout=DEADLINE)
    assert strangers.returncode == 60, strangers  # an authority it does not know


def test_plain_http_is_refused(serve, authority):
    door = serve()
    got = door.raw(post())
    assert b"HTTP/1.1" not in got and b"remaining" not in got
    assert check(connect(door, trusting(authority)))["remaining"] == 999  # and charged nothing


def test_client_certificates(serve, authority, tmp_path):
    door = serve(f", client_ca: {authority.certificate}")
    known = connect(door, trusting(authority, authority.issue("known")))
    assert check(known)["remaining"] == 999
    (tmp_path / "other").mkdir()
    mallory = Authority(tmp_path / "other", "other").issue("mallory")
    for context in (trusting(authority), trusting(authority, mallory)):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            check(connect(door, context))  # under TLS 1.3 the refusal comes after the client's side is done
    assert check(known)["remaining"] == 998


def test_certificates_are_read_again_while_connections_are_kept(serve, authority, tls_files):
    door = serve()
    context = trusting(authority)
    kept = connect(door, context)
    assert common_name(kept) == "first" and check(kept)["remaining"] == 999
    local = kept.sock.getsockname()
    for source, target in zip(authority.issue("second"), tls_files):
        shutil.copy(source, target)
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded")
    fresh = connect(door, context)
    assert common_name(fresh) == "second" and check(fresh)["remaining"] == 998
    assert check(kept)["remaining"] == 997 and kept.sock.getsockname() == local  # on the connection it had
    tls_files[1].write_text("not a key\n")
    door.daemon.signal(signal.SIGHUP)
    assert str(tls_files[1]) in door.daemon.event("reload refused, the old policy stays")["reason"]
    assert check(kept)["remaining"] == 996
    assert common_name(connect(door, context)) == "second"
    door.daemon.signal(signal.SIGTERM)
    assert kept.sock.recv(1) == b"" and door.daemon.wait() == 0
