"""docs/http.md: what it shows is what comes."""
import pathlib
import re
import subprocess

import pytest

from serving import Daemon

TEXT = (pathlib.Path(__file__).resolve().parents[2] / "docs/http.md").read_text()
# Time passes between two questions: what depends on it is compared to the second or so.
TIMES = re.compile(r'"(retry_after_ms|reset_ms)":(\d+)')


def test_the_examples(weir, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(re.search(r"```yaml\n(.*?)```", TEXT, re.S).group(1).replace(":8080", ":0"))
    daemon = Daemon([weir, "serve", "-c", policy, "--log-format", "json"]).ready()
    try:
        port = daemon.address("http")[1]
        ran, last_id = 0, ""
        for block in re.findall(r"```console\n(.*?)```", TEXT, re.S):
            for command, shown in re.findall(r"\$ (.*)\n(.*)\n", block):
                command = command.replace(":8080", f":{port}").replace('"id":"ID"', f'"id":"{last_id}"')
                got = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30).stdout
                found = re.search('"id":"([0-9a-f]{32})"', got)
                if found:
                    last_id = found.group(1)
                    got = got.replace(last_id, "ID")
                assert TIMES.sub("", got) == TIMES.sub("", shown), command
                for (name, ours), (_, theirs) in zip(TIMES.findall(got), TIMES.findall(shown)):
                    assert int(ours) == pytest.approx(int(theirs), abs=5000), (command, name)
                ran += 1
        assert ran == 7
    finally:
        daemon.close()
