"""Running `weir replay` and making logs for it."""
import json
import subprocess


def run(weir, policy, *arguments, stdin=None):
    """The finished process; |policy| is a path. Output is bytes."""
    return subprocess.run([weir, "replay", "-c", policy, *map(str, arguments)], input=stdin, capture_output=True)


def verdicts(weir, policy, *arguments, stdin=None):
    done = run(weir, policy, "--verdicts", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def report(weir, policy, *arguments, stdin=None, status=0):
    done = run(weir, policy, "--json", *arguments, stdin=stdin)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def one_limit(tmp_path, limit, name="policy.yaml", head=""):
    """A policy of one limit called x, e.g. one_limit(tmp_path, "by: [ip], rate: 60/minute")."""
    path = tmp_path / name
    path.write_text(f"version: 1\n{head}limits:\n  - {{name: x, {limit}}}\n")
    return path


def line(time, ip="192.0.2.1", **members):
    return json.dumps({"time": time, "ip": ip, "method": "GET", "path": "/x", **members}) + "\n"
