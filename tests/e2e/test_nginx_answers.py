"""What callers are told: status, fields, body, on every kind of response."""

import json
import math
import re
import shutil
import subprocess
import time

import pytest

from gateway import gateway, late  # noqa: F401 (a fixture)

THREE = "limits: [{name: api, by: [ip], rate: 3/hour, algorithm: token-bucket}]\n"


def check_reset(answer, start, seconds):
    """X-RateLimit-Reset is the epoch second at which all is there again, rounded up: |seconds| after the first request,
    which was some time between |start| and now."""
    value = int(answer.one("X-RateLimit-Reset"))
    assert math.ceil(start + seconds) - 1 <= value <= math.ceil(time.time() + seconds) + 1


def test_allow_then_refuse_with_exact_fields(gateway):
    g = gateway(THREE)
    start = time.time()
    for left in (2, 1, 0):
        a = g.get("/x?q=1")
        assert (a.status, a.body) == (200, b"ok GET /x?q=1\n")
        assert a.one("X-RateLimit-Limit") == "3"
        assert a.one("X-RateLimit-Remaining") == str(left)
        assert a.one("RateLimit-Policy") == '"api";q=3;w=3600'
        assert late(a.one("RateLimit"), 1200) == f'"api";r={left};t=1200'  # one unit each 20 minutes
        check_reset(a, start, 1200 * (3 - left))
        assert not a.all("Retry-After") and not a.all("Cache-Control")
    a = g.get("/x")
    assert a.status == 429
    assert late(a.one("Retry-After"), 1200) == "1200"
    assert a.one("Cache-Control") == "no-store"
    assert a.one("Content-Type") == "application/problem+json"
    assert a.one("X-RateLimit-Limit") == "3"
    assert a.one("X-RateLimit-Remaining") == "0"
    assert a.one("RateLimit-Policy") == '"api";q=3;w=3600'
    assert late(a.one("RateLimit"), 1200) == '"api";r=0;t=1200'
    check_reset(a, start, 3600)
    assert int(a.one("Content-Length")) == len(a.body)
    body = json.loads(a.body)
    assert body["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded"
    assert body["status"] == 429
    assert body["violated-policies"] == ["api"]
    assert body["error"] == "rate_limit_exceeded"
    assert 1140 <= body["retry_after"] <= 1200
    assert body["limit"] == "api"


def test_head_has_no_body_but_its_length(gateway):
    g = gateway(THREE)
    assert g.statuses(3, method="HEAD") == [200] * 3
    get = g.get("/")
    got = g.raw(b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 ") and body == b""
    assert f"Content-Length: {len(get.body)}".encode() in head
    assert "\r\nRetry-After: 1200\r\n" in late(head.decode(), 1200) + "\r\n"


def test_options_pass_uncounted(gateway):
    g = gateway(THREE)
    assert g.statuses(10, method="OPTIONS") == [200] * 10
    assert not g.get("/", method="OPTIONS").all("RateLimit")
    assert g.get("/").one("X-RateLimit-Remaining") == "2"


def test_options_count_when_asked(gateway):
    g = gateway(THREE, server="weir_options on;")
    assert g.statuses(4, method="OPTIONS") == [200, 200, 200, 429]


def test_fields_on_errors_and_files(gateway):
    g = gateway("limits: [{name: api, by: [ip], rate: 100/hour, algorithm: token-bucket}]\n",
                server="""location /files { alias %(dir)s/html; }
                          location /broken { proxy_pass http://127.0.0.1:1; }""")
    for i, (path, status) in enumerate((("/files/file", 200), ("/files/none", 404), ("/broken", 502))):
        a = g.get(path)
        assert a.status == status
        assert a.one("X-RateLimit-Remaining") == str(99 - i)
    changed = g.get("/files/file").one("Last-Modified")
    a = g.get("/files/file", headers={"If-Modified-Since": changed})
    assert (a.status, a.one("X-RateLimit-Remaining")) == (304, "95")


@pytest.mark.parametrize("presets, names", [
    ("off", []),
    ("x-ratelimit", ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"]),
    ("draft-03", ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]),
    ("draft-06", ["RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]),
    ("draft-07", ["RateLimit-Policy", "RateLimit"]),
    ("draft-11", ["RateLimit-Policy", "RateLimit"]),
    ("draft-11 x-ratelimit", ["RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining",
                              "X-RateLimit-Reset"]),
])
def test_presets(gateway, presets, names):
    g = gateway("limits: [{name: api, by: [ip], rate: 2/hour, algorithm: token-bucket}]\n",
                server=f"weir_headers {presets};")
    a = g.get("/")
    assert sorted(n for n, _ in a.fields if "ratelimit" in n.lower()) == sorted(names)
    g.get("/")
    a = g.get("/")  # refused: these two whatever the presets
    assert (a.status, late(a.one("Retry-After"), 1800), a.one("Cache-Control")) == (429, "1800", "no-store")
    assert sorted(n for n, _ in a.fields if "ratelimit" in n.lower()) == sorted(names)


def test_delta_preset(gateway):
    g = gateway(THREE, server="weir_headers x-ratelimit-delta;")
    assert g.get("/").one("X-RateLimit-Reset") == "1200"


def test_status(gateway):
    g = gateway(THREE, server="weir_status 503; location /teapot { weir_status 418; proxy_pass http://127.0.0.1:%(up)d; }")
    assert g.statuses(4) == [200, 200, 200, 503]
    a = g.get("/teapot")
    assert a.status == 418
    assert json.loads(a.body)["status"] == 418


def test_status_444_closes_the_connection(gateway):
    g = gateway(THREE, server="weir_status 444;")
    assert g.statuses(3) == [200] * 3
    assert g.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == b""


# ---- upstreams that send such fields themselves -------------------------------------------------------


def test_upstream_lists_are_continued(gateway):
    g = gateway(THREE, api="""add_header RateLimit '"up";r=5;t=9' always;
        add_header RateLimit-Policy '"up";q=50;w=60' always;
        add_header X-RateLimit-Limit 50 always; add_header X-RateLimit-Remaining 49 always;
        add_header X-RateLimit-Remaining 48 always;""")
    a = g.get("/")
    assert a.one("RateLimit") == '"up";r=5;t=9, "api";r=2;t=1200'
    assert a.one("RateLimit-Policy") == '"up";q=50;w=60, "api";q=3;w=3600'
    assert a.one("X-RateLimit-Limit") == "3"
    assert a.one("X-RateLimit-Remaining") == "2"


def test_upstream_lists_of_several_lines_keep_their_order(gateway):
    g = gateway(THREE, api="""add_header RateLimit '"a";r=5'; add_header RateLimit '"b";r=6';""")
    assert g.get("/").one("RateLimit") == '"a";r=5, "b";r=6, "api";r=2;t=1200'


def test_older_shapes_of_an_upstream_are_replaced(gateway):
    g = gateway(THREE, api="""add_header RateLimit 'limit=50, remaining=49, reset=9';
        add_header RateLimit-Policy '50;w=60';""")
    a = g.get("/")
    assert a.one("RateLimit") == '"api";r=2;t=1200'
    assert a.one("RateLimit-Policy") == '"api";q=3;w=3600'


def test_upstream_refusal_is_left_alone(gateway):
    """The API's own 429 keeps its Retry-After: weir let the request through."""
    g = gateway(THREE, api="location /busy { add_header Retry-After 7 always; return 429 busy; }")
    a = g.get("/busy")
    assert (a.status, a.one("Retry-After"), a.body) == (429, "7", b"busy")
    assert a.one("X-RateLimit-Remaining") == "2"


def test_weir_off(gateway):
    g = gateway(THREE, server="location /open { weir off; proxy_pass http://127.0.0.1:%(up)d; }")
    assert g.statuses(10, "/open") == [200] * 10
    assert not g.get("/open").all("RateLimit")
    assert g.get("/").one("X-RateLimit-Remaining") == "2"
    assert "verdict=- reason=- limit=- remaining=- retry=- delay=- plan=-" in g.access(12)[0]


def test_cors_fields_are_exposed_beside_those_of_the_api(gateway):
    g = gateway("answers: {cors: true}\n" + THREE, api="add_header Access-Control-Expose-Headers X-Total;")
    exposed = [v.strip() for v in g.get("/").one("Access-Control-Expose-Headers").split(",")]
    assert exposed[0] == "X-Total"
    assert {"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit"} <= set(exposed)
    g.statuses(2)
    assert "Retry-After" in g.get("/").one("Access-Control-Expose-Headers")


# ---- connections ---------------------------------------------------------------------------------------


def test_keep_alive_after_a_refusal(gateway):
    g = gateway(THREE)
    c = g.connect()
    got = []
    for _ in range(6):
        got.append(g.get("/", connection=c).status)
        sock = c.sock
        assert sock is not None
    assert got == [200, 200, 200, 429, 429, 429]


@pytest.mark.parametrize("size", [0, 10, 100_000, 3_000_000])
def test_body_of_a_refused_post_is_discarded(gateway, size):
    """The next request on the same connection is read at the right place."""
    g = gateway("limits: [{name: post, match: {method: POST}, by: [ip], rate: 1/hour, algorithm: token-bucket}]\n",
                http="client_max_body_size 10m;")
    c = g.connect()
    body = b"POST /evil HTTP/1.1\r\n" * (size // 20)
    assert g.get("/", method="POST", body=body, connection=c).status == 200
    for _ in range(3):
        assert g.get("/", method="POST", body=body, connection=c).status == 429
        a = g.get("/after", connection=c)
        assert (a.status, a.body) == (200, b"ok GET /after\n")


def test_chunked_body_of_a_refused_post(gateway):
    g = gateway("limits: [{name: post, match: {method: POST}, by: [ip], rate: 0/hour, algorithm: token-bucket}]\n")
    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
    got = g.raw(chunked + b"GET /after HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 429 ")
    assert b"ok GET /after\n" in got


def test_expect_continue_of_a_refused_post(gateway):
    g = gateway("limits: [{name: none, by: [ip], rate: 0/hour, algorithm: token-bucket}]\n")
    got = g.raw(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
    assert b"HTTP/1.1 429 " in got


def test_pipelined_requests(gateway):
    g = gateway(THREE)
    one = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    got = g.raw(one * 5 + b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+) ", got) == [b"200"] * 3 + [b"429"] * 3


def test_http_1_0(gateway):
    g = gateway(THREE)
    got = [g.raw(b"GET / HTTP/1.0\r\n\r\n")[:12] for _ in range(4)]
    assert got == [b"HTTP/1.1 200"] * 3 + [b"HTTP/1.1 429"]


# ---- HTTP/2 --------------------------------------------------------------------------------------------


def test_http2_curl(gateway):
    g = gateway(THREE, listen="http2")
    command = ["curl", "-s", "-i", "--http2-prior-knowledge", f"http://127.0.0.1:{g.port}/"]
    runs = [late(subprocess.run(command, capture_output=True, text=True, timeout=60).stdout, 1200) for _ in range(4)]
    assert [r.split()[1] for r in runs] == ["200", "200", "200", "429"]
    assert 'ratelimit: "api";r=2;t=1200' in runs[0]
    assert "retry-after: 1200" in runs[3] and "x-ratelimit-remaining: 0" in runs[3]
    assert '"violated-policies":["api"]' in runs[3]


def test_http2_streams_of_one_connection(gateway):
    if shutil.which("nghttp") is None:
        pytest.skip("nghttp is not installed (nghttp2-client)")
    g = gateway("limits: [{name: api, by: [ip], rate: 7/hour, algorithm: token-bucket}]\n", listen="http2")
    done = subprocess.run(["nghttp", "-n", "-s", *[f"http://127.0.0.1:{g.port}/{i}" for i in range(20)]],
                          capture_output=True, text=True, timeout=60)
    codes = re.findall(r" (200|429) +\d+\S* /", done.stdout)
    assert sorted(codes) == ["200"] * 7 + ["429"] * 13, done.stdout


def test_http2_refused_posts_with_body(gateway):
    """By nghttp: curl 7.88 gives up where nginx answers before the body has come, whoever refuses."""
    if shutil.which("nghttp") is None:
        pytest.skip("nghttp is not installed (nghttp2-client)")
    g = gateway("limits: [{name: post, match: {method: POST}, by: [ip], rate: 1/hour, algorithm: token-bucket}]\n",
                listen="http2")
    big = g.dir / "big"
    big.write_bytes(b"x" * 300_000)
    done = subprocess.run(["nghttp", "-n", "-s", "-d", big, *[f"http://127.0.0.1:{g.port}/{i}" for i in range(4)]],
                          capture_output=True, text=True, timeout=60)
    codes = re.findall(r" (200|429) +\d+\S* /", done.stdout)
    assert sorted(codes) == ["200"] + ["429"] * 3, done.stdout


# ---- error pages ---------------------------------------------------------------------------------------


def test_error_page_is_charged_once_and_has_the_fields(gateway):
    g = gateway(THREE, server="""error_page 429 /slow;
        location = /slow { internal; default_type text/html; alias %(dir)s/html/file; }""")
    assert g.statuses(3) == [200] * 3
    a = g.get("/")
    assert (a.status, a.body) == (429, b"file\n")
    assert a.one("Content-Type") == "text/html"
    assert (late(a.one("Retry-After"), 1200), a.one("Cache-Control")) == ("1200", "no-store")
    assert late(a.one("RateLimit"), 1200) == '"api";r=0;t=1200'
    # the location of the page has weir on: it charges nothing, or the next would wait longer
    assert late(g.get("/").one("Retry-After"), 1200) == "1200"


def test_error_page_with_variables(gateway):
    g = gateway(THREE, server="""error_page 429 @slow;
        location @slow { return 429 "$weir_verdict $weir_reason $weir_limit $weir_remaining $weir_retry_after"; }""")
    g.statuses(3)
    a = g.get("/")
    assert (a.status, late(a.body.decode(), 1200)) == (429, "deny limit api 0 1200")
    assert late(a.one("Retry-After"), 1200) == "1200"


def test_error_page_from_an_upstream_sends_no_field_twice(gateway):
    g = gateway(THREE, server="error_page 429 @slow; location @slow { proxy_pass http://127.0.0.1:%(up)d; }",
                api="add_header Retry-After 9 always; add_header Cache-Control public always;")
    g.statuses(3)
    a = g.get("/")
    assert a.status == 429
    assert (late(a.one("Retry-After"), 1200), a.one("Cache-Control")) == ("1200", "no-store")


def test_error_page_of_another_status_is_charged_once(gateway):
    g = gateway("limits: [{name: api, by: [ip], rate: 100/hour, algorithm: token-bucket}]\n",
                server="""error_page 404 @app; location /files { alias %(dir)s/html; }
                          location @app { proxy_pass http://127.0.0.1:%(up)d; }""")
    assert [g.get("/files/none").one("X-RateLimit-Remaining") for _ in range(3)] == ["99", "98", "97"]


def test_try_files_and_x_accel_are_charged_once(gateway):
    g = gateway("limits: [{name: api, by: [ip], rate: 100/hour, algorithm: token-bucket}]\n",
                server="""location /try { try_files /none /none2 @app; }
                          location @app { proxy_pass http://127.0.0.1:%(up)d; }
                          location /accel { proxy_pass http://127.0.0.1:%(up)d; }
                          location /hidden { internal; alias %(dir)s/html; }""",
                api="location /accel { add_header X-Accel-Redirect /hidden/file; return 200; }")
    assert [g.get("/try").one("X-RateLimit-Remaining") for _ in range(3)] == ["99", "98", "97"]
    a = g.get("/accel")
    assert (a.body, a.one("X-RateLimit-Remaining")) == (b"file\n", "96")


# ---- variables -----------------------------------------------------------------------------------------


def test_variables_in_the_log(gateway):
    g = gateway(THREE)
    g.statuses(4)
    lines = g.access(7)  # those that passed are also of the API's server
    mine = [line for line in lines if "verdict=-" not in line]
    said = [re.search(r"verdict=.* plan=\S+", line).group() for line in mine]
    assert said[:3] == [
        f"verdict=allow reason=- limit=api remaining={left} retry=- delay=0.000 plan=default" for left in (2, 1, 0)]
    assert late(said[3], 1200) == "verdict=deny reason=limit limit=api remaining=0 retry=1200 delay=0.000 plan=default"
