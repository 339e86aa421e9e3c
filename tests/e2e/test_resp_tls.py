"""The RESP door under TLS, by redis-cli and redis-py: server certificates, client certificates, a password."""
import subprocess

import pytest

from serving import DEADLINE, Daemon
from test_resp import redis_tool

POLICY = """version: 1
arena: {size: 4MiB}
listen:
  resp: {address: "127.0.0.1:0", tls: {certificate: %s, key: %s%s}}
  resp_password: open sesame
  threads: 1
limits: [{name: x, by: [ip], rate: 3/hour}]
"""
CALL = ["CL.THROTTLE", "tls", "15", "30", "3000"]
PYTHON = """import sys, redis
port, ca, certificate, key, protocol = sys.argv[1:6]
client = redis.Redis(port=int(port), ssl=True, ssl_ca_certs=ca, ssl_certfile=certificate or None, ssl_keyfile=key or None,
                     protocol=int(protocol), password="open sesame", socket_timeout=20)
assert client.ping()
with client.pipeline(transaction=False) as pipe:
    for _ in range(2000):
        pipe.execute_command("CL.THROTTLE", "py" + protocol, 999, 1, 3600)
        pipe.echo("x" * 500)
    replies = pipe.execute()
assert [r[0] for r in replies[::2]] == [0] * 1000 + [1] * 1000 and set(replies[1::2]) == {b"x" * 500}
client.connection_pool.disconnect()
assert client.execute_command("CL.THROTTLE", "py" + protocol, 999, 1, 3600)[0] == 1
print("ok")
"""


@pytest.fixture(scope="module")
def known(authority):
    return authority.issue("client", "/O=Weir/CN=client")


@pytest.fixture(params=[False, True], ids=["tls", "mutual"])
def door(request, weir, authority, tmp_path):
    """(daemon, does it ask for client certificates)"""
    asks = f", client_ca: {authority.certificate}" if request.param else ""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY % (*authority.issue("server"), asks))
    daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"]).ready()
    yield daemon, request.param
    daemon.close()


def redis_cli(daemon, *arguments, **options):
    return subprocess.run([redis_tool("redis-cli"), "-p", str(daemon.address("resp")[1]), "--no-auth-warning", *map(str, arguments)],
                          capture_output=True, text=True, timeout=DEADLINE, **options)


def test_redis_cli(door, authority, known):
    daemon, mutual = door
    tls = ["--tls", "--cacert", authority.certificate]
    mine = ["--cert", known[0], "--key", known[1]] if mutual else []
    said = redis_cli(daemon, *tls, *mine, "-a", "open sesame", *CALL)
    assert (said.returncode, said.stdout) == (0, "0\n16\n15\n-1\n100\n"), said
    assert "NOAUTH" in redis_cli(daemon, *tls, *mine, *CALL).stdout
    if mutual:  # a certificate is not enough without its key's owner, nor a password without a certificate
        without = redis_cli(daemon, *tls, "-a", "open sesame", *CALL)
        assert without.returncode != 0 and "15" not in without.stdout, without
    plain = redis_cli(daemon, "-a", "open sesame", *CALL)
    assert plain.returncode != 0 and "15" not in plain.stdout, plain
    again = redis_cli(daemon, *tls, *mine, "-a", "open sesame", *CALL)
    assert again.stdout == "0\n16\n14\n-1\n200\n", again  # the others charged nothing


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py(build, door, authority, known, protocol):
    daemon, mutual = door
    if not list(build.glob("venv/lib/*/site-packages/redis")):
        pytest.skip("no redis-py: scripts/venv.sh could not fetch it")
    run = subprocess.run([build / "venv/bin/python", "-c", PYTHON, str(daemon.address("resp")[1]), authority.certificate,
                          *(known if mutual else ("", "")), str(protocol)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and run.stdout == "ok\n", run.stdout + run.stderr
