"""What a policy names: files and addresses. Whatever is wrong with them is told with the line and column where the
policy names them, by `weir check` as by the start and by a reload."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from serving import Daemon

LIMITS = "limits: [{name: per-ip, by: [ip], rate: 5/hour}]\n"


@pytest.fixture
def policy(authority, tls_files, tmp_path):
    """Writes a policy with good files beside it; all of them are named by bare names."""
    shutil.copy(authority.certificate, tmp_path / "ca.pem")
    (tmp_path / "token").write_text("a-token-of-these-tests\n")
    (tmp_path / "password").write_text("a password\n")

    def write(**changes):
        v = {"door": "http", "address": "127.0.0.1:0", "certificate": "cert.pem", "key": "key.pem", "ca": "ca.pem",
             "token": "token", "password": "password", "size": "1MiB", **changes}
        path = tmp_path / "policy.yaml"
        path.write_text(f"version: 1\narena: {{size: {v['size']}}}\n{LIMITS}listen:\n"
                        f"  {v['door']}:\n    address: {v['address']}\n    tls:\n      certificate: {v['certificate']}\n"
                        f"      key: {v['key']}\n      client_ca: {v['ca']}\n"
                        f"  admin_token_file: {v['token']}\n  resp_password_file: {v['password']}\n")
        return path
    return write


def run(weir, *arguments, cwd="/", **options):
    return subprocess.run([weir, *[str(a) for a in arguments]], capture_output=True, text=True, timeout=60, cwd=cwd,
                          stdin=subprocess.DEVNULL, **options)


def test_paths_are_relative_to_the_policy(weir, policy):
    path = policy()
    assert run(weir, "check", "-q", path).returncode == 0
    daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"], cwd="/")
    try:
        daemon.ready()
        daemon.signal(signal.SIGHUP)
        daemon.event("reloaded")
    finally:
        daemon.close()


def test_a_policy_under_dev_is_in_a_folder_and_standard_input_in_the_one_it_runs_in(weir):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (pathlib.Path(folder) / "shop.yaml").write_text("domain: shop\ndescriptors: [{key: a}]\n")
        path = pathlib.Path(folder) / "policy.yaml"
        path.write_text("version: 1\nenvoy_ratelimit: [shop.yaml]\n")
        assert run(weir, "check", "-q", path).returncode == 0
        for name in ("/dev/stdin", "/dev/fd/0"):
            with path.open() as standard_input:
                done = subprocess.run([weir, "check", "-q", name], stdin=standard_input, capture_output=True, text=True,
                                      timeout=60, cwd=folder)
            assert done.returncode == 0, done.stderr


BAD = [("certificate", "none.pem", "8:20", "No such file or directory"),
       ("certificate", "token", "8:20", "there is none in it"),
       ("certificate", "fifo", "8:20", "not a regular file"),
       ("key", "none.pem", "9:12", "No such file or directory"),
       ("key", "token", "9:12", "there is none in it"),
       ("ca", "token", "10:18", "there is none in it"),
       ("key", "other.key", "9:12", "another certificate"),
       ("key", "secret.key", "9:12", "encrypted"),
       ("ca", "none.pem", "10:18", "No such file or directory"),
       ("token", "none", "11:21", "No such file or directory"),
       ("token", "fifo", "11:21", "not a regular file"),
       ("token", "empty", "11:21", "one line of visible ASCII"),
       ("password", "none", "12:23", "No such file or directory")]


@pytest.mark.parametrize("what,name,place,why", BAD, ids=[f"{b[0]}-{b[1]}" for b in BAD])
def test_a_file_that_is_wrong(weir, policy, authority, tmp_path, what, name, place, why):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").write_text("")
    shutil.copy(authority.issue("other")[1], tmp_path / "other.key")
    subprocess.run(["openssl", "pkey", "-in", tmp_path / "key.pem", "-aes256", "-passout", "pass:x",
                    "-out", tmp_path / "secret.key"], check=True, capture_output=True)
    good = policy()
    daemon = Daemon([weir, "serve", "-c", good, "--log-format", "json"])
    try:
        daemon.ready()
        path = policy(**{what: name})
        daemon.signal(signal.SIGHUP)
        told = daemon.event("reload refused, the old policy stays")["reason"]
    finally:
        daemon.close()
    for command in (["check", path], ["serve", "-c", path]):
        done = run(weir, *command)
        assert done.returncode == 1 and "ok" not in done.stdout
        line = done.stderr.splitlines()[0]
        assert line == told
        assert line.startswith(f"{path}:{place}: error: {tmp_path / name}: expected ") and why in line


def test_all_files_are_told_of_at_once(weir, policy):
    done = run(weir, "check", policy(token="none", password="none", key="none"))
    assert [line.split(": error: ")[0].split(".yaml")[1] for line in done.stderr.splitlines()] == [":9:12", ":11:21", ":12:23"]


def test_an_expired_certificate_is_a_warning(weir, policy, authority, tmp_path):
    request = ["openssl", "x509", "-req", "-in", authority.folder / "first.csr", "-CA", authority.certificate,
               "-CAkey", authority.key, "-CAcreateserial", "-out", tmp_path / "cert.pem", "-days", "-1"]
    subprocess.run(request, check=True, capture_output=True)
    path = policy()
    done = run(weir, "check", path)
    assert done.returncode == 0
    assert done.stderr.startswith(f"{path}:8:20: warning: {tmp_path}/cert.pem: the certificate expired on 20")
    daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"])
    try:
        daemon.ready()
        assert "expired on" in "".join(daemon.raw)
        daemon.signal(signal.SIGHUP)
        assert "expired on" in daemon.event("policy warning")["reason"]
    finally:
        daemon.close()


def test_more_memory_than_there_is(weir, policy):
    path = policy(size="1TiB")
    done = run(weir, "check", path)
    assert done.returncode == 0 and done.stderr.startswith(f"{path}:2:15: warning: size: 1048576 MiB are more than")


def test_a_resp_door_that_anyone_may_use(weir, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: 1\n{LIMITS}listen: {{resp: 0.0.0.0:6380}}\n")
    done = run(weir, "check", path)
    assert done.returncode == 0 and done.stderr.startswith(f"{path}:3:16: warning: resp: other machines can reach 0.0.0.0:6380")
    for more in ("127.0.0.1:6380", "0.0.0.0:6380, resp_password: a-password-of-these"):
        path.write_text(f"version: 1\n{LIMITS}listen: {{resp: {more}}}\n")
        assert run(weir, "check", path).stderr == ""


def start(weir, tmp_path, listen, **options):
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: 1\narena: {{size: 1MiB}}\n{LIMITS}listen: {{http: \"{listen}\", threads: 1}}\n")
    done = run(weir, "serve", "-c", path, **options)
    assert done.returncode == 1
    return done.stderr.removeprefix(f"{path}:4:16: error: http: {listen}: ")


def test_addresses_that_cannot_be_had(weir, tmp_path):
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "sock"))
        other.listen()
        assert start(weir, tmp_path, "127.0.0.1:%d" % taken.getsockname()[1]).startswith("the port is taken")
        assert start(weir, tmp_path, f"unix:{tmp_path}/sock") == "another process answers there\n"
    assert start(weir, tmp_path, f"unix:{tmp_path}/file") == "a file that is not a socket is in the way\n"
    assert start(weir, tmp_path, f"unix:{tmp_path}/none/sock") == "its folder does not exist\n"
    assert "198.51.100.1:0: this machine has no such address" in start(weir, tmp_path, "198.51.100.1:0")


def test_no_doors_and_no_descriptors(weir, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: 1\n{LIMITS}")
    assert run(weir, "serve", "-c", path).stderr.startswith(f"{path}: error: listen: no door is open")
    for limit in (12, 16, 20, 30):
        path.write_text(f"version: 1\narena: {{size: 1MiB}}\n{LIMITS}listen: {{http: 127.0.0.1:0}}\n")
        done = subprocess.run(["bash", "-c", f"ulimit -n {limit}; exec {weir} serve -c {path}"], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 1 and "descriptors" in done.stderr, (limit, done.stderr)


def test_a_passed_socket_without_a_name(weir, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: 1\narena: {{size: 1MiB}}\n{LIMITS}listen: {{http: 127.0.0.1:0}}\n")
    with socket.create_server(("127.0.0.1", 0)) as passed:
        done = subprocess.run(["bash", "-c", f"exec 3<&{passed.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec {weir} serve -c {path}"],
                              pass_fds=[passed.fileno()], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{path}: error: listen: socket activation: a socket without a name: expected")


@pytest.mark.parametrize("arguments,said", [
    (["--log-format", "xml"], "--log-format: expected text or json, found xml"),
    (["--log-level", "loud"], "--log-level: expected debug, info, warning or error, found loud"),
    (["extra"], "arguments: expected none; a policy is given by -c FILE, found extra"),
    (["--nonsense"], "--nonsense")])
def test_wrong_usage_says_what_is_wrong(weir, arguments, said):
    assert said in run(weir, "serve", *arguments).stderr.splitlines()[0]


def test_the_hint_names_the_policy_that_was_asked_for(weir, tmp_path):
    assert "weir init nope.yaml && weir serve -c nope.yaml" in run(weir, "serve", "-c", "nope.yaml", cwd=tmp_path).stderr


@pytest.mark.parametrize("name", ["password_file", "secret_file"])
@pytest.mark.parametrize("wrong,why", [("none", "No such file or directory"), ("fifo", "not a regular file")])
def test_a_file_of_the_store_that_is_wrong(weir, tmp_path, name, wrong, why):
    (tmp_path / "good").write_text("sixteen-and-more-bytes\n")
    os.mkfifo(tmp_path / "fifo")
    path = tmp_path / "policy.yaml"

    def write(file):
        inside, beside = (f", {name}: {file}", "") if name == "password_file" else ("", f", {name}: {file}")
        path.write_text(f"version: 1\nstore: {{redis: {{url: 'redis://127.0.0.1:1'{inside}}}{beside}, shared: true}}\n{LIMITS}"
                        "listen: {http: '127.0.0.1:0'}\n")
        return path
    assert run(weir, "check", write("good")).returncode == 0
    for command in ("check", "serve"):
        done = run(weir, command, *(["-c"] if command == "serve" else []), write(wrong))
        assert done.returncode == 1 and "ok" not in done.stdout
        line = done.stderr.splitlines()[0]
        at = path.read_text().splitlines()[1].index(name) + len(name) + 3
        assert line.startswith(f"{path}:2:{at}: error: {tmp_path / wrong}: expected ") and why in line


@pytest.mark.parametrize("wrong", ["none.pem", "empty.pem", "fifo.pem", "text.pem"])
def test_certificates_for_a_webhook_that_are_none(weir, tmp_path, authority, wrong):
    (tmp_path / "empty.pem").touch()
    (tmp_path / "text.pem").write_text("no certificate\n")
    os.mkfifo(tmp_path / "fifo.pem")
    path = tmp_path / "policy.yaml"

    def write(file):
        path.write_text("version: 1\nidentity: {api_key: {header: X-Api-Key}}\n"
                        f"customers: {{directory: state, webhook: {{url: 'https://hooks.example.com/', secret: {'s' * 32}, ca_file: {file}}}}}\n{LIMITS}")
        return path
    assert run(weir, "check", write(authority.certificate)).returncode == 0
    done = run(weir, "check", write(wrong))
    at = path.read_text().splitlines()[2].index("ca_file") + len("ca_file: ") + 1
    assert done.returncode == 1
    assert f"{path}:3:{at}: error: expected a file with PEM certificates that can be read: {tmp_path / wrong}\n" in done.stderr
