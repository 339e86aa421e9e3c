"""docs/http.md and docs/admin.md: what they show is what comes."""
import pathlib
import re
import subprocess

import pytest

from serving import Daemon

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
# Time passes between two questions: what depends on it is compared to the second or so.
TIMES = re.compile(r'"(retry_after_ms|reset_ms|next_ms|left_ms)":(\d+)')


# A ban's name and moments are those of this run.
BAN = re.compile(r'"(id|since|until)":"([0-9a-f]{16}|[0-9T:.-]{19,23}Z)"')


@pytest.mark.parametrize("name, count", [("http.md", 7), ("admin.md", 16)])
def test_the_examples(weir, tmp_path, name, count):
    text = (DOCS / name).read_text()
    policy = tmp_path / "policy.yaml"
    policy.write_text(re.sub(":(8080|9180)", ":0", re.search(r"```yaml\n(.*?)```", text, re.S).group(1)))
    daemon = Daemon([weir, "serve", "-c", policy, "--log-format", "json"]).ready()
    try:
        for event in daemon.events:
            if event["event"] == "listening":
                port = {"http": ":8080", "admin": ":9180"}[event["door"]]
                text = text.replace(port, ":" + event["address"].rsplit(":", 1)[1])
        ran, last_id = 0, ""
        for block in re.findall(r"```console\n(.*?)```", text, re.S):
            for command, shown in re.findall(r"\$ (.*)\n(.*)\n", block):
                command = command.replace('"id":"ID"', f'"id":"{last_id}"')
                got = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30).stdout.rstrip("\n")
                found = re.search('"id":"([0-9a-f]{32})"', got)
                if found:
                    last_id = found.group(1)
                    got = got.replace(last_id, "ID")
                assert BAN.sub("", TIMES.sub("", got)) == BAN.sub("", TIMES.sub("", shown)), command
                for (member, ours), (_, theirs) in zip(TIMES.findall(got), TIMES.findall(shown)):
                    assert int(ours) == pytest.approx(int(theirs), abs=5000), (command, member)
                ran += 1
        assert ran == count
    finally:
        daemon.close()
