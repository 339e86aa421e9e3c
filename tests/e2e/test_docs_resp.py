"""What docs/resp.md shows is what happens: its policy is served, its commands are run."""
import re
import shutil
import subprocess

import pytest

from conftest import ROOT
from serving import DEADLINE, Daemon

TEXT = (ROOT / "docs" / "resp.md").read_text()


@pytest.fixture(scope="module")
def port(weir, tmp_path_factory):
    policy = tmp_path_factory.mktemp("docs") / "policy.yaml"
    policy.write_text(re.search(r"```yaml\n(.*?)```", TEXT, re.S).group(1).replace(":6380", ":0"))
    daemon = Daemon([weir, "serve", "-c", policy, "--log-format", "json"]).ready()
    yield daemon.address("resp")[1]
    daemon.close()


def test_command_line(port):
    if shutil.which("redis-cli") is None:
        pytest.skip("no redis-cli")
    shown = re.search(r"    \$ redis-cli -p 6380 (.*)\n((?:    \d\) .*\n)+)", TEXT)
    want = re.findall(r"\(integer\) (-?\d+)", shown.group(2))
    got = subprocess.run(["redis-cli", "-p", str(port), *shown.group(1).split()], capture_output=True, text=True, check=True,
                         timeout=DEADLINE).stdout.split()
    assert len(want) == 5 and got == want


def test_python(build, port):
    python = build / "venv/bin/python"
    if not list(build.glob("venv/lib/*/site-packages/redis")):
        pytest.skip("no redis-py: scripts/venv.sh could not fetch it")
    code = re.search(r"```python\n(.*?)```", TEXT, re.S).group(1).replace("6380", str(port))
    got = subprocess.run([python, "-c", code + "\nprint(allowed, limit, remaining)"], capture_output=True, text=True,
                         timeout=DEADLINE)
    assert got.stdout == "1 100 99\n", got.stderr
