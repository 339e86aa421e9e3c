"""/metrics: by hand, by promtool, by the OpenMetrics parser of Prometheus' Python client, by a real Prometheus."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

from admin_door import TOKEN, Admin
from conftest import ROOT
from serving import wait_for

HOUR = "rate: 3/hour, algorithm: token-bucket"
LIMITS = ["name: per-ip, by: [ip], " + HOUR,
          "name: tried, by: [ip], rate: 1/hour, algorithm: token-bucket, mode: shadow",
          'name: exports, match: {path: /export}, rate: 1/minute queue 5, algorithm: leaky-bucket']
OPEN = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def make(weir, tmp_path):
    made = []

    def start(limits=tuple(LIMITS), **options):
        made.append(Admin(weir, tmp_path / "policy.yaml", list(limits), **options))
        return made[-1]
    yield start
    for each in made:
        each.close()


def scrape(door, accept=None):
    reply = door.admin("GET", "/metrics", headers={"Accept": accept} if accept else {})
    assert reply.status == 200, reply.body
    return reply


LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def series(text):
    """{'name{label="value",…}': number}, as it stands."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            key, value = line.rsplit(" ", 1)
            assert key not in found, key
            found[key] = float(value)
    return found


def values(door):
    return series(scrape(door).body.decode())


def decisions(found, limit):
    return [int(found[f'weir_decisions_total{{limit="{limit}",outcome="{o}"}}'])
            for o in ("allowed", "denied", "delayed", "shadow_denied")]


def requests(found):
    return [int(found[f'weir_requests_total{{outcome="{o}"}}'])
            for o in ("allowed", "denied", "delayed", "shadow_denied")]


def reload(door, limits, count):
    door.write(limits)
    door.daemon.signal(signal.SIGHUP)
    door.daemon.event("reloaded", count)
    wait_for("the new policy", lambda: door.get("/readyz")["generation"] == count + 1)


# ---- what is told -------------------------------------------------------------------------------


def test_zero_from_the_start(make):
    found = values(make())
    for limit in "per-ip", "tried", "exports":
        assert decisions(found, limit) == [0, 0, 0, 0]
    assert requests(found) == [0, 0, 0, 0]
    for door in "http", "grpc", "resp":
        assert found[f'weir_door_request_duration_seconds_count{{door="{door}"}}'] == 0
        assert found[f'weir_door_connections{{door="{door}"}}'] == 0
    assert found['weir_policy_reloads_total{outcome="refused"}'] == 0
    assert found["weir_policy_generation"] == found["weir_ready"] == 1
    assert found["weir_arena_occupancy_ratio"] == 0
    assert found["weir_arena_slots"] > 100000


def send(door):
    """Four requests: 1 passes both limits; 2 and 3 pass, tried would refuse; 4 is refused."""
    outcomes = [door.check(method="GET", path="/", ip="192.0.2.1")["verdict"] for _ in range(4)]
    assert outcomes == ["allow", "shadow", "shadow", "deny"], outcomes


def test_known_traffic(make):
    door = make()
    send(door)
    # one that waits, having met all three limits as a caller of its own
    assert door.check(method="GET", path="/export", ip="192.0.2.2")["verdict"] == "allow"
    assert door.check(method="GET", path="/export", ip="192.0.2.3")["verdict"] == "delay"
    door.ask("GET", "/nothing")
    found = values(door)
    assert requests(found) == [2, 1, 1, 2]
    assert decisions(found, "per-ip") == [5, 1, 0, 0]
    assert decisions(found, "tried") == [3, 0, 0, 3]
    assert decisions(found, "exports") == [1, 0, 1, 0]
    assert found['weir_door_request_duration_seconds_count{door="http"}'] == 7
    assert found['weir_door_request_duration_seconds_bucket{door="http",le="+Inf"}'] == 7
    assert found['weir_door_request_duration_seconds_sum{door="http"}'] > 0
    assert found['weir_door_bad_requests_total{door="http"}'] == 1
    assert found['weir_door_connections{door="http"}'] == 1
    assert found['weir_door_connections_opened_total{door="http"}'] == 1
    assert found['weir_door_connections{door="admin"}'] == 1  # this one


def test_occupancy(make):
    door = make(["name: per-ip, by: [ip], rate: 10/hour, algorithm: token-bucket"])
    for block in range(20):
        door.check(*({"ip": f"10.0.{block}.{i % 250}", "path": "/"} for i in range(500)))
    found = values(door)
    share = 20 * 250 / found["weir_arena_slots"]  # each address is one key, met twice
    assert share > 0.01
    # eight standard deviations of a sample of 8192
    assert abs(found["weir_arena_occupancy_ratio"] - share) < 8 * (share / 8192) ** 0.5
    assert found["weir_arena_evicted_live_total"] == 0


def test_counts_stay_with_names_over_reloads(make):
    door = make()
    send(door)
    before = values(door)
    reload(door, [LIMITS[1], "name: new, by: [ip], rate: 100/hour", LIMITS[0]], 1)
    found = values(door)
    for limit in "per-ip", "tried":
        assert decisions(found, limit) == decisions(before, limit)
    assert decisions(found, "new") == [0, 0, 0, 0]
    assert not [key for key in found if "exports" in key]
    assert door.check(method="GET", path="/", ip="192.0.2.1")["verdict"] == "deny"
    found = values(door)
    assert decisions(found, "per-ip") == [3, 2, 0, 0]
    assert requests(found)[1] == 2
    reload(door, ["name: new, by: [ip], rate: 100/hour"], 2)
    door.check(method="GET", path="/", ip="192.0.2.1")
    reload(door, LIMITS, 3)
    found = values(door)
    assert decisions(found, "per-ip") == [3, 2, 0, 0]  # it was away, and goes on
    assert found["weir_policy_generation"] == 4
    assert found['weir_policy_reloads_total{outcome="applied"}'] == 3
    door.write(["name: broken"])
    door.daemon.signal(signal.SIGHUP)
    wait_for("the refusal", lambda: values(door)['weir_policy_reloads_total{outcome="refused"}'] == 1)
    assert values(door)["weir_ready"] == 1  # the old policy serves
    assert values(door)["weir_policy_generation"] == 4


def test_rules_of_envoy(make, tmp_path):
    (tmp_path / "shop.yaml").write_text(
        "domain: shop\ndescriptors:\n  - {key: plan, value: free, rate_limit: {unit: year, requests_per_unit: 5}}\n")
    door = make(more=f"envoy_ratelimit: [{tmp_path}/shop.yaml]\n")
    found = values(door)
    rules = [key for key in found if key.startswith("weir_envoy_hits_total")]
    assert len(rules) == 1 and found[rules[0]] == 0
    label = rules[0].removeprefix("weir_envoy_hits_total")
    assert "plan_free" in label
    body = {"domain": "shop", "descriptors": [{"entries": [{"key": "plan", "value": "free"}]}], "hitsAddend": 3}
    assert [door.ask("POST", "/json", body).status for _ in range(2)] == [200, 429]
    reload(door, LIMITS[:1], 1)  # the counters of the engine that goes are kept

    def told(found):
        return [int(found[f"weir_envoy_{name}_total{label}"])
                for name in ("hits", "within_limit", "over_limit", "shadow_mode", "negative_hits")]
    # 3 of 5 taken; 3 more are 6: one over, and none is consumed
    assert told(values(door)) == [6, 3, 1, 0, 0]
    assert requests(values(door)) == [1, 1, 0, 0]


def test_the_process(make):
    door = make()
    found = values(door)
    pid = door.daemon.process.pid
    assert found["process_open_fds"] == pytest.approx(len(os.listdir(f"/proc/{pid}/fd")), abs=2)
    assert abs(found["process_start_time_seconds"] - time.time()) < 60
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_resident_memory_bytes"] > 1 << 20
    assert found["process_max_fds"] >= found["process_open_fds"]


def test_wants_the_token(make):
    door = make()
    assert door.admin("GET", "/metrics", token=None).status == 401
    assert door.admin("POST", "/metrics", "").status == 405
    before = values(door)['weir_door_bad_requests_total{door="admin"}']
    assert before == 2
    assert door.admin("HEAD", "/metrics").body == b""


# ---- formats ------------------------------------------------------------------------------------


def need(program):
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"no {program}: scripts/setup.sh check has not run")
    return path


def test_promtool_has_nothing_to_say(make):
    door = make()
    send(door)
    result = subprocess.run([need("promtool"), "check", "metrics"], input=scrape(door).body, capture_output=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def parsed(build, text, *form):
    if not list(build.glob("venv/lib/*/site-packages/prometheus_client")):
        pytest.skip("no prometheus-client: scripts/venv.sh has not run")
    reader = pathlib.Path(__file__).with_name("openmetrics_reader.py")
    result = subprocess.run([build / "venv/bin/python", reader, *form], input=text, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_openmetrics_says_the_same(make, build):
    door = make()
    send(door)
    reply = scrape(door, OPEN)
    assert reply.one("Content-Type") == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    text = reply.body.decode()
    assert text.endswith("\n# EOF\n")
    families = parsed(build, text)
    old = scrape(door)
    assert old.one("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    before = parsed(build, old.body.decode(), "0.0.4")

    def shape(all_families):
        return [[f["name"], f["type"], f["help"], [[s[0], s[1]] for s in f["samples"]]] for f in all_families]
    assert shape(families) == shape(before)
    samples = {(s[0], tuple(sorted(s[1].items()))): s[2] for f in families for s in f["samples"]}
    assert samples["weir_decisions_total", (("limit", "per-ip"), ("outcome", "denied"))] == 1
    assert {f["unit"] for f in families} == {"", "seconds", "bytes", "ratio"}


def test_docs_have_every_series_and_no_other(make, build):
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", (ROOT / "docs/metrics.md").read_text(), re.M)
    documented = {name: (kind, sorted(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert len(documented) == len(rows)
    text = scrape(make()).body.decode()
    live = {name: (kind, []) for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M)}
    for key in series(text):
        name = re.sub(r"_(bucket|sum|count)$", "", key.split("{")[0])
        labels = sorted(label for label, _ in LABEL.findall(key) if label != "le")
        live[name] = (live[name][0], labels)
    for name in documented:  # no rules in this policy: their labels are looked at above
        if name.startswith("weir_envoy_"):
            live[name] = (live[name][0], ["limit"])
        if name.startswith("weir_ring_"):  # nor a ring: test_ring_daemons.py
            live[name] = (live[name][0], ["peer"])
    live["weir_alerts_total"] = ("counter", ["percent", "quota"])  # nor a quota
    live["weir_degraded_decisions_total"] = ("counter", ["how", "limit"])  # nothing is shared in it
    assert documented == live


# ---- Prometheus ---------------------------------------------------------------------------------


@pytest.fixture
def prometheus(tmp_path, free_port):
    """prometheus(door) starts one that scrapes it; query(text) asks it."""
    started = []

    def start(door):
        (tmp_path / "token").write_text(TOKEN)
        shutil.copy(ROOT / "examples/prometheus/alerts.yml", tmp_path / "alerts.yml")
        host, port = door.daemon.address("admin")
        text = (ROOT / "examples/prometheus/prometheus.yml").read_text()
        for here, there in (("15s", "200ms"), ("/etc/prometheus/weir-token", str(tmp_path / "token")),
                            ("127.0.0.1:9180", f"{host}:{port}")):
            assert here in text
            text = text.replace(here, there)
        (tmp_path / "prometheus.yml").write_text(text)
        started.append(subprocess.Popen(
            [need("prometheus"), f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb",
             f"--web.listen-address=127.0.0.1:{free_port}", "--log.level=error"]))

        def ask(path, **query):
            url = f"http://127.0.0.1:{free_port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
            try:
                with urllib.request.urlopen(url, timeout=20) as response:
                    return json.load(response)["data"]
            except urllib.error.HTTPError as e:
                if e.code == 503:  # it is starting
                    return None
                raise AssertionError(f"{query}: {e.read()}") from e
            except OSError:
                return None
        return ask
    yield start
    for process in started:
        process.terminate()
        process.wait(20)


def test_a_real_prometheus(make, prometheus):
    door = make()
    ask = prometheus(door)

    def value(query):
        answer = ask("query", query=query)
        return None if answer is None else {json.dumps(r["metric"], sort_keys=True): float(r["value"][1])
                                            for r in answer["result"]}

    def one(query):
        found = value(query)
        return list(found.values())[0] if found and len(found) == 1 else None
    wait_for("the first scrape", lambda: one("up") == 1)
    assert one('weir_decisions_total{limit="per-ip",outcome="denied"}') == 0
    send(door)
    wait_for("the refusal", lambda: one('weir_decisions_total{limit="per-ip",outcome="denied"}') == 1)
    assert one("sum(weir_requests_total)") == 4
    assert one('weir_requests_total{outcome="shadow_denied"}') == 2
    assert one('sum(weir_decisions_total{limit="tried"})') == 3 + 1
    assert one('weir_door_request_duration_seconds_count{door="http"}') == 4
    assert one("weir_build_info") == 1
    # a second refusal after the first: the rate of a counter that was there as 0 misses neither
    assert door.check(method="GET", path="/", ip="192.0.2.1")["verdict"] == "deny"
    wait_for("the second", lambda: one('weir_decisions_total{limit="per-ip",outcome="denied"}') == 2)
    target = ask("targets")["activeTargets"][0]
    assert (target["health"], target["lastError"]) == ("up", "")
    for rule in ask("rules")["groups"][0]["rules"]:
        wait_for(rule["name"], lambda name=rule["name"]: [
            r for r in ask("rules")["groups"][0]["rules"] if r["name"] == name and r["health"] == "ok"])
    queries = re.findall(r"```promql\n(.*?)```", (ROOT / "docs/metrics.md").read_text(), re.S)
    assert len(queries) == 3
    for query in queries:
        wait_for(query, lambda q=query: ask("query", query=q)["result"])


def test_the_alert_rules_are_rules():
    result = subprocess.run([need("promtool"), "check", "rules", ROOT / "examples/prometheus/alerts.yml"],
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    text = (ROOT / "examples/prometheus/alerts.yml").read_text()
    documented = (ROOT / "docs/metrics.md").read_text()
    for name in set(re.findall(r"\b(?:weir|process)_\w+", text)):
        assert f"`{re.sub('_bucket$', '', name)}`" in documented, name
