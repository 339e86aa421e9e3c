"""`weir serve` before it serves, `weir init`, and the unit file."""
import json
import re
import subprocess

import pytest

from conftest import ROOT
from serving import Daemon


def run(weir, *arguments, **options):
    return subprocess.run([weir, *[str(a) for a in arguments]], capture_output=True, text=True, timeout=20, **options)


def test_no_policy_says_what_to_write(weir, tmp_path):
    done = run(weir, "serve", "-c", tmp_path / "none.yaml")
    assert done.returncode == 1
    assert "weir init" in done.stderr
    # what it says to write is right
    shown = re.search(r"serves:\n\n(.*?)\n\n", done.stderr, re.S).group(1)
    policy = tmp_path / "policy.yaml"
    policy.write_text("".join(line[4:] + "\n" for line in shown.splitlines()))
    assert run(weir, "check", policy).returncode == 0


def test_no_policy_says_what_works_as_it_stands(weir, tmp_path):
    policy = tmp_path / "no" / "such" / "policy.yaml"
    done = run(weir, "serve", "-c", policy)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1].strip()
    assert said == f"mkdir -p {policy.parent} && weir init {policy} && weir serve -c {policy}"
    policy.parent.mkdir(parents=True)
    done = run(weir, "serve", "-c", policy)
    assert done.stderr.splitlines()[-1].strip() == f"weir init {policy} && weir serve -c {policy}"
    done = run(weir, "serve", "-c", "-")
    assert done.returncode == 1 and "expected a file" in done.stderr and "init" not in done.stderr
    done = run(weir, "init", tmp_path / "none" / "policy.yaml")
    assert done.returncode == 1 and "its folder does not exist" in done.stderr


def test_a_policy_that_init_writes_is_not_for_everybody(weir, tmp_path):
    assert run(weir, "init", tmp_path / "policy.yaml", umask=0o022).returncode == 0
    assert (tmp_path / "policy.yaml").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("policy", [
    None,
    "version: 1\nlimits: [{name: a, by: [ip], rate: fast}]\n",
    "version: 1\nlimits: [{name: a, by: [ip], rate: 1/s}]\n",
    "version: 1\nlisten: {http: 192.0.2.1:1}\nlimits: [{name: a, by: [ip], rate: 1/s}]\n",
    "version: 1\nlisten: {http: 192.0.2.1:1}\nlimits: [{name: a, by: [ip], rate: 1/s, algorithm: fixed-window}]\n"])
def test_a_failed_start_is_json_lines_where_lines_are_json(weir, tmp_path, policy):
    path = tmp_path / "policy.yaml"
    if policy is not None:
        path.write_text(policy)
    done = run(weir, "serve", "-c", path, "--log-format", "json")
    assert done.returncode == 1
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert events[-1]["event"] in ("start failed", "stopped")
    failed = [e for e in events if e["event"] == "start failed"]
    assert failed and all(e["level"] == "error" and e["reason"] for e in failed)
    if policy is not None and "fixed-window" in policy:
        assert events[0]["event"] == "policy warning" and events[0]["level"] == "warning"


def test_a_bad_policy_shows_its_errors(weir, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nlimits: [{name: a, by: [ip], rate: fast}]\n")
    done = run(weir, "serve", "-c", policy)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{policy}:2:")


def test_without_addresses_it_says_what_to_write(weir, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nlimits: [{name: a, by: [ip], rate: 1/s}]\n")
    done = run(weir, "serve", "-c", policy)
    assert done.returncode == 1
    assert "listen: {http: 127.0.0.1:8080}" in done.stderr


@pytest.mark.parametrize("arguments", [["--nonsense"], ["extra"], ["--log-format", "xml"], ["--log-level", "loud"]])
def test_wrong_usage(weir, arguments):
    done = run(weir, "serve", *arguments)
    assert done.returncode == 2
    assert "usage: weir serve" in done.stderr


@pytest.mark.parametrize("command", ["serve", "init"])
def test_help(weir, command):
    done = run(weir, command, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"usage: weir {command}")
    assert f"  {command} " in run(weir, "help").stdout


def test_init_writes_a_policy_without_a_warning(weir, tmp_path):
    done = run(weir, "init", cwd=tmp_path)
    assert done.returncode == 0 and "weir serve -c policy.yaml" in done.stdout
    checked = run(weir, "check", tmp_path / "policy.yaml")
    assert checked.returncode == 0 and checked.stderr == ""
    assert run(weir, "init", "-").stdout == (tmp_path / "policy.yaml").read_text()


def test_init_with_every_door_named(weir, tmp_path):
    """The lines that are commented out are right as well."""
    text = run(weir, "init", "-").stdout
    opened = re.sub(r"^  # (grpc|resp|admin|path):", r"  \1:", text, flags=re.M)
    assert opened.count("  #") < text.count("  #")
    (tmp_path / "policy.yaml").write_text(opened)
    checked = run(weir, "check", tmp_path / "policy.yaml")
    assert checked.returncode == 0 and checked.stderr == ""


def test_init_leaves_what_is_there(weir, tmp_path):
    (tmp_path / "mine.yaml").write_text("mine")
    done = run(weir, "init", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 1 and "left as it is" in done.stderr
    assert (tmp_path / "mine.yaml").read_text() == "mine"
    assert run(weir, "init", tmp_path / "no" / "folder").returncode == 1


def test_the_first_lines_of_the_docs(weir, tmp_path):
    """docs/serve.md begins with two commands; they are run as they stand, on a free port."""
    lines = re.findall(r"^    (weir [^#\n]*?) *#", (ROOT / "docs/serve.md").read_text(), flags=re.M)
    assert [line.split()[1] for line in lines] == ["init", "serve"]
    assert run(weir, *lines[0].split()[1:], cwd=tmp_path).returncode == 0
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy.read_text().replace("127.0.0.1:8080", "127.0.0.1:0"))
    daemon = Daemon([weir, *lines[1].split()[1:], "--log-format", "json"], cwd=tmp_path)
    try:
        daemon.ready()
        assert daemon.address("http")[0] == "127.0.0.1"
        assert daemon.end() == 0
    finally:
        daemon.close()
