#!/usr/bin/env python3
"""`weir replay` beside goaccess on the same log of a million lines, in turns: lines a CPU second.

The log is made here, by a seeded generator: a day of 50 000 clients, a few of them busy."""
import argparse
import json
import pathlib
import random
import resource
import statistics
import subprocess
import tempfile
import time

POLICY = """version: 1
limits:
  - {name: per-ip, by: [ip], rate: 60/minute}
  - {name: search, match: {path: /search/**}, by: [ip, route], rate: 30/minute, algorithm: token-bucket}
"""
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
          "curl/8.5.0", "python-requests/2.31.0", "Googlebot/2.1 (+http://www.google.com/bot.html)"]


def make_log(path, lines):
    rng = random.Random(1)
    start = 1767225600
    with open(path, "w") as out:
        for i in range(lines):
            who = rng.randrange(50) if rng.random() < 0.3 else rng.randrange(50000)
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(start + i * 86400 // lines))
            page = rng.choice(["/", "/search/q?x=%d" % rng.randrange(999), "/items/%d" % rng.randrange(5000), "/login"])
            out.write(f'10.{who >> 16}.{who >> 8 & 255}.{who & 255} - - [{stamp}] "GET {page} HTTP/1.1" 200 '
                      f'{rng.randrange(200, 20000)} "-" "{rng.choice(AGENTS)}"\n')


def cpu_of(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=1000000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as directory:
        log, policy = pathlib.Path(directory, "access.log"), pathlib.Path(directory, "policy.yaml")
        make_log(log, options.lines)
        policy.write_text(POLICY)
        ours = [options.build / "weir", "replay", "-c", policy, "--json", log]
        peer = ["goaccess", log, "--log-format=COMBINED", "--no-global-config", "-o",
                pathlib.Path(directory, "report.json")]
        rows = [(cpu_of(ours), cpu_of(peer)) for _ in range(options.rounds)]
    ratio = statistics.median(b / a for a, b in rows)
    print(json.dumps(dict(bench="replay", case=f"{options.lines} lines, combined", unit="k lines a CPU second",
                          ours=round(options.lines / statistics.median(a for a, _ in rows) / 1000),
                          peer=round(options.lines / statistics.median(b for _, b in rows) / 1000),
                          ratio=round(ratio, 2), target=">= 5", met=ratio >= 5)))


if __name__ == "__main__":
    main()
