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


BAD = [
    ("aws", "{", ":2:1: error"), ("aws", "{}", "items"), ("aws", "[]", "no limit"), ("aws", '{"items": []}', "no limit"),
    ("aws", '{"items": [{"name": "a", "throttle": {"rateLimit": "many"}}]}', "no limit"),
    ("azure", "<policies><inbound></policies>", "not well-formed"), ("azure", "<html/>", "expected <policies>"),
    ("azure", '<policies><inbound><quota calls="@(1" /></inbound></policies>', "no limit"),
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


# ---- what is carried over of each sample, and what is said not to be

FOUND = {
    ("aws", "aws.json"): {
        "throttle": ("token-bucket", ["Basic-Plan: 1 per 2s, burst 4", "Pro: 5 per 2s, burst 6", "Internal: unlimited"],
                     "api_key (or ip)", "enforce"),
        "quota-day": ("quota", ["Basic-Plan: 60 a day, UTC", "Pro: unlimited", "Internal: unlimited"], "api_key (or ip)", "enforce"),
        "throttle-pets-id-GET": ("token-bucket", ["Basic-Plan: 1 per 20s", "Pro: unlimited", "Internal: unlimited"],
                                 "api_key (or ip)", "enforce"),
        "throttle-orders-id": ("token-bucket", ["Basic-Plan: 1 per 5s, burst 3", "Pro: unlimited", "Internal: unlimited"],
                               "api_key (or ip)", "enforce"),
        "quota-week": ("quota", ["Basic-Plan: unlimited", "Pro: 75 a week, UTC", "Internal: unlimited"], "api_key (or ip)", "enforce"),
    },
    ("aws", "aws_one.json"): {
        "throttle": ("token-bucket", ["1 per 2s, burst 4"], "api_key (or ip)", "enforce"),
        "quota-month": ("quota", ["60 a month, UTC"], "api_key (or ip)", "enforce"),
    },
    ("azure", "azure.xml"): {
        "rate-limit": ("sliding-window", ["9 per 90s"], "subscription (or ip)", "enforce"),
        "rate-limit-by-key": ("sliding-window", ["6 per minute"], "ip", "enforce"),
        "rate-limit-by-key-2": ("sliding-window", ["3 per 10s"], "X-Tenant (or ip)", "enforce"),
        "rate-limit-by-key-3": ("sliding-window", ["7 per second"], "Authorization (or ip)", "enforce"),
        "quota": ("fixed-window", ["40 per hour"], "subscription (or ip)", "enforce"),
        "quota-by-key": ("quota", ["55 a day, UTC"], "subscription (or ip)", "enforce"),
        "limit-concurrency": ("concurrency", ["2 at once, held 30s at most"], "ip", "enforce"),
    },
    ("kong", "kong.yaml"): {
        "kong-everything-day": ("quota", ["70 a day, UTC"], "api_key (or ip)", "enforce"),
        "kong-route-orders-all-minute": ("fixed-window", ["3 per minute"], "ip", "enforce"),
        "kong-consumers-hour": ("fixed-window", ["default: unlimited", "acme-corp: 60 per hour", "second: 12 per hour", "gold: 15 per hour"],
                                "api_key (or ip)", "enforce"),
        "kong-service-catalog-minute": ("fixed-window", ["4 per minute"], "api_key (or ip)", "enforce"),
        "kong-service-catalog-hour": ("fixed-window", ["9 per hour"], "api_key (or ip)", "enforce"),
        "kong-route-shop-route-second": ("fixed-window", ["1 per second"], "X-Tenant (or ip)", "enforce"),
        "kong-consumers-minute": ("fixed-window", ["default: unlimited", "acme-corp: 6 per minute", "second: unlimited", "gold: unlimited"],
                                  "api_key (or ip)", "enforce"),
    },
    ("nginx", "nginx.conf"): {
        "perip": ("token-bucket", ["30 per minute, burst 6"], "ip", "enforce"),
        "perip-2": ("leaky-bucket", ["30 per minute, queue 2"], "ip", "enforce"),
        "perkey": ("leaky-bucket", ["12 per minute, queue 2"], "x_api_key (or skipped)", "enforce"),
        "conns": ("concurrency", ["1 at once, held 30s at most"], "ip", "enforce"),
        "perkey-2": ("token-bucket", ["12 per minute, burst 2"], "x_api_key (or skipped)", "shadow"),
    },
    ("tyk", "tyk.json"): {
        "rate": ("sliding-window", ["Free-tier: 3 per 10s", "Gold: 4 per minute", "silver: 1 per 2s", "open: unlimited"],
                 "api_key (or ip)", "enforce"),
        "quota-day": ("quota", ["Free-tier: 50 a day, UTC", "Gold: unlimited", "silver: unlimited", "open: unlimited"],
                      "api_key (or ip)", "enforce"),
        "quota": ("fixed-window", ["Free-tier: unlimited", "Gold: unlimited", "silver: 6 per hour", "open: unlimited"],
                  "api_key (or ip)", "enforce"),
        "quota-week": ("quota", ["Free-tier: unlimited", "Gold: unlimited", "silver: unlimited", "open: 30 a week, UTC"],
                       "api_key (or ip)", "enforce"),
    },
}

# Line and a piece of each note; 0: of the whole file. There are no others.
NOTES = {
    "aws.json": [(0, 'plan "Basic Plan" (a1b2c3): here it is called Basic-Plan'), (31, "position"), (25, "offset 2"), (0, "get-usage-plan-keys")],
    "aws_one.json": [(0, "called Basic-Plan"), (0, "get-usage-plan-keys")],
    "azure.xml": [(4, "<base />"), (27, "<rate-limit> outside <inbound>"), (7, "api orders"), (9, "condition"), (10, "condition"), (11, "StatusCode < 300"), (18, "AsJwt"), (19, "User.Id"),
                  (20, "{{calls}}"), (21, "bandwidth"), (22, "first-period-start")],
    "kong.yaml": [(0, 'plan "acme corp" (consumer): here it is called acme-corp'), (15, "route catalog-public"), (59, "route shop-route"), (68, "catalog-v2"), (73, "cluster"), (77, "rate-limiting-advanced"), (16, "hosts"), (35, "policy: redis"),
                  (51, "by-regex"), (0, "most specific")],
    "nginx.conf": [(7, "perserver"), (11, "$limit"), (24, "several places"), (24, "replaces"), (28, "replaces"), (28, "delay=1"),
                   (31, "regular expression"), (34, "several places"), (34, "replaces"), (35, "limit_rate"), (38, "include")],
    "tyk.json": [(0, "called Free-tier"), (11, "Petstore"), (7, "key_expires_in"), (15, "3 times more"), (20, "is_inactive"), (0, "identity.plan.keys")],
}


@pytest.mark.parametrize("kind, name", FOUND)
def test_what_is_carried_over(imported, kind, name):
    path, found, said = imported(kind, name)
    assert found == FOUND[kind, name]
    lines = said.splitlines()
    assert len(lines) == len(NOTES[name]), said
    for line, text in NOTES[name]:
        place = f":{line}:" if line else ": warning"
        assert any(place in one and text in one for one in lines), (line, text, said)
        assert text in path.read_text()  # and again in the comments


@pytest.mark.parametrize("text", ["{mine: {quota_max: 5, quota_renewal_rate: 60}}", "[{id: a, rate: 5, per: 1}]", "{rate: 5, per: 1}"])
def test_other_forms_of_tyk(weir, text):
    assert "limits:\n" in run(weir, "tyk", "-", stdin=text).stdout


def test_a_plugin_of_kubernetes(weir):
    done = run(weir, "kong", "-", stdin="apiVersion: configuration.konghq.com/v1\nkind: KongPlugin\nmetadata: {name: slow}\n"
               "config: {minute: 5, limit_by: ip}\nplugin: rate-limiting\n")
    assert "rate: 5/minute" in done.stdout and "by: [ip]" in done.stdout


def test_azure_expressions_without_end(weir):
    """Found out once, not anew at each of them."""
    done = run(weir, "azure", "-", stdin="<policies>" + '<a b="@(f("x" />' * 100000)
    assert done.returncode == 1 and "not well-formed" in done.stderr


def test_azure_fragments(weir):
    done = run(weir, "azure", "-", stdin='<inbound><rate-limit calls="5" renewal-period="60"/></inbound>')
    assert "rate: 5/minute" in done.stdout


def check_printed(weir, tmp_path, kind, text):
    """What is printed passes weir check; the policy's text and what was said besides."""
    done = run(weir, kind, "-", stdin=text)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "printed.yaml"
    path.write_text(done.stdout)
    checked = subprocess.run([weir, "check", "-q", path], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    return done.stdout, done.stderr


def test_two_usage_plans_of_one_name(weir, tmp_path):
    plans = ", ".join('{"id": "%s", "name": "free", "throttle": {"rateLimit": %d, "burstLimit": %d}, '
                      '"quota": {"limit": %d, "period": "DAY"}}' % one for one in (("y", 5, 7, 10), ("z", 50, 70, 1000)))
    text, said = check_printed(weir, tmp_path, "aws", '{"items": [%s]}' % plans)
    assert "{free: 5/second burst 7, free-2: 50/second burst 70}" in text and "{free: 10, free-2: 1000}" in text
    assert "plan free (z) is another than plan free: here it is called free-2" in said


def test_two_policies_of_tyk_of_one_name(weir, tmp_path):
    text, said = check_printed(weir, tmp_path, "tyk", '{"a": {"name": "Gold", "rate": 100, "per": 60, "quota_max": 7, '
                               '"quota_renewal_rate": 86400}, "c": {"name": "Gold", "rate": 3, "per": 60, "quota_max": 5, '
                               '"quota_renewal_rate": 604800}}')
    assert "{Gold: 100/minute, Gold-2: 3/minute}" in text
    assert "{Gold: 7, Gold-2: unlimited}" in text and "{Gold: unlimited, Gold-2: 5}" in text
    assert "here it is called Gold-2" in said


def test_two_elements_of_azure_on_one_line(weir, tmp_path):
    text, _ = check_printed(weir, tmp_path, "azure", '<policies><inbound><rate-limit calls="20" renewal-period="90"/>'
                            '<limit-concurrency key="@(context.Subscription.Id)" max-count="3">'
                            '<rate-limit calls="7" renewal-period="60"/></limit-concurrency></inbound></policies>')
    assert "rate: 20/90s" in text and "concurrent: 3" in text and "rate: 7/minute" in text


def test_more_plans_than_a_policy_has(weir, tmp_path):
    plans = ", ".join('{"id": "%d", "name": "p%d", "throttle": {"rateLimit": %d, "burstLimit": 5}}' % (i, i, i + 1)
                      for i in range(66))
    text, said = check_printed(weir, tmp_path, "aws", '{"items": [%s]}' % plans)
    assert "p63: 64/second" in text and "p64: " not in text
    assert "plan p64 was left out: a policy has at most 64 plans" in said and "plan p65 was left out" in said


def test_paths_as_nginx_writes_them(weir, tmp_path):
    """Its locations are compared with paths that are decoded and resolved; weir's patterns are decoded."""
    places = ['= "/q r"', "'/e#\"f'", "/%zz", '"/a{b}"', '"/c*d"', "/g//", "/x/../y"]
    text, said = check_printed(weir, tmp_path, "nginx", "http { limit_req_zone $binary_remote_addr zone=a:10m rate=10r/s;\n"
                               "server {" + "".join(f"location {p} {{ limit_req zone=a; }}\n" for p in places) + "} }")
    for pattern in ("/q%20r", "/e%23\\\"f/**", "/%25zz/**", "/a%7Bb%7D/**", "/c%2Ad/**"):
        assert f'path: "{pattern}"' in text, text
    assert said.count("in a location that no path reaches, as // and .. are resolved before") == 2


def test_a_number_that_no_policy_has(weir, tmp_path):
    text, said = check_printed(weir, tmp_path, "nginx", "http { limit_req_zone $binary_remote_addr zone=a:10m rate=10r/s;\n"
                               "limit_conn_zone $binary_remote_addr zone=d:1m;\n"
                               "server { limit_req zone=a; location /b { limit_conn d 99999999; } } }")
    assert "rate: 10/second" in text and "name: d" not in text
    assert "limit d (limit_conn of line 3), 99999999 was left out: " in said


# ---- nothing is left out in silence

def kong(text):
    return "_format_version: '3.0'\n" + text


MINUTE = "plugins: [{name: rate-limiting, config: {minute: 5}}]"
TYK = '{"id": "a", "rate": 5, "per": 1, "quota_max": 9, "quota_renewal_rate": 86400, %s}'
SAID = [
    ("kong", kong(f"consumers: [{{username: two, keyauth_credentials: [{{key: a}}, {{key: b}}], {MINUTE}}}]"),
     "consumer two has 2 keys, which limit_by: consumer counts together there; here each key counts apart"),
    ("kong", kong(f"{MINUTE}\nconsumers: [{{username: three, keyauth_credentials: [{{key: a}}, {{key: b}}, {{key: c}}]}}]"),
     "consumer three has 3 keys"),
    ("kong", kong(f"consumers: [{{username: none, {MINUTE}}}]"), "consumer none: no key of it is in this file"),
    ("kong", kong(f"{MINUTE}\nconsumers: [{{username: jot, jwt_secrets: [{{key: a}}]}}]"), "consumer jot: jwt_secrets: not carried over"),
    ("kong", kong(f"{MINUTE}\nkeyauth_credentials: [{{key: a, consumer: x}}]"), "configuration: keyauth_credentials: not carried over"),
    ("kong", kong("plugins: [{name: rate-limiting, consumer: gone, config: {minute: 5}}]"), "consumer gone is not in this file"),
    ("kong", kong(f"{MINUTE}\nroutes: [{{name: r, paths: [/a], headers: {{x: [y]}}, {MINUTE}}}]"), "route r: its headers"),
    ("kong", kong(f"{MINUTE}\nroutes: [{{name: r, expression: 'a', {MINUTE}}}]"), "route r: how it is reached has no counterpart"),
    ("kong", kong(f"{MINUTE}\nroutes: [{{name: r, later: {{a: b}}}}]"), "route r: later: not carried over"),
    ("kong", kong(f"{MINUTE}\nservices: [{{name: s, enabled: false}}]"), "service s is not enabled"),
    ("kong", kong("plugins: [{name: key-auth, config: {key_names: [X-A, X-B]}}, {name: rate-limiting, config: {minute: 5}}]"),
     "keys in X-B; here they are looked for in X-A alone"),
    ("kong", kong("plugins: [{name: rate-limiting, _config: shared, config: {minute: 5}}]"), "plugin rate-limiting: _config: not carried over"),
    ("kong", "name: rate-limiting\nservice: {id: a}\nconfig: {minute: 5}", "plugin alone: its service is not in this file"),
    ("tyk", TYK % '"partitions": {"quota": false, "rate_limit": false, "per_api": true}', "per_api: each API counts apart"),
    ("tyk", TYK % '"partitions": {"later": true}', "partitions: later: not carried over"),
    ("tyk", TYK % '"access_rights": {"x": {"api_name": "Pets", "allowed_urls": [{"url": "/a", "methods": ["GET"]}]}}',
     "policy a: allowed_urls of API Pets: requests elsewhere are refused there"),
    ("tyk", TYK % '"access_rights": {"x": {"endpoints": [{"path": "/a"}]}}', "policy a: API x: endpoints: not carried over"),
    ("tyk", TYK % '"smoothing": {"enabled": true}', "policy a: smoothing: not carried over"),
    ("tyk", TYK % '"state": "draft"', "policy a: its state is draft"),
    ("tyk", '{"rate": 5, "quota_max": 9, "quota_renewal_rate": 86400}', "a rate of 5 without per: left out"),
    ("aws", '[{"name": "free/тест", "id": "z", "throttle": {"rateLimit": 5}}]', 'plan "free/тест" (z): here it is called free'),
    ("aws", '[{"name": "a", "throttle": {"rateLimit": 5, "burstLimit": 0}}]', "expected a burstLimit of at least 1"),
    ("aws", '[{"name": "a", "throttle": {"rateLimit": 5}, "later": {"b": 1}}]', "plan a: later: not carried over"),
    ("aws", '{"items": [{"name": "a", "throttle": {"rateLimit": 5}}], "NextToken": "x"}', "NextToken: there are more usage plans"),
    ("azure", "<inbound>%s<include-fragment fragment-id='f'/></inbound>", "include-fragment f: it is not in this file"),
    ("azure", "<inbound>%s<llm-token-limit tokens-per-minute='5'/></inbound>", "<llm-token-limit>: tokens"),
    ("azure", "<policies><inbound>%s</inbound><backend><limit-concurrency max-count='3'/></backend></policies>",
     "<limit-concurrency> outside <inbound>: left out"),
    ("azure", "<inbound>%s<limit-concurrency/></inbound>", "expected max-count, found none"),
    ("azure", "<inbound>%s<quota calls='3'/></inbound>", "expected renewal-period, found none"),
]


@pytest.mark.parametrize("kind, text, said", SAID)
def test_what_is_not_carried_over_is_said(weir, tmp_path, kind, text, said):
    text = text.replace("%s", "<rate-limit calls='5' renewal-period='60'/>")
    printed, messages = check_printed(weir, tmp_path, kind, text)
    assert said in messages and said in printed


def test_one_key_or_none_that_is_counted_needs_no_word(weir, tmp_path):
    _, said = check_printed(weir, tmp_path, "kong", kong("plugins: [{name: rate-limiting, config: {minute: 5, limit_by: ip}}]\n"
                            "consumers: [{username: two, keyauth_credentials: [{key: a}, {key: b}]}]"))
    assert said == ""


def test_partitions_of_tyk(weir, tmp_path):
    """Of a policy with partitions only those hold; the other one's plan shows that the limits are there."""
    text, said = check_printed(weir, tmp_path, "tyk", "[%s, %s, %s]" % (
        TYK % '"name": "q", "partitions": {"quota": true, "rate_limit": false}',
        TYK % '"name": "r", "partitions": {"quota": false, "rate_limit": true}',
        TYK % '"name": "all", "partitions": {"quota": false, "rate_limit": false}'))
    assert "rate: {q: unlimited, r: 5/second, all: 5/second}" in text
    assert "{q: 9, r: unlimited, all: 9}" in text
    assert "policy q: partitions without rate_limit: its rate does not hold" in said
    assert "policy r: partitions without quota: its quota does not hold" in said and "policy all" not in said


RATES = [("0.3333333333", "1/3s", True), ("0.14285714285714285", "1/7s", True), ("2.00000000001", "2/second", True),
         ("0.50000000000000000000", "1/2s", False), ("1e-05", "1/100000s", False), ("2.5E+1", "25/second", False),
         ("3e-8", "1/366d", True), ("0.000000000001", "0/second", True)]


@pytest.mark.parametrize("written, rate, noted", RATES)
def test_the_nearest_rate(weir, tmp_path, written, rate, noted):
    text, said = check_printed(weir, tmp_path, "aws", '[{"name": "a", "throttle": {"rateLimit": %s, "burstLimit": 2}}]' % written)
    assert f"{{a: {rate} burst 2}}" in text, text
    assert (f"a rate of {written} in 1 s: here it is {rate}, the nearest" in said) == noted


@pytest.mark.parametrize("written", ["1e", "1e+", "e5", "1.2.3", "1e99", "999999999999999999999", ".", "5x"])
def test_what_is_no_rate(weir, written):
    done = run(weir, "aws", "-", stdin='[{"name": "a", "throttle": {"rateLimit": "%s"}}]' % written)
    assert done.returncode == 1 and f"expected a rateLimit, found {written}: left out" in done.stderr


def test_plans_of_kong_that_would_have_one_name(weir, tmp_path):
    """A consumer, another whose name is made the same, a group, and one that is called as the default is; all apart."""
    text, said = check_printed(weir, tmp_path, "kong", kong(
        "plugins: [{name: rate-limiting, consumer_group: a-b, config: {minute: 7}}]\nconsumer_groups: [{name: a-b}]\nconsumers:\n"
        "- {username: a b, id: one, keyauth_credentials: [{key: k1}], plugins: [{name: rate-limiting, config: {minute: 5}}]}\n"
        "- {username: default, keyauth_credentials: [{key: k2}], plugins: [{name: rate-limiting, config: {minute: 6}}]}\n"
        "- {username: c, groups: [{name: a-b}], keyauth_credentials: [{key: k3}], plugins: [{name: cors}]}\n"))
    assert "{default: unlimited, a-b: 7/minute, a-b-2: 5/minute, default-2: 6/minute}" in text
    assert '"k1": a-b-2' in text and '"k2": default-2' in text and '"k3": a-b' in text
    assert "plan a b (consumer) is another than plan a-b: here it is called a-b-2" in said


def test_more_notes_than_are_kept(weir, tmp_path):
    text, said = check_printed(weir, tmp_path, "azure", "<inbound><rate-limit calls='5' renewal-period='60'/>" + "<base/>" * 70 + "</inbound>")
    assert "# - and 6 more" in text
