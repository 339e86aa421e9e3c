"""Directives, nginx -t, and who a caller is taken for."""

import json
import re

import pytest

from gateway import MODULE, ROOT, gateway, late  # noqa: F401 (a fixture)

API = "limits: [{name: api, by: [ip], rate: 100/hour, algorithm: token-bucket}]\n"


# ---- nginx -t ------------------------------------------------------------------------------------------


def test_good_configuration_touches_no_arena(gateway):
    g = gateway(API, start=False)
    code, said = g.test()
    assert (code, said) == (0, "")
    assert not g.arena.exists()


def test_every_error_of_a_policy_is_told_with_its_place(gateway):
    g = gateway("limits:\n"
                "  - {name: api, by: [ip], rate: 0/0s}\n"
                "  - {name: api, by: [who], rate: 1/second, colour: red}\n", start=False)
    code, said = g.test()
    assert code == 1
    for line in (4, 5):
        assert re.search(rf"nginx: \[emerg\] {re.escape(str(g.policy_file))}:{line}:\d+: error: ", said), said
    assert f'[emerg] "weir_policy" "{g.policy_file}" cannot be used: the policy has errors in {g.conf}:' in said


def test_missing_policy(gateway):
    g = gateway(API, start=False)
    g.policy_file.unlink()
    code, said = g.test()
    assert code == 1 and str(g.policy_file) in said


def test_policy_is_found_beside_the_configuration(gateway):
    g = gateway(API, start=False)
    g.conf.write_text(g.conf.read_text().replace(str(g.policy_file), "policy.yaml"))
    assert g.test()[0] == 0


@pytest.mark.parametrize("directive, says", [
    ("weir maybe;", 'invalid value "maybe" in "weir" directive'),
    ("weir_cost lots;", 'invalid cost "lots"'),
    ("weir_cost -1;", 'invalid cost "-1"'),
    ("weir_cost 1000000001;", 'invalid cost "1000000001"'),
    ("weir_cost 1; weir_cost 2;", '"weir_cost" directive is duplicate'),
    ("weir_cost $no_such;", 'unknown "no_such" variable'),
    ("weir_status 200;", "value must be between 400 and 599"),
    ("weir_status 600;", "value must be between 400 and 599"),
    ("weir_headers draft-99;", 'invalid header preset "draft-99"'),
    ("weir_headers draft-06 draft-11;", 'header preset "draft-11" contradicts one before'),
    ("weir_headers x-ratelimit x-ratelimit-delta;", "contradicts one before"),
    ("weir_headers off x-ratelimit;", 'invalid header preset "off"'),
    ("weir_stage access;", 'invalid value "access"'),
    ("weir_options maybe;", 'invalid value "maybe"'),
    ("weir_key user $remote_user;", '"weir_key" "user": the policy'),
    ("weir_key a $uri; weir_key a $args;", '"weir_key" directive is duplicate'),
    ("weir_key a;", 'invalid number of arguments in "weir_key"'),
    ("weir_policy /x;", '"weir_policy" directive is not allowed here'),
])
def test_bad_directives(gateway, directive, says):
    g = gateway(API, start=False, server=f"location /x {{ {directive} }}")
    code, said = g.test()
    assert code == 1 and says in said, said


def test_two_policies(gateway):
    g = gateway(API, start=False, http="weir_policy x;")
    code, said = g.test()
    assert code == 1 and '"weir_policy" directive is duplicate' in said


def test_on_without_a_policy(gateway):
    g = gateway(API, start=False, http=None)
    code, said = g.test()
    assert code == 1 and '"weir on" needs a "weir_policy"' in said
    g.configure(weir="off")
    assert g.test()[0] == 0


def test_warnings_of_the_policy_are_told(gateway):
    g = gateway("identity: {ip: {from: x-forwarded-for, trusted: [0.0.0.0/0]}}\n" + API, start=False)
    code, said = g.test()
    assert code == 0
    assert re.search(r"\[warn\] \S+policy\.yaml:3:\d+: warning: ", said), said


def test_return_is_warned_of(gateway):
    g = gateway(API, start=False, server="""
        location /returned { return 200 x; }
        location /perhaps { if ($args) { return 403; } }
        location /left { weir off; return 200 x; }
        location /broken { break; return 200 x; }
        location /set { set $x 1; if ($args) { set $x 2; } return 200 $x; }""")
    code, said = g.test()
    assert code == 0
    assert re.findall(r'\[warn\] "return" in location "([^"]+)"', said) == ["/returned", "/set"]


def test_return_in_a_server_is_warned_of(gateway):
    g = gateway(API, start=False, server="return 200 x;")
    code, said = g.test()
    assert code == 0 and '[warn] "return" in a server answers before any limit' in said


def test_return_of_a_place_reached_by_redirect_is_not_warned_of(gateway):
    """The recipe of docs/nginx.md, and an internal location for the same: the request has been decided before."""
    recipe = re.search(r"```nginx\n(error_page 429 @slow;.*?)```", (ROOT / "docs" / "nginx.md").read_text(), re.S)
    g = gateway(API, start=False, server=recipe.group(1) + """
        error_page 404 /gone;
        location /gone { internal; return 410; location /gone/nested { return 410; } }""")
    assert g.test() == (0, "")


USERS = """version: 1
identity: {user: {given: true}, plan: {default: free}}
limits: [{name: per-user, by: [user], when_missing: ip, rate: {free: 60/minute, pro: 600/minute}}]
"""


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/nginx/*.conf")), ids=lambda path: path.name)
def test_examples_are_good(gateway, example):
    g = gateway(API, start=False)
    text = example.read_text()
    g.policy_file.write_text(USERS if "weir_key user" in text else USERS.replace("by: [user], when_missing: ip", "by: [ip]"))
    for old, new in (("modules/ngx_http_weir_module.so", MODULE), ("/etc/weir/policy.yaml", g.policy_file),
                     ("/var/log/nginx", g.dir),
                     ("http {", f"http {{ access_log off; {g.temporary()}"), ("listen 80", f"listen 127.0.0.1:{g.port}")):
        text = text.replace(old, str(new))
    g.conf.write_text(f"pid {g.dir}/nginx.pid;\n{text}")
    assert g.test() == (0, "")


# ---- cost, plan, key -----------------------------------------------------------------------------------


def left(answer):
    return int(answer.one("X-RateLimit-Remaining"))


def test_costs(gateway):
    g = gateway("costs: [{match: {method: POST}, cost: 10}]\n" + API, server="""
        location /five { weir_cost 5; proxy_pass http://127.0.0.1:%(up)d; }
        location /look { weir_cost 0; proxy_pass http://127.0.0.1:%(up)d; }
        location /arg { weir_cost $arg_cost; proxy_pass http://127.0.0.1:%(up)d; }""")
    assert left(g.get("/")) == 99
    assert left(g.get("/", method="POST")) == 89
    assert left(g.get("/five", method="POST")) == 84
    assert left(g.get("/look")) == 84
    assert left(g.get("/arg?cost=7")) == 77
    assert left(g.get("/arg")) == 76  # empty: as the policy says
    assert left(g.get("/arg?cost=-50")) == 75  # no number: as the policy says
    assert left(g.get("/arg?cost=1e9")) == 74
    for huge in ("101", "1000000000", "9" * 40):
        a = g.get("/arg?cost=" + huge)  # above the capacity: never, and no time to come back
        assert (a.status, a.all("Retry-After")) == (429, [])
    assert left(g.get("/arg?cost=74")) == 0


def test_plan(gateway):
    g = gateway("""identity: {plan: {header: X-Plan, default: free}}
limits: [{name: api, by: [ip], rate: {free: 5/hour, pro: 50/hour}, algorithm: token-bucket}]
""", server="""location /v { weir_plan $arg_plan; proxy_pass http://127.0.0.1:%(up)d; }""")
    assert g.get("/").one("X-RateLimit-Limit") == "5"
    assert g.get("/v?plan=pro").one("X-RateLimit-Limit") == "50"
    assert g.get("/v?plan=none").one("X-RateLimit-Limit") == "5"
    assert g.get("/v").one("X-RateLimit-Limit") == "5"
    assert any("plan=pro" in line for line in g.access(8))


GIVEN = """identity: {user: {given: true}}
limits: [{name: api, by: [user], rate: 2/hour, algorithm: token-bucket}]
"""


def test_keys(gateway):
    g = gateway(GIVEN, server="weir_key user $arg_user;")
    assert g.statuses(3, "/?user=ann") == [200, 200, 429]
    assert g.statuses(3, "/?user=bob") == [200, 200, 429]


MISSING = re.compile(r'\[warn\] no "weir_key" gives the identity "([^"]+)"')
LOST = re.compile(r'\[warn\] "weir_key" "([^"]+)" is not inherited in "([^"]+)"')


@pytest.mark.parametrize("server, missing", [
    ("", ["user"]),
    ("weir_key user $arg_user;", []),
    ("location /a { weir_key user $arg_user; proxy_pass http://127.0.0.1:%(up)d; }", []),
    ("location /a { weir off; weir_key user $arg_user; return 200; }", ["user"]),
    ("weir_key spare $arg_user;", ["user"]),
])
def test_a_key_that_nobody_gives_is_warned_of(gateway, server, missing):
    """An identity without a header is missing from every request unless a weir_key gives it; of one with a header, or
    that no limit counts by, nothing is said."""
    g = gateway("""identity: {user: {given: true}, spare: {given: true}, api_key: {header: X-Api-Key}}
limits: [{name: a, by: [user], rate: 2/hour}, {name: b, by: [api_key], when_missing: ip, rate: 2/hour}]
""", start=False, server=server)
    code, said = g.test()
    assert (code, MISSING.findall(said)) == (0, missing), said


def test_a_policy_used_nowhere_warns_of_no_key(gateway):
    g = gateway(GIVEN, start=False, weir="off")
    assert not MISSING.search(g.test()[1])


def test_a_key_that_is_not_inherited_is_warned_of(gateway):
    g = gateway("""identity: {user: {given: true}, team: {given: true}}
limits: [{name: api, by: [user, team], rate: 2/hour}]
""", start=False, server="""weir_key user $arg_user; weir_key team $arg_team;
        location /one { weir_key team x; proxy_pass http://127.0.0.1:%(up)d; }
        location /both { weir_key team x; weir_key user $arg_u; proxy_pass http://127.0.0.1:%(up)d; }
        location /off { weir off; weir_key team x; return 200; }""")
    code, said = g.test()
    assert code == 0 and LOST.findall(said) == [("user", "/one")] and not MISSING.search(said), said


def test_key_from_auth_request_in_precontent(gateway):
    """The user is known when the subrequest has answered; the subrequest itself is not charged."""
    g = gateway(GIVEN, server="""weir_stage precontent; weir_key user $who;
        location /api { auth_request /auth; auth_request_set $who $upstream_http_x_user;
                        proxy_pass http://127.0.0.1:%(up)d; }
        location = /auth { internal; weir on; proxy_pass http://127.0.0.1:%(up)d/who; }""",
                api="location /who { add_header X-User $http_token; return 204; }")
    for who in ("ann", "bob"):
        assert g.statuses(3, "/api", headers={"Token": who}) == [200, 200, 429]


def test_subrequests_are_not_charged(gateway):
    g = gateway(API, server="""location /page { ssi on; ssi_types *; alias %(dir)s/html/page; }
                               location /part { proxy_pass http://127.0.0.1:%(up)d; }
                               location /auth { auth_request /part; alias %(dir)s/html/file; }""", start=False)
    (g.dir / "html" / "page").write_text('<!--# include virtual="/part/1" --><!--# include virtual="/part/2" -->')
    g.start()
    a = g.get("/page")
    assert a.body == b"ok GET /part/1\nok GET /part/2\n"
    assert left(a) == 99
    assert left(g.get("/auth")) == 98


def test_limit_req_refuses_first_and_weir_charges_nothing(gateway):
    g = gateway(API, http="limit_req_zone $server_port zone=z:1m rate=1r/m;",
                server="location /both { limit_req zone=z; proxy_pass http://127.0.0.1:%(up)d; }")
    assert g.statuses(3, "/both") == [200, 503, 503]
    assert left(g.get("/")) == 98


# ---- who a caller is ----------------------------------------------------------------------------------


def test_forwarded_address_counts_only_from_trusted_peers(gateway):
    text = """identity: {ip: {from: x-forwarded-for, trusted: [%s]}}
limits: [{name: api, by: [ip], rate: 2/hour, algorithm: token-bucket}]
"""
    g = gateway(text % "127.0.0.1")
    for who in ("203.0.113.1", "203.0.113.2"):
        assert g.statuses(3, headers={"X-Forwarded-For": f"1.2.3.4, {who}"}) == [200, 200, 429]
    assert g.statuses(1, headers={"X-Forwarded-For": "203.0.113.1:4711"}) == [429]
    g = gateway(text % "10.0.0.0/8")
    assert [g.get("/", headers={"X-Forwarded-For": f"203.0.113.{i}"}).status for i in range(3)] == [200, 200, 429]


def test_lines_of_one_header_are_joined_in_order(gateway):
    g = gateway("""identity: {ip: {from: x-forwarded-for, trusted: [127.0.0.1]}}
limits: [{name: api, by: [ip], rate: 2/hour, algorithm: token-bucket}]
""")
    lines = b"".join(b"x-FORWARDED-for: 198.51.100.%d\r\n" % i for i in range(5))
    request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sX-Forwarded-For: 203.0.113.7\r\n\r\n" % lines
    assert [int(g.raw(request).split()[1]) for _ in range(3)] == [200, 200, 429]  # the last line is the caller
    assert g.get("/", headers={"X-Forwarded-For": "203.0.113.7"}).status == 429
    assert g.get("/", headers={"X-Forwarded-For": "198.51.100.4"}).status == 200


def test_a_field_that_tells_one_caller_comes_once(gateway):
    g = gateway("""identity: {api_key: {header: X-Api-Key}}
bans: [{api_key: bad}]
limits: [{name: api, by: [api_key], rate: 1/hour, algorithm: token-bucket}]
""")
    for first, second in ((b"bad", b"x"), (b"x", b"bad"), (b"k", b"k")):
        request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: %s\r\nx-api-KEY: %s\r\n\r\n" % (first, second)
        assert int(g.raw(request).split()[1]) == 400
    assert g.statuses(2, headers={"X-Api-Key": "k"}) == [200, 429]  # nothing was taken


def test_proxy_protocol(gateway):
    g = gateway("limits: [{name: api, by: [ip], rate: 2/hour, algorithm: token-bucket}]\n", listen="proxy_protocol",
                server="""set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;""")
    for who in (b"203.0.113.1", b"203.0.113.2"):
        request = b"PROXY TCP4 %s 127.0.0.1 4711 80\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % who
        assert [int(g.raw(request).split()[1]) for _ in range(3)] == [200, 200, 429]


def test_realip_of_a_location(gateway):
    """realip sets the address of a location's requests in preaccess too: weir comes after it."""
    g = gateway("limits: [{name: api, by: [ip], rate: 2/hour, algorithm: token-bucket}]\n",
                server="""location /real { set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;
                                           proxy_pass http://127.0.0.1:%(up)d; }""")
    for who in ("203.0.113.1", "203.0.113.2"):
        assert g.statuses(3, "/real", headers={"X-Real-IP": who}) == [200, 200, 429]


def test_bans(gateway):
    g = gateway("""identity: {ip: {from: x-forwarded-for, trusted: [127.0.0.1]}}
bans: [{ip: 203.0.113.0/24, reason: scraping}]
answers: {ban_status: 403}
limits: [{name: api, by: [ip], rate: 100/hour, algorithm: token-bucket}]
""")
    a = g.get("/", headers={"X-Forwarded-For": "203.0.113.5"})
    assert a.status == 403
    assert a.all("Retry-After") == [] and a.one("Cache-Control") == "no-store"
    assert json.loads(a.body)["status"] == 403
    assert g.get("/", headers={"X-Forwarded-For": "203.0.114.5"}).status == 200
    assert "verdict=deny reason=banned limit=- remaining=-" in [x for x in g.access(3) if "banned" in x][0]


def test_shadow(gateway):
    g = gateway("""limits:
  - {name: real, by: [ip], rate: 10/hour, algorithm: token-bucket}
  - {name: new, by: [ip], rate: 2/hour, algorithm: token-bucket, mode: shadow}
""")
    answers = [g.get("/") for _ in range(4)]
    assert [a.status for a in answers] == [200] * 4
    assert [late(a.one("RateLimit"), 360) for a in answers] == [f'"real";r={n};t=360' for n in (9, 8, 7, 6)]
    verdicts = [re.search(r"verdict=(\S+) reason=\S+ limit=(\S+)", x).groups() for x in g.access(8) if "verdict=-" not in x]
    assert [v for v, _ in verdicts] == ["allow", "allow", "shadow", "shadow"]
    assert verdicts[2][1] == "new"


# ---- every spelling of a path is one path --------------------------------------------------------------

SPELLINGS = ["/search", "/search/", "//search", "/./search", "/x/../search", "/%73earch", "/search?q=1", "/search#top",
             "/search/#top", "/search?a#b", "/x/%2e%2e/search", "/search/."]


def test_spellings_of_a_path(gateway):
    """What nginx serves as /search is counted as /search."""
    g = gateway("""limits: [{name: s, match: {path: /search}, by: [route], rate: 100/hour, algorithm: token-bucket}]
""", server="location /search { alias %(dir)s/html/file; }")
    for i, path in enumerate(SPELLINGS):
        got = g.raw(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path.encode())
        head = got.partition(b"\r\n\r\n")[0].decode()
        assert f"X-RateLimit-Remaining: {99 - i}" in head, (path, head)
    got = g.raw(b"GET http://x/search HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert f"X-RateLimit-Remaining: {99 - len(SPELLINGS)}".encode() in got


def test_empty_path_of_an_absolute_request(gateway):
    g = gateway("limits: [{name: root, match: {path: /}, by: [ip], rate: 9/hour, algorithm: token-bucket}]\n")
    got = g.raw(b"GET http://x?a=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200 ") and b"X-RateLimit-Remaining: 8" in got


# ---- attacks --------------------------------------------------------------------------------------------

ATTACKED = """identity:
  ip: {from: x-forwarded-for, trusted: [127.0.0.1]}
  api_key: {header: X-Api-Key}
limits:
  - {name: key, by: [api_key], when_missing: ip, rate: 1000/hour, algorithm: token-bucket}
  - {name: ip, by: [ip], rate: 1000/hour, algorithm: token-bucket}
"""


@pytest.mark.parametrize("name, fields", [
    ("a thousand entries in one line", b"X-Forwarded-For: " + b", ".join([b"10.0.0.1"] * 1000) + b"\r\n"),
    ("nine hundred lines", b"X-Forwarded-For: 10.0.0.1\r\n" * 900),
    ("lines of commas", b"X-Forwarded-For: ,,,\r\n" * 900),
    ("nothing but commas", b"X-Forwarded-For: " + b"," * 5000 + b"\r\n"),
    ("8-bit bytes", b"X-Api-Key: \x80\xff\xc3\x28\r\nX-Forwarded-For: \xff\xfe\r\n"),
    ("a key of 64 KiB", b"X-Api-Key: " + b"k" * 65536 + b"\r\n"),
    ("empty values", b"X-Api-Key:\r\nX-Forwarded-For:\r\nX-Forwarded-For: \r\n"),
    ("no address", b"X-Forwarded-For: unknown, _hidden, [::1\r\n"),
    ("lengths that lie", b"X-Forwarded-For: ::ffff:1.2.3.4.5, 1.2.3, 999.1.1.1, 1.1.1.1:99999\r\n"),
])
def test_hostile_headers(gateway, name, fields):
    g = gateway(ATTACKED, http="large_client_header_buffers 8 128k; client_header_buffer_size 64k;")
    got = g.raw(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + fields + b"\r\n")
    assert got.startswith(b"HTTP/1.1 200 "), got[:200]
    assert got.count(b"X-RateLimit-Remaining: ") == 1
    assert g.get("/").status == 200 and len(g.workers()) == 1


def test_nul_in_a_header_is_refused_by_nginx(gateway):
    g = gateway(ATTACKED)
    got = g.raw(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: a\0b\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 400 ")
    assert b"RateLimit" not in got
    assert g.get("/").status == 200


def test_keys_are_in_no_log(gateway):
    g = gateway(ATTACKED, errors="info")
    for _ in range(3):
        g.get("/", headers={"X-Api-Key": "secret-key-123"})
    assert "secret-key-123" not in g.errors() + "\n".join(g.access(6))
    assert b"secret-key-123" not in g.arena.read_bytes()
