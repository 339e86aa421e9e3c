/* Log lines of every format, and what is wrong with those that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "wire/accesslog.h"

static const char *const names[] = {"X-Api-Key", "X-Forwarded-For", "User-Agent", "Referer",
                                    "X-Real-IP"};
enum { API_KEY, FORWARDED, AGENT, REFERER, REAL_IP, COUNT };

struct fixture {
    struct wr_log_parser *parser;
    struct wr_log_record record;
    size_t column;
    char *copy; /* of the line, in a block of just its size */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->parser = wr_log_parser_new(WR_LOG_UNKNOWN, names, COUNT);
    *state = f;
    return f->parser == NULL;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    wr_log_parser_free(f->parser);
    free(f->copy);
    free(f);
    return 0;
}

static const char *parse_bytes(struct fixture *f, const char *line, size_t len)
{
    free(f->copy);
    f->copy = malloc(len > 0 ? len : 1);
    if (len > 0)
        memcpy(f->copy, line, len);
    return wr_log_parse(f->parser, f->copy, len, &f->record, &f->column);
}

static void good(struct fixture *f, const char *line)
{
    const char *error = parse_bytes(f, line, strlen(line));

    if (error != NULL)
        fail_msg("%s\ncolumn %zu: %s", line, f->column, error);
}

static void check_slice(struct weir_slice slice, const char *expected)
{
    if (expected == NULL) {
        assert_null(slice.ptr);
        return;
    }
    assert_non_null(slice.ptr);
    if (slice.len != strlen(expected) || memcmp(slice.ptr, expected, slice.len) != 0)
        fail_msg("found \"%.*s\", expected \"%s\"", (int)slice.len, slice.ptr, expected);
}

static void check(struct fixture *f, const char *client, const char *method, const char *path,
                  int64_t time_s)
{
    check_slice(f->record.client, client);
    check_slice(f->record.method, method);
    check_slice(f->record.path, path);
    assert_int_equal(f->record.time_ns, time_s * WR_NS_PER_S);
}

static void bad(struct fixture *f, const char *line, size_t column, const char *words)
{
    const char *error = parse_bytes(f, line, strlen(line));

    if (error == NULL)
        fail_msg("let through: %s", line);
    if (strstr(error, words) == NULL || f->column != column)
        fail_msg("%s\ncolumn %zu: %s; expected column %zu: %s", line, f->column, error, column,
                 words);
}

/* ---- columns ------------------------------------------------------------------------------ */

static void test_common(void **state)
{
    struct fixture *f = *state;

    good(f, "192.0.2.7 - - [17/May/2015:10:05:03 +0000] \"GET /a?b=1 HTTP/1.1\" 200 512");
    check(f, "192.0.2.7", "GET", "/a?b=1", 1431857103);
    assert_int_equal(f->record.status, 200);
    assert_int_equal(f->record.cost, -1);
    assert_int_equal(f->record.duration_ns, -1);
    check_slice(f->record.field[AGENT], NULL);
    good(f, "host.example.net - - [17/May/2015:12:05:03 +0200] \"GET /old\" 304 -\r");
    check(f, "host.example.net", "GET", "/old", 1431857103);
}

static void test_combined(void **state)
{
    struct fixture *f = *state;

    good(f, "2001:db8::7 - ann [17/May/2015:10:05:04 +0000] \"POST /x HTTP/2.0\" 429 0 "
            "\"https://example.org/\" \"curl/8 \\\"x\\\" \\x41\"");
    check(f, "2001:db8::7", "POST", "/x", 1431857104);
    check_slice(f->record.field[REFERER], "https://example.org/");
    check_slice(f->record.field[AGENT], "curl/8 \"x\" A");
    check_slice(f->record.field[FORWARDED], NULL);
    good(f, "10.0.0.1 - - [17/May/2015:10:05:04 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" "
            "\"6.6.6.6, 1.2.3.4\"");
    check_slice(f->record.field[REFERER], NULL);
    check_slice(f->record.field[AGENT], NULL);
    check_slice(f->record.field[FORWARDED], "6.6.6.6, 1.2.3.4");
    good(f, "10.0.0.1 - - [17/May/2015:10:05:04 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" \"-\"");
    check_slice(f->record.field[FORWARDED], NULL);
    good(f,
         "10.0.0.1 - - [17/May/2015:10:05:04 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"a\" 0.003 x");
    check_slice(f->record.field[AGENT], "a");
}

/* The time of the line before is remembered; it must not stick. */
static void test_times_alternate(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 3; i++) {
        good(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1");
        assert_int_equal(f->record.time_ns, 1431857103 * WR_NS_PER_S);
        good(f, "h - - [17/May/2015:10:05:03 +0100] \"GET / HTTP/1.1\" 200 1");
        assert_int_equal(f->record.time_ns, 1431853503 * WR_NS_PER_S);
    }
}

static void test_clients(void **state)
{
    static const char *const clients[][2] = {
        {"1.2.3.4:5678", "1.2.3.4"},
        {"[2001:db8::1]:443", "2001:db8::1"},
        {"[2001:db8::1]", "2001:db8::1"},
        {"2001:db8::1", "2001:db8::1"},
        {"::1", "::1"},
        {"::", "::"},
        {"host:80", "host"},
        {"a:b", "a:b"},
        {"host:", "host:"},
        {":80", ":80"},
        {"1:2:3", "1:2:3"},
        {"unix:", "unix:"},
    };
    struct fixture *f = *state;
    char line[256];

    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
        (void)snprintf(line, sizeof line,
                       "%s - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1",
                       clients[i][0]);
        good(f, line);
        check_slice(f->record.client, clients[i][1]);
    }
}

static void test_request_lines(void **state)
{
    static const char *const lines[][3] = {
        {"GET /a b HTTP/1.1", "GET", "/a b"},
        {"GET  HTTP/1.1", "GET", ""},
        {"GET /x  HTTP/1.1", "GET", "/x "},
        {"get /x", "get", "/x"},
        {"GET /HTTP/1.1", "GET", "/HTTP/1.1"},
        {"OPTIONS * HTTP/1.0", "OPTIONS", "*"},
        {"CONNECT example.com:443 HTTP/1.1", "CONNECT", "example.com:443"},
        {"GET http://example.com/x HTTP/1.1", "GET", "http://example.com/x"},
        {"GET /q=\\x22\\\"\\\\ HTTP/1.1", "GET", "/q=\"\"\\"},
        {"GET /\\q\\x4 HTTP/1.1", "GET", "/\\q\\x4"},
        {"\\x16\\x03\\x01 /", "", ""},
        {"", "", ""},
        {"-", "", ""},
        {" ", "", ""},
        {"GET", "", ""},
        {"GET ", "GET", ""},
    };
    struct fixture *f = *state;
    char line[256];

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        (void)snprintf(line, sizeof line, "h - - [17/May/2015:10:05:03 +0000] \"%s\" 400 1",
                       lines[i][0]);
        good(f, line);
        check(f, "h", lines[i][1], lines[i][2], 1431857103);
    }
}

/* Users choose their names; a name must not be able to change what the line says. */
static void test_user_names(void **state)
{
    struct fixture *f = *state;

    good(f, "h - [ [17/May/2015:10:05:03 +0000] \"GET /x HTTP/1.1\" 200 1");
    check(f, "h", "GET", "/x", 1431857103);
    good(f, "h - \"\" [17/May/2015:10:05:03 +0000] \"GET /x HTTP/1.1\" 200 1");
    check(f, "h", "GET", "/x", 1431857103);
    bad(f, "h - ';echo '[S]';cd /tmp [17/May/2015:10:05:03 +0000] \"GET /x HTTP/1.1\" 200 1", 12,
        "expected a time as");
    bad(f, "h - ann [17/May/2015:10:05:03 +0000] [17/May/2015:10:05:03 +0000] \"GET / \" 200 1", 9,
        "expected a time as");
}

static void test_bad_columns(void **state)
{
    struct fixture *f = *state;

    bad(f, "", 1, "empty");
    bad(f, "\r", 1, "empty");
    bad(f, "word", 1, "expected a client");
    bad(f, "h - -", 5, "expected the user");
    bad(f, "h - - [17/May/2015:10:05:03] \"GET / HTTP/1.1\" 200 1", 7, "expected a time as");
    bad(f, "h - - [30/Feb/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1", 7, "expected a time as");
    bad(f, "h - - [17/May/1960:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1", 7, "expected a time as");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] GET / 200 1", 7, "request in quotes");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1 200 1", 36, "not closed");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET /\\\" 200 1", 36, "not closed");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET /\\", 36, "not closed");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" - 1", 53, "three digits");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 20 1", 53, "three digits");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 2000 1", 56, "size");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200", 56, "size");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1x", 57, "size");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 x", 59, "referer");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\"", 62, "user agent");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"agent", 63,
        "not closed");
    bad(f, "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"a\" \"1.2", 67,
        "not closed");
}

static void test_other_formats_are_bad(void **state)
{
    struct fixture *f = *state;

    bad(f,
        "1.2.3.4:5 [14/Jan/2015:12:48:57.127] https-in~ a/b 1/0/0/3/4 200 7 - - --NN 0/0/0/0/0 0/0 "
        "\"GET /x HTTP/1.1\"",
        48, "expected a time as");
    bad(f, "2021/12/02 11:53:15 [error] 4065#4065: *42 limiting requests, excess: 5.428", 29,
        "expected a time as");
    bad(f, "http 2023-04-26T12:22:55.463821Z app/5/4 192.0.2.1:4 10.0.0.1:80 0.0 0.0 0.0 200 200",
        42, "expected a time as");
    bad(f, "[24/Jan/2022:16:51:02 +0000] - 404 404 - GET http a.example \"/x\" [Client 1.2.3.4]", 1,
        "client");
    bad(f, "2026-01-24T01:34:36.743+00:00 stdout F [2026-01-24T01:34:36.743Z] \"GET /\" 200", 40,
        "JSON object");
}

static void test_junk(void **state)
{
    struct fixture *f = *state;
    char junk[4096];
    unsigned seed = 1;

    for (int round = 0; round < 500; round++) {
        for (size_t i = 0; i < sizeof junk; i++) {
            seed = seed * 1103515245U + 12345U;
            junk[i] = (char)(unsigned char)(seed >> 16);
        }
        assert_non_null(parse_bytes(f, junk, (size_t)round * 8));
    }
    memset(junk, 0, sizeof junk);
    assert_non_null(parse_bytes(f, junk, sizeof junk));
}

static void test_long_lines(void **state)
{
    static char line[WR_LOG_LINE_MAX + 2];
    const char *start = "h - - [17/May/2015:10:05:03 +0000] \"GET /";
    const char *rest = " HTTP/1.1\" 200 1";
    struct fixture *f = *state;
    size_t len = WR_LOG_LINE_MAX;

    memset(line, 'a', sizeof line);
    memcpy(line, start, strlen(start));
    memcpy(line + len - strlen(rest), rest, strlen(rest));
    assert_null(parse_bytes(f, line, len));
    assert_int_equal(f->record.path.len, len - strlen(start) - strlen(rest) + 1);
    assert_string_equal(parse_bytes(f, line, len + 1), "the line is longer than 1 MiB");
}

static void test_named_formats(void **state)
{
    const char *combined =
        "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"a\"";
    const char *json = "{\"time\":1,\"ip\":\"h\"}";
    struct fixture *f = *state;
    enum wr_log_format format;
    struct wr_log_parser *parser;
    size_t column;

    assert_true(wr_log_format_named("common", &format));
    parser = wr_log_parser_new(format, names, COUNT);
    assert_null(wr_log_parse(parser, combined, strlen(combined), &f->record, &column));
    check_slice(f->record.field[AGENT], NULL);
    assert_non_null(wr_log_parse(parser, json, strlen(json), &f->record, &column));
    wr_log_parser_free(parser);
    assert_true(wr_log_format_named("combined", &format));
    parser = wr_log_parser_new(format, names, COUNT);
    assert_non_null(wr_log_parse(parser, combined, 57, &f->record, &column));
    wr_log_parser_free(parser);
    assert_true(wr_log_format_named("json", &format));
    parser = wr_log_parser_new(format, names, COUNT);
    assert_null(wr_log_parse(parser, json, strlen(json), &f->record, &column));
    assert_non_null(wr_log_parse(parser, combined, strlen(combined), &f->record, &column));
    wr_log_parser_free(parser);
    assert_true(wr_log_format_named("auto", &format));
    assert_false(wr_log_format_named("apache", &format));
    assert_null(wr_log_parser_new(format, names, WR_LOG_FIELDS_MAX + 1));
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void test_own_form(void **state)
{
    struct fixture *f = *state;

    good(f,
         "{\"time\": \"2015-05-17T10:05:03.25Z\", \"ip\": \"192.0.2.7\", \"method\": \"GET\", "
         "\"path\": \"/x\", \"status\": 200, \"cost\": 7, \"headers\": {\"x-api-key\": \"k1\"}}");
    assert_int_equal(f->record.time_ns, 1431857103 * WR_NS_PER_S + 250 * WR_NS_PER_MS);
    check_slice(f->record.client, "192.0.2.7");
    check_slice(f->record.path, "/x");
    assert_int_equal(f->record.status, 200);
    assert_int_equal(f->record.cost, 7);
    check_slice(f->record.field[API_KEY], "k1");
    good(f, "{\"time\":\"1700000000.123456789\",\"ip\":\"::1\"}");
    assert_int_equal(f->record.time_ns, 1700000000 * WR_NS_PER_S + 123456789);
    check_slice(f->record.method, "");
    check_slice(f->record.field[API_KEY], NULL);
    good(f, "{\"ip\":\"::1\",\"time\":\"1700000000.5\",\"cost\":0}");
    assert_int_equal(f->record.time_ns, 1700000000 * WR_NS_PER_S + 500 * WR_NS_PER_MS);
    assert_int_equal(f->record.cost, 0);
    good(f, "{\"time\":1,\"ip\":\"h\",\"cost\":null,\"headers\":{\"X-Api-Key\":\"-\"}}");
    assert_int_equal(f->record.cost, -1);
    check_slice(f->record.field[API_KEY], "-"); /* a value like any other here */
}

static void test_header_lines_are_joined(void **state)
{
    struct fixture *f = *state;

    good(f, "{\"time\":1,\"ip\":\"h\",\"headers\":{\"X-Forwarded-For\":[\"1.1.1.1\",\"2.2.2.2\"],"
            "\"X-Api-Key\":\"\\u00e9\",\"x-forwarded-for\":\"3.\\u0033.3.3\",\"X-Real-Ip\":[],"
            "\"Other\":{\"a\":[1,{}]}}}");
    check_slice(f->record.field[FORWARDED], "1.1.1.1, 2.2.2.2, 3.3.3.3");
    check_slice(f->record.field[API_KEY], "\xc3\xa9");
    check_slice(f->record.field[REAL_IP], NULL);
}

/* A thousand forwarded addresses: joined once each, in order. */
static void test_a_thousand_header_lines(void **state)
{
    static char line[65536], expected[32768];
    struct fixture *f = *state;
    size_t at = 0, want = 0;

    at = (size_t)snprintf(line, sizeof line,
                          "{\"time\":1,\"ip\":\"h\",\"headers\":{\"X-Forwarded-For\":[");
    for (int i = 0; i < 1000; i++) {
        at += (size_t)snprintf(line + at, sizeof line - at, "%s\"10.0.%d.\\u00%d\"",
                               i > 0 ? "," : "", i, 30 + i % 10);
        want += (size_t)snprintf(expected + want, sizeof expected - want, "%s10.0.%d.%d",
                                 i > 0 ? ", " : "", i, i % 10);
    }
    (void)snprintf(line + at, sizeof line - at, "]}}");
    good(f, line);
    check_slice(f->record.field[FORWARDED], expected);
}

static void test_nginx(void **state)
{
    struct fixture *f = *state;

    good(f, "{\"remote_addr\":\"127.0.0.1\",\"time_local\":\"17/May/2015:06:05:03 -0400\","
            "\"request\":\"GET /api?x=1 HTTP/1.1\",\"status\":\"200\",\"request_time\":\"0.002\","
            "\"http_user_agent\":\"a\",\"http_x_forwarded_for\":\"-\",\"http_x_api_key\":\"\"}");
    check(f, "127.0.0.1", "GET", "/api?x=1", 1431857103);
    assert_int_equal(f->record.status, 200);
    assert_int_equal(f->record.duration_ns, 2 * WR_NS_PER_MS);
    check_slice(f->record.field[AGENT], "a");
    check_slice(f->record.field[FORWARDED], NULL);
    check_slice(f->record.field[API_KEY], NULL);
    good(f, "{\"msec\":1431857103.001,\"time_local\":\"x\",\"remote_addr\":\"::1\","
            "\"request_method\":\"PUT\",\"request_uri\":\"/y\",\"request\":\"GET /z HTTP/1.1\","
            "\"http_x_api_key\":\"k\",\"http_user_agent\":\"\\xff\\x22\"}");
    assert_int_equal(f->record.time_ns, 1431857103 * WR_NS_PER_S + WR_NS_PER_MS);
    check_slice(f->record.method, "PUT");
    check_slice(f->record.path, "/y");
    check_slice(f->record.field[API_KEY], "k");
    check_slice(f->record.field[AGENT], "\xff\"");
}

static void test_caddy(void **state)
{
    struct fixture *f = *state;

    good(f,
         "{\"level\":\"info\",\"ts\":1693840791.7564995,\"request\":{\"remote_ip\":\"172.17.0.1\","
         "\"client_ip\":\"127.0.0.1\",\"method\":\"GET\",\"uri\":\"/u\",\"headers\":"
         "{\"X-Forwarded-For\":[\"127.0.0.1\"],\"User-Agent\":[\"curl\"]}},"
         "\"duration\":0.000002701,\"status\":401,\"resp_headers\":{\"X-Api-Key\":[\"no\"]}}");
    assert_int_equal(f->record.time_ns, 1693840791 * WR_NS_PER_S + 756500000);
    check_slice(f->record.client, "172.17.0.1");
    check_slice(f->record.path, "/u");
    check_slice(f->record.field[FORWARDED], "127.0.0.1");
    check_slice(f->record.field[API_KEY], NULL);
    assert_int_equal(f->record.duration_ns, 2701);
    assert_int_equal(f->record.status, 401);
    bad(f, "{\"ts\":1742400753.05,\"logger\":\"http.handlers.reverse_proxy\",\"msg\":\"x\"}", 1,
        "no client address");
}

static void test_traefik(void **state)
{
    struct fixture *f = *state;

    good(f, "{\"ClientAddr\":\"172.17.0.1:39490\",\"DownstreamStatus\":404,\"Duration\":215563,"
            "\"RequestMethod\":\"GET\",\"RequestPath\":\"/t\",\"time\":\"2021-12-08T14:02:44Z\","
            "\"StartUTC\":\"2021-12-08T14:02:43.464763557Z\",\"request_X-Real-Ip\":\"9.9.9.9\"}");
    check_slice(f->record.client, "172.17.0.1");
    check_slice(f->record.path, "/t");
    assert_int_equal(f->record.time_ns, 1638972163 * WR_NS_PER_S + 464763557);
    assert_int_equal(f->record.duration_ns, 215563);
    assert_int_equal(f->record.status, 404);
    check_slice(f->record.field[REAL_IP], "9.9.9.9");
}

static void test_envoy(void **state)
{
    struct fixture *f = *state;

    good(f, "2025-12-31T17:37:40.493035218+01:00 stdout F {\"duration\":11,"
            "\"downstream_remote_address\":\"[fd00::1]:43000\",\"method\":\"GET\",\"path\":null,"
            "\"response_code\":301,\"start_time\":\"2015-05-17T10:05:03.500Z\","
            "\"x-envoy-origin-path\":\"/e\",\"x-forwarded-for\":\"1.2.3.4, 10.0.0.1\"}");
    check_slice(f->record.client, "fd00::1");
    check_slice(f->record.path, "/e");
    assert_int_equal(f->record.time_ns, 1431857103 * WR_NS_PER_S + 500 * WR_NS_PER_MS);
    assert_int_equal(f->record.duration_ns, 11 * WR_NS_PER_MS);
    check_slice(f->record.field[FORWARDED], "1.2.3.4, 10.0.0.1");
    good(f, "{\"start_time\":\"2015-05-17T10:05:03Z\",\"downstream_remote_address\":\"1.1.1.1:1\","
            "\"path\":\"/p\",\"x_forwarded_for\":null,\"user_agent\":\"-\"}");
    check_slice(f->record.field[FORWARDED], NULL);
    check_slice(f->record.field[AGENT], NULL);
    check_slice(f->record.path, "/p");
}

/* The library's words, and the place of the last byte that it took. */
static void test_no_json(void **state)
{
    struct fixture *f = *state;

    bad(f, "{", 2, "string or '}' expected");
    bad(f, "{\"time\"", 8, "':' expected");
    bad(f, "{\"time\":1,}", 11, "string or '}' expected");
    bad(f, "{\"time\":1 \"ip\":\"h\"}", 14, "'}' expected");
    bad(f, "{\"time\":1,\"ip\":\"h\"} x", 21, "end of file expected");
    bad(f, "{\"time\":1,\"ip\":\"h\"}{", 20, "end of file expected");
    bad(f, "{\"time\":1,\"ip\":\"h", 18, "premature end");
    bad(f, "{\"time\":1,\"ip\":\"h\\", 18, "invalid escape");
    bad(f, "{\"time\":1,\"ip\":\"\\q\"}", 18, "invalid escape");
    bad(f, "{\"time\":1,\"ip\":\"\\u12g4\"}", 21, "invalid escape");
    bad(f, "{\"time\":1,\"ip\":\"a\tb\"}", 17, "control character");
    bad(f, "{\"time\":01,\"ip\":\"h\"}", 9, "invalid token");
    bad(f, "{\"time\":1.,\"ip\":\"h\"}", 10, "invalid token");
    bad(f, "{\"time\":nul}", 11, "invalid token");
    bad(f, "{\"a\":[1,2}", 10, "']' expected");
    bad(f, "{\"a\":[[]", 9, "']' expected");
    bad(f, "{\"time\":1,\"ip\":7.5e,\"method\":1}", 19, "invalid token");
    bad(f, "{\"time\":1,\"ip\":\"h\",\"a\":1e999}", 28, "real number overflow");
    bad(f, "{\"a\":\"\xff\",\"b\":\"\\q\"}", 16, "invalid escape"); /* of what was mended */
    bad(f, "{\"a\":\"\xff\",\xff}", 9, "unable to decode");
    bad(f, "{\"a\":\"\\xff\"} \\xff", 14, "end of file expected");
}

static void test_bad_json(void **state)
{
    struct fixture *f = *state;

    bad(f, "{\"ip\":\"h\"}", 1, "no time");
    bad(f, "{\"time\":\"yesterday\",\"ip\":\"h\"}", 9, "the time is neither");
    bad(f, "{\"time\":-5,\"ip\":\"h\"}", 9, "the time is neither");
    bad(f, "{\"time\":1700000000123,\"ip\":\"h\"}", 9, "the time is neither");
    bad(f, "{\"time\":1}", 1, "no client");
    bad(f, "{\"time\":1,\"ip\":\"\"}", 1, "no client");
    bad(f, "{\"time\":1,\"ip\":\"h\",\"cost\":1.5}", 27, "the cost");
    bad(f, "{\"time\":1,\"ip\":\"h\",\"cost\":-1}", 27, "the cost");
    bad(f, "{\"time\":1,\"ip\":\"h\",\"cost\":1000000001}", 27, "the cost");
    bad(f, "{\"time\":1,\"ip\":\"h\",\"cost\":\"x\"}", 27, "the cost");
    bad(f, " []", 2, "expected a JSON object");
}

static void test_deep_json(void **state)
{
    static char line[8192];
    const char *start = "{\"time\":1,\"ip\":\"h\",\"a\":";
    const size_t depth = 2048; /* that the library bears, of which the line is one */
    struct fixture *f = *state;
    size_t at = strlen(start);

    memcpy(line, start, at);
    memset(line + at, '[', depth - 1);
    memset(line + at + depth - 1, ']', depth - 1);
    memcpy(line + at + 2 * (depth - 1), "}", 2);
    good(f, line);
    line[at + depth - 1] = '[';
    bad(f, line, at + depth, "maximum parsing depth");
}

/* Whole numbers are exact, others doubles; a time is rounded to the microsecond. */
static void test_numbers(void **state)
{
    struct fixture *f = *state;

    good(f, "{\"time\":1700000000.123456789,\"ip\":\"h\",\"duration\":0.1,\"status\":404}");
    assert_int_equal(f->record.time_ns, 1700000000 * WR_NS_PER_S + 123457000);
    assert_int_equal(f->record.duration_ns, 100 * WR_NS_PER_MS);
    assert_int_equal(f->record.status, 404);
    good(f, "{\"time\":1700000000.9999999,\"ip\":\"h\",\"duration\":123456789.123456}");
    assert_int_equal(f->record.time_ns, 1700000001 * WR_NS_PER_S);
    assert_int_equal(f->record.duration_ns / 1000, INT64_C(123456789123456));
    good(f, "{\"time\":7258118399,\"ip\":\"h\",\"Duration\":9223372036854775807}");
    assert_int_equal(f->record.time_ns, 7258118399 * WR_NS_PER_S);
    assert_int_equal(f->record.duration_ns, INT64_MAX);
    good(f, "{\"time\":1.7e9,\"ip\":\"h\",\"duration\":9223372036854775807,\"status\":99}");
    assert_int_equal(f->record.time_ns, 1700000000 * WR_NS_PER_S);
    assert_int_equal(f->record.duration_ns, -1);
    assert_int_equal(f->record.status, 0);
    good(f, "{\"time\":1,\"ip\":\"h\",\"duration\":1e300}");
    assert_int_equal(f->record.duration_ns, -1);
    bad(f, "{\"time\":7258118400,\"ip\":\"h\"}", 9, "the time is neither");
    bad(f, "{\"time\":7258118399.9999999,\"ip\":\"h\"}", 9, "the time is neither");
    bad(f, "{\"time\":-0.5,\"ip\":\"h\"}", 9, "the time is neither");
    bad(f, "{\"time\":1e300,\"ip\":\"h\"}", 9, "the time is neither");
}

/* An identifier beyond 64 bits, which some log as a number, does not spoil the line. */
static void test_large_integers(void **state)
{
    struct fixture *f = *state;

    good(f, "{\"time\":1700000000,\"ip\":7,\"trace\":18446744073709551615,\"cost\":3,"
            "\"status\":200,\"Duration\":5,\"x-api-key\":9007199254740991}");
    assert_int_equal(f->record.time_ns, 1700000000 * WR_NS_PER_S);
    assert_int_equal(f->record.cost, 3);
    assert_int_equal(f->record.status, 200);
    assert_int_equal(f->record.duration_ns, 5);
    check_slice(f->record.client, "7");
    check_slice(f->record.field[API_KEY], "9007199254740991");
    good(f,
         "{\"time\":1,\"ip\":\"h\",\"headers\":{\"x-api-key\":[9223372036854775807,-1.5,\"b\"]}}");
    check_slice(f->record.field[API_KEY], "9223372036854775807, -1.5, b");
}

static void test_strings(void **state)
{
    struct fixture *f = *state;

    good(f,
         "{\"time\":1,\"ip\":\"h\",\"path\":\"/\\ud83d\\ude00\\ud800\\/\\b\\f\\n\\r\\t\\u0041\"}");
    check_slice(f->record.path, "/\xf0\x9f\x98\x80\xef\xbf\xbd/\b\f\n\r\tA");
    good(f, "{\"time\":1,\"ip\":\"h\",\"path\":\"/\\u0000x\"}");
    assert_int_equal(f->record.path.len, 3);
    assert_memory_equal(f->record.path.ptr, "/\0x", 3);
    good(f, "{\"time\":1,\"ip\":\"h\",\"path\":\"/\xff\"}"); /* not UTF-8: as it is */
    check_slice(f->record.path, "/\xff");
    good(f, "{\"time\":1,\"ip\":\"h\\xc3\\xa9\",\"headers\":{\"x-api-key\":[\"\xfe\",\"\xc3\xa9\","
            "\"c\"]}}");
    check_slice(f->record.client, "h\xc3\xa9");
    check_slice(f->record.field[API_KEY], "\xfe, \xc3\xa9, c");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_common),
        TEST(test_combined),
        TEST(test_times_alternate),
        TEST(test_clients),
        TEST(test_request_lines),
        TEST(test_user_names),
        TEST(test_bad_columns),
        TEST(test_other_formats_are_bad),
        TEST(test_junk),
        TEST(test_long_lines),
        TEST(test_named_formats),
        TEST(test_own_form),
        TEST(test_header_lines_are_joined),
        TEST(test_a_thousand_header_lines),
        TEST(test_nginx),
        TEST(test_caddy),
        TEST(test_traefik),
        TEST(test_envoy),
        TEST(test_no_json),
        TEST(test_bad_json),
        TEST(test_deep_json),
        TEST(test_numbers),
        TEST(test_large_integers),
        TEST(test_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
