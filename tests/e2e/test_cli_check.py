"""`weir check`: what a person sees of a policy, right or wrong."""
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

GOOD = """version: 1
arena: {path: /run/weir/arena, size: 64MiB}
identity: {api_key: {header: X-Api-Key}, plan: {default: free}}
limits:
  - {name: per-ip, by: [ip], rate: 600/minute}
  - {name: per-key, by: [api_key], rate: {free: 100/hour, pro: 1000/hour burst 50}}
  - {name: new, by: [ip, route], rate: 5/250ms, mode: shadow}
"""


def check(weir, *arguments, stdin=None):
    return subprocess.run([weir, "check", *arguments], input=stdin, capture_output=True, text=True, timeout=60)


def write(tmp_path, text, name="policy.yaml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_good_policy_is_ok_with_a_summary(weir, tmp_path):
    path = write(tmp_path, GOOD)
    done = check(weir, path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == f"""{path}: ok
  per-ip   sliding-window  600 per minute                ip               enforce
  per-key  token-bucket    free: 100 per hour            api_key (or ip)  enforce
                           pro: 1000 per hour, burst 50
  new      sliding-window  5 per 250ms                   ip, route        shadow
  plans: free (default), pro
  arena: /run/weir/arena, 64 MiB, for about 786432 to 1572864 live keys; 25% of it for lists
"""


def test_no_word_of_a_quota_is_cut(weir, tmp_path):
    path = write(tmp_path, """version: 1
identity: {api_key: {header: X-Api-Key}, plan: {default: free}}
customers: {directory: c}
plans: {free: {quotas: {monthly: 1000000}}, pro: {quotas: {monthly: {limit: 100000000, on_exceed: overage, ceiling: 2000000000}}}}
limits:
  - {name: monthly, by: [customer], when_missing: deny, quota: {per: month, anchor: customer, zone: America/Argentina/Buenos_Aires}}
""")
    assert ("pro: 100000000 a month from the customer's day, America/Argentina/Buenos_Aires, then overage to 2000000000\n"
            in check(weir, path).stdout)


def test_shared_limits_say_where_they_lie(weir, tmp_path):
    path = write(tmp_path, """version: 1
store: {redis: {url: "redis://weir:hunter2@10.0.0.5/1"}, mode: leased, nodes: 3, deadline: 50ms}
limits:
  - {name: per-ip, by: [ip], rate: 600/minute}
  - {name: all, by: [ip], rate: 1000/hour, shared: true}
  - {name: jobs, by: [ip], concurrent: 4, shared: true, store_mode: strict, when_store_gone: closed}
""")
    done = check(weir, path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == f"""{path}: ok
  per-ip  sliding-window  600 per minute               ip  enforce
  all     sliding-window  1000 per hour                ip  enforce  shared, leased; store gone: 1/3 of it here
  jobs    concurrency     4 at once, held 30s at most  ip  enforce  shared, strict; store gone: closed
  plans: default (default)
  arena: no path given, 64 MiB, for about 524288 to 1048576 live keys; 50% of it for lists
  store: redis 10.0.0.5:6379; deadline 50ms
"""


def test_quiet(weir, tmp_path):
    path = write(tmp_path, GOOD)
    assert check(weir, "--quiet", path).stdout == f"{path}: ok\n"


def test_every_error_has_its_place(weir, tmp_path):
    path = write(tmp_path, GOOD.replace("by: [ip],", "by: [pi],").replace("5/250ms", "0/0s"))
    done = check(weir, path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"{path}:5:25: error: by: expected ip, route, method or a name from identity, found \"pi\" "
        "(did you mean ip?)\n"
        f"{path}:7:42: error: rate \"0/0s\": the duration must be longer than zero\n")


def test_warnings_do_not_fail(weir, tmp_path):
    path = write(tmp_path, "version: 1\nlimits: [{name: a, rate: 5/s, algorithm: fixed-window}]\n")
    done = check(weir, path)
    assert done.returncode == 0
    assert done.stdout.startswith(f"{path}: ok\n")
    assert done.stderr.startswith(f"{path}:2:42: warning: fixed-window lets twice its rate pass")


def test_several_files(weir, tmp_path):
    good, bad = write(tmp_path, GOOD), write(tmp_path, "version: 2\n", "bad.yaml")
    done = check(weir, "-q", good, bad, good)
    assert done.returncode == 1
    assert done.stdout == f"{good}: ok\n{good}: ok\n"
    assert f"{bad}:1:10: error: version: expected 1, found \"2\"" in done.stderr


def test_standard_input(weir):
    assert check(weir, "-q", "-", stdin=GOOD).stdout == "-: ok\n"
    done = check(weir, "-", stdin="version: 1\nlimits: 3\n")
    assert done.returncode == 1
    assert done.stderr == "-:2:9: error: limits: expected a list of limits, found \"3\"\n"


def test_usage(weir):
    assert check(weir).returncode == 2
    assert check(weir, "--nonsense").returncode == 2
    done = check(weir, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: weir check")


ANCHORS = "version: 1\na: &a [x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 8)}]\n" for i in range(12))

BAD_TEXTS = {
    "an anchors bomb": (ANCHORS, ":2:4: error: expected a value, found an anchor"),
    "a cycle": ("a: &a [*a]\n", "anchors and aliases are not part of a policy"),
    "deep nesting": ("[" * 100000, ":1:41: error: expected at most 40 levels"),
    "too many values": ("[" + "a," * 300000 + "]", "expected at most 200000 values"),
    "too large": (b" " * (5 << 20), "expected a policy of at most 4194304 bytes"),
    "no UTF-8": (b"version: 1\nlimits: \xff\xfe\n", ":2:9: error: expected UTF-8 text"),
    "NUL": (b"version: 1\n\0", ":2:1: error: expected text, found a NUL byte"),
    "binary": (bytes(range(256)) * 100, ":1:1: error: expected text, found a NUL byte"),
    "overflow": ("version: 1\nlimits: [{name: a, rate: 99999999999999999999/s}]\n",
                 ":2:26: error: rate \"99999999999999999999/s\": the number is too large"),
    "a name given twice": ("version: 1\nlimits: [{name: a, rate: 5/s}, {name: a, rate: 5/m}]\n",
                           ":2:39: error: name: expected a name of its own"),
    "nothing": ("", ":1:1: error: expected a policy, found nothing"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_bad_texts_are_refused_with_their_place(weir, tmp_path, name):
    text, expected = BAD_TEXTS[name]
    done = check(weir, write(tmp_path, text))
    assert done.returncode == 1
    assert expected in done.stderr
    assert done.stdout == ""


def test_files_that_cannot_be_read(weir, tmp_path):
    done = check(weir, tmp_path, tmp_path / "missing")
    assert done.returncode == 1
    assert done.stderr == (f"{tmp_path}: error: expected a file, found a directory\n"
                           f"{tmp_path / 'missing'}: error: expected a policy to read: No such file or directory\n")


def test_an_escape_sequence_does_not_reach_the_terminal(weir, tmp_path):
    done = check(weir, write(tmp_path, 'version: "\\e[31m"\nlimits: []\n'))
    assert "\x1b" not in done.stderr
    assert '"\\x1b[31m"' in done.stderr
