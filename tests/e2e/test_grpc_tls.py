"""The gRPC door under TLS: grpcio with and without a certificate of its own, and what ALPN must say."""
import contextlib
import ssl
import time

import pytest

import http2_wire as h2
from certificates import Authority
from grpc_client import HEALTH, GrpcClient
from http2_wire import Http2
from serving import Daemon
from together import Together

POLICY = """version: 1
arena: {path: "%(dir)s/arena", size: 1MiB}
listen: {threads: 1, grpc: {address: 127.0.0.1:0, tls: {certificate: %(certificate)s, key: %(key)s%(more)s}}}
limits: [{name: per-ip, by: [ip], rate: 5/hour}]
"""
SERVING = ("OK", b"\x08\x01")


@contextlib.contextmanager
def server(weir, authority, tmp_path):
    started = []

    def start(more=""):
        certificate, key = authority.issue("server")
        (tmp_path / "policy.yaml").write_text(
            POLICY % {"dir": tmp_path, "certificate": certificate, "key": key, "more": more})
        started.append(Daemon([weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"]).ready())
        return started[-1]

    try:
        yield start
    finally:
        for daemon in started:
            daemon.close()


at_once = Together(authority=lambda tmp_path: contextlib.nullcontext(Authority(tmp_path)), serve=server)


def health(build, daemon, authority, own=None):
    if not (build / "venv/requirements.txt").exists():
        pytest.skip("no grpcio: scripts/venv.sh has not run")
    c = GrpcClient(build, f"localhost:{daemon.address('grpc')[1]}", authority.certificate, own)
    try:
        return c.call(HEALTH, b"")
    finally:
        c.close()


@at_once
def test_client_certificates(serve, build, authority, tmp_path):
    d = serve(f", client_ca: {authority.certificate}")
    stranger = Authority(tmp_path, "other").issue("mallory")
    assert health(build, d, authority, authority.issue("envoy")) == SERVING
    assert health(build, d, authority)[0] == "UNAVAILABLE"
    assert health(build, d, authority, stranger)[0] == "UNAVAILABLE"
    assert health(build, d, authority, authority.issue("envoy")) == SERVING


@at_once
def test_without_client_certificates(serve, build, authority):
    d = serve()
    assert health(build, d, authority) == SERVING
    assert health(build, d, authority, authority.issue("envoy")) == SERVING  # it is not asked for


def wrapped(daemon, authority, protocols):
    context = ssl.create_default_context(cafile=authority.certificate)
    if protocols:
        context.set_alpn_protocols(protocols)
    return Http2(daemon.address("grpc"), wrap=lambda s: context.wrap_socket(s, server_hostname="localhost"))


@at_once
def test_alpn(serve, authority):
    d = serve()
    for protocols in (["h2"], ["http/1.1", "h2"]):
        with wrapped(d, authority, protocols) as c:
            assert c.socket.selected_alpn_protocol() == "h2"
            assert c.until(h2.SETTINGS)[1] == 0
    with pytest.raises(ssl.SSLError):
        wrapped(d, authority, ["http/1.1"])
    with wrapped(d, authority, None) as c:  # it does not say what it speaks: not a word
        c.until_closed()
        assert c.frames == []


@at_once
def test_in_clear_against_tls(serve):
    with Http2(serve().address("grpc")) as c:
        c.until_closed()
        assert c.frames == []


@at_once
def test_a_handshake_that_does_not_go_on(serve, build, authority):
    d = serve()
    start = time.monotonic()
    with Http2(d.address("grpc"), greet=False) as c:
        c.send(b"\x16\x03\x01\x02\x00")
        assert health(build, d, authority) == SERVING  # others are served meanwhile
        c.until_closed()
    assert time.monotonic() - start < 19
