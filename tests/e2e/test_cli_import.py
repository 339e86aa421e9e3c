"""`weir import`: files as other limiters write them, and what must come of them. Expected limits are worked out by hand
from the formats' documentation; `weir check` says them in its own words."""
import pathlib
import re
import subprocess

import pytest

SAMPLES = pathlib.Path(__file__).resolve().parent / "imports"


def run(weir, *arguments, stdin=None):
    return subprocess.run([weir, "import", *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60)


def limits(weir, path):
    """{name: (algorithm, rates, keys, mode)} as weir check summarises the policy."""
    done = subprocess.run([weir, "check", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    found, name = {}, None
    for line in done.stdout.splitlines()[1:]:
        if re.match(r"  \S+:( |$)", line) and not line.startswith("   "):
            break
        words = re.split(r"  +", line.strip())
        if line[2] != " ":
            name = words[0]
            found[name] = (words[1], [words[2]], words[3], words[4])
        else:
            found[name][1].append(words[0])
    return found


@pytest.fixture
def imported(weir, tmp_path):
    def work(kind, name):
        done = run(weir, kind, SAMPLES / name)
        assert done.returncode == 0, done.stderr
        path = tmp_path / "policy.yaml"
        path.write_text(done.stdout)
        return path, limits(weir, path), done.stderr
    return work


def test_nginx(imported):
    _, found, said = imported("nginx", "nginx.conf")
    assert found == {
        "perip": ("token-bucket", ["10 per second, burst 21"], "ip", "enforce"),
        "perip-2": ("leaky-bucket", ["10 per second, queue 5"], "ip", "enforce"),
        "perkey": ("leaky-bucket", ["30 per minute, queue 10"], "x_api_key (or skipped)", "enforce"),
        "conns": ("concurrency", ["4 at once, held 30s at most"], "ip", "enforce"),
        "perkey-2": ("token-bucket", ["30 per minute, burst 3"], "x_api_key (or skipped)", "shadow"),
    }
    for line, text in ((7, "perserver"), (19, "several places"), (19, "replaces"), (23, "delay=8"),
                       (26, "regular expression"), (30, "limit_rate"), (32, "include")):
        assert re.search(rf":{line}: warning: .*{re.escape(text)}", said), (line, text, said)


def test_nginx_replayed(weir, imported, tmp_path):
    """What nginx would have done with this log: 10 a second and 20 more at once."""
    path, _, _ = imported("nginx", "nginx.conf")
    log = tmp_path / "access.log"
    lines = [f'192.0.2.{host} - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "x"' for host in (1, 2)] * 30
    log.write_text("\n".join(lines) + "\n")
    done = subprocess.run([weir, "replay", "-c", path, "--json", log], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert '"requests":60' in done.stdout.replace(" ", "") and '"denied":18' in done.stdout.replace(" ", ""), done.stdout


def test_envoy(weir, tmp_path):
    (tmp_path / "envoy.yaml").write_text((SAMPLES / "envoy.yaml").read_text())
    done = subprocess.run([weir, "import", "envoy", "envoy.yaml"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0 and 'envoy_ratelimit: ["envoy.yaml"]' in done.stdout
    (tmp_path / "policy.yaml").write_text(done.stdout)
    assert subprocess.run([weir, "check", "-q", tmp_path / "policy.yaml"], timeout=60).returncode == 0


BAD = [
    ("aws", "{", ":2:1: error"), ("aws", "[]", "items"), ("aws", '{"items": []}', "no limit"),
    ("aws", '{"items": [{"name": "a", "throttle": {"rateLimit": "many"}}]}', "no limit"),
    ("azure", "<policies><inbound></policies>", "not well-formed"), ("azure", "<html/>", "expected <policies>"),
    ("azure", '<!DOCTYPE a [<!ENTITY x "y">]><policies>&x;</policies>', "DOCTYPE"),
    ("azure", "<policies>" * 100, "deep"), ("azure", "", "not well-formed"),
    ("kong", "- a", "expected Kong"), ("kong", "a: &b c", "anchors"), ("kong", "_format_version: '3.0'", "no limit"),
    ("tyk", "3", "expected policies"), ("tyk", '{"a": 3}', "expected a policy"), ("envoy", "a: b", "with a domain"),
    ("nginx", "http {", "does not end"), ("nginx", "}", "did not begin"), ("nginx", 'a "b', "a quote that does not end"),
    ("nginx", "a {" * 100, "too deep"), ("nginx", "events {}", "no limit"), ("nginx", ";", "expected a directive"),
    ("nginx", "x" * 5000 + ";", "too long"),
]


@pytest.mark.parametrize("kind, text, said", BAD)
def test_what_is_no_such_file(weir, kind, text, said):
    done = run(weir, kind, "-", stdin=text)
    assert done.returncode == 1 and done.stdout == ""
    assert said in done.stderr, done.stderr


def test_wrong_usage(weir, tmp_path):
    assert run(weir).returncode == 2
    assert run(weir, "apache", "-").returncode == 2
    assert "no such format" in run(weir, "apache", "-").stderr
    assert run(weir, "aws", "a", "b").returncode == 2
    done = run(weir, "aws", tmp_path / "none")
    assert done.returncode == 1 and "No such file" in done.stderr
    assert run(weir, "aws", tmp_path).returncode == 1
    (tmp_path / "nul").write_bytes(b'{"items": \0}')
    assert "NUL" in run(weir, "aws", tmp_path / "nul").stderr


def test_what_was_not_carried_over_is_in_the_policy_too(imported):
    path, _, said = imported("nginx", "nginx.conf")
    assert "regular expression" in said and "regular expression" in path.read_text()
