"""TLS of the daemon, through the door of lines: handshakes, reload of certificates, client certificates."""
import shutil
import signal
import socket
import ssl

import pytest

from certificates import Authority
from serving import Daemon, Lines, wait_for

LIMITS = "limits: [{name: per-ip, by: [ip], rate: 5/hour, algorithm: token-bucket}]\n"


@pytest.fixture
def serve(build, tmp_path, tls_files):
    daemons = []

    def start(more="", env=None):
        path = tmp_path / "policy.yaml"
        path.write_text(f"version: 1\narena: {{size: 1MiB}}\n{LIMITS}listen:\n  threads: 2\n  resp: {{address: "
                        f"127.0.0.1:0, tls: {{certificate: {tls_files[0]}, key: {tls_files[1]}{more}}}}}\n")
        daemon = Daemon([build / "tests/e2e/echo_daemon", path], env=env)
        daemon.policy = path
        daemons.append(daemon)
        return daemon

    yield start
    for daemon in daemons:
        daemon.close()


def client(authority, alpn=None, **settings):
    context = ssl.create_default_context(cafile=authority.certificate)
    if alpn:
        context.set_alpn_protocols(alpn)
    for name, value in settings.items():
        setattr(context, name, value)
    return context


def connect(daemon, context):
    return Lines(daemon.address("resp"), lambda s: context.wrap_socket(s, server_hostname="localhost"))


def common_name(connection):
    return dict(pair[0] for pair in connection.socket.getpeercert()["subject"])["commonName"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_lines_under_tls(serve, authority, version):
    d = serve().ready()
    assert d.event("listening")["tls"] is True
    context = client(authority, minimum_version=version, maximum_version=version)
    with connect(d, context) as c:
        assert c.socket.version() == version.name.replace("_", ".")
        assert c.ask("echo hello") == "hello"
        assert c.ask("peer") == "127.0.0.1"
        assert c.ask("subject") == ""
        c.send("big 3000000\necho end")
        got = 0
        while got < 3000000:
            got += len(c.file.read(min(65536, 3000000 - got)))
        assert c.receive() == "end"
        c.send("later 20 after a while")
        assert c.receive() == "after a while"
        assert c.ask("close") == "bye"
        assert c.receive() == ""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_and_plain_text_are_refused(serve, authority):
    d = serve().ready()
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.verify_mode = ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        connect(d, old)
    with Lines(d.address("resp")) as c:
        c.socket.sendall(b"echo this is not TLS\n")
        assert b"this" not in c.file.read()
    with connect(d, client(authority)) as c:
        assert c.ask("echo fine") == "fine"


def test_alpn(serve, authority):
    d = serve().ready()
    with connect(d, client(authority, alpn=["h9", "echo"])) as c:
        assert c.socket.selected_alpn_protocol() == "echo"
    with connect(d, client(authority)) as c:
        assert c.socket.selected_alpn_protocol() is None
    with pytest.raises(ssl.SSLError):
        connect(d, client(authority, alpn=["h9"]))


def test_certificates_are_read_again(serve, authority, tls_files):
    d = serve().ready()
    context = client(authority)
    with connect(d, context) as before:
        assert common_name(before) == "first"
        for source, target in zip(authority.issue("second"), tls_files):
            shutil.copy(source, target)
        d.signal(signal.SIGHUP)
        d.event("reloaded")
        with connect(d, context) as after:
            assert common_name(after) == "second"
            assert after.ask("echo new") == "new"
        assert before.ask("echo old") == "old"


def test_a_bad_certificate_refuses_the_reload(serve, authority, tls_files):
    d = serve().ready()
    tls_files[1].write_text("not a key\n")
    d.policy.write_text(d.policy.read_text().replace("5/hour", "9/hour"))
    d.signal(signal.SIGHUP)
    reason = d.event("reload refused, the old policy stays")["reason"]
    assert str(tls_files[1]) in reason and "private key" in reason
    with connect(d, client(authority)) as c:
        assert common_name(c) == "first"
        assert c.ask("generation") == "1"
        assert c.ask("ready").startswith("yes reload refused")


def test_a_key_of_another_certificate_stops_the_start(serve, authority, tls_files):
    shutil.copy(authority.issue("other")[1], tls_files[1])
    d = serve()
    assert d.wait() == 1
    assert "expected the private key of the certificate" in "".join(d.raw)


def test_client_certificates(serve, authority, tmp_path):
    d = serve(f", client_ca: {authority.certificate}").ready()
    assert d.event("listening")["client_certificates"] is True
    known = client(authority)
    known.load_cert_chain(*authority.issue("alice", "/O=Weir/CN=alice"))
    with connect(d, known) as c:
        assert c.ask("subject") == "CN=alice,O=Weir"
        session = c.socket.session
    with Lines(d.address("resp"), lambda s: known.wrap_socket(s, server_hostname="localhost", session=session)) as c:
        assert c.ask("subject") == "CN=alice,O=Weir"
    (tmp_path / "other").mkdir()
    stranger = client(authority)
    stranger.load_cert_chain(*Authority(tmp_path / "other", "other").issue("mallory"))
    for context in [client(authority), stranger]:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            with connect(d, context) as c:  # under TLS 1.3 the refusal comes after the client's side is done
                if c.ask("echo x") == "":
                    raise ConnectionError
    with connect(d, known) as c:
        assert c.ask("echo fine") == "fine"


def test_a_handshake_that_is_not_ended_is_closed(serve, authority):
    d = serve(env={"ECHO_HANDSHAKE_MS": "100"}).ready()
    with socket.create_connection(d.address("resp"), 20) as silent:
        assert silent.recv(1) == b""
    with connect(d, client(authority)) as c:
        wait_for("counted", lambda: c.ask("counters").split()[4] == "1")


def test_drain_under_tls(serve, authority):
    d = serve().ready()
    with connect(d, client(authority)) as c:
        c.send("later 200 done")
        assert c.ask("echo seen") == "seen"
        d.signal(signal.SIGTERM)
        assert c.receive() == "done"
        assert c.receive() == ""
    assert d.wait() == 0


def in_clear(daemon):
    with Lines(daemon.address("resp")) as c:
        return c.ask("echo x") == "x"


def test_a_door_changes_between_clear_and_tls_at_a_restart_only(serve, authority):
    """A reload that says otherwise is refused: who believed it would send in clear."""
    d = serve().ready()
    with_tls = d.policy.read_text()
    clear = with_tls[:with_tls.index("  resp:")] + "  resp: {address: 127.0.0.1:0}\n"
    d.policy.write_text(clear)
    d.signal(signal.SIGHUP)
    reason = d.event("reload refused, the old policy stays")["reason"]
    assert reason == f"{d.policy}:6:19: error: listen: resp: 127.0.0.1:0 is open with TLS; that it is in clear takes effect at a restart"
    with connect(d, client(authority)) as c:
        assert c.ask("echo x") == "x"
    d.close()
    d = serve()
    d.ready()
    d.close()
    d.policy.write_text(clear)
    d = Daemon([*d.process.args])
    try:
        d.ready()
        assert in_clear(d)
        policy = d.process.args[-1]
        with open(policy, "w") as file:
            file.write(with_tls)
        d.signal(signal.SIGHUP)
        reason = d.event("reload refused, the old policy stays")["reason"]
        assert reason.endswith("listen: resp: 127.0.0.1:0 is open in clear; tls takes effect at a restart")
        assert in_clear(d)
        assert d.end() == 0
    finally:
        d.close()
