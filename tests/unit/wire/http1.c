/* The HTTP/1.1 reader: what is read, what is refused and why, and that the pieces it comes in make
 * no difference. */
#include "wire/http1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char scratch[WR_HTTP_BODY_MAX];
static struct wr_http_request request;

#define ASSERT_SLICE(slice, text)                                 \
    do {                                                          \
        assert_int_equal((slice).len, sizeof(text) - 1);          \
        assert_memory_equal((slice).ptr, text, sizeof(text) - 1); \
    } while (0)

/* In one piece, in a buffer that ends where the text ends. */
static enum wr_http_step parse(struct wr_http_parser *parser, const char *text, size_t len)
{
    static char *held;
    enum wr_http_step step;

    free(held);
    held = malloc(len > 0 ? len : 1);
    assert_non_null(held);
    memcpy(held, text, len);
    *parser = (struct wr_http_parser){0};
    step = wr_http_parse(parser, held, len, scratch, &request);
    return step;
}

static void whole(const char *text)
{
    struct wr_http_parser parser;
    enum wr_http_step step = parse(&parser, text, strlen(text));

    if (step != WR_HTTP_DONE)
        fail_msg("step %d: %s", step, parser.error != NULL ? parser.error : "not whole");
    assert_int_equal(parser.consumed, strlen(text));
}

static void a_request_with_fields(void **state)
{
    (void)state;
    whole("GET /a?b=c HTTP/1.1\r\nHost: x:80\r\nX-Api-Key: \t k 1 \t\r\nEmpty:\r\n\r\n");
    ASSERT_SLICE(request.method, "GET");
    ASSERT_SLICE(request.target, "/a?b=c");
    assert_int_equal(request.field_count, 3);
    ASSERT_SLICE(request.field[1].name, "X-Api-Key");
    ASSERT_SLICE(request.field[1].value, "k 1");
    ASSERT_SLICE(request.field[2].value, "");
    assert_int_equal(request.body.len, 0);
    assert_true(request.keep_alive);
    assert_ptr_equal(wr_http_find(&request, "x-api-key"), &request.field[1]);
    assert_null(wr_http_find(&request, "x-api-ke"));
    assert_null(wr_http_find(&request, "x-api-key2"));
}

static void targets(void **state)
{
    (void)state;
    whole("GET http://h:1/p?q HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_SLICE(request.target, "/p?q");
    whole("GET HTTPS://h HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_SLICE(request.target, "/");
    whole("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_SLICE(request.target, "*");
    whole("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"); /* after a body, some clients send one more */
    ASSERT_SLICE(request.target, "/");
}

static void when_the_connection_stays(void **state)
{
    (void)state;
    whole("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n");
    assert_false(request.keep_alive);
    whole("GET / HTTP/1.0\r\n\r\n");
    assert_false(request.keep_alive);
    whole("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    assert_true(request.keep_alive);
    whole("GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, close\r\n\r\n");
    assert_false(request.keep_alive);
}

static void bodies(void **state)
{
    (void)state;
    whole("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    ASSERT_SLICE(request.body, "hello");
    whole("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(request.body.len, 0);
    whole("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
          "5\r\nhello\r\n01;a=\"b\"\r\n,\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n");
    ASSERT_SLICE(request.body, "hello,0123456789");
    whole("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_int_equal(request.body.len, 0);
}

static void what_follows_is_left(void **state)
{
    static const char text[] =
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
    struct wr_http_parser parser;

    (void)state;
    assert_int_equal(parse(&parser, text, sizeof text - 1), WR_HTTP_DONE);
    assert_int_equal(parser.consumed, (sizeof text - 1) / 2);
    assert_int_equal(parser.head, 0);
    assert_int_equal(parser.scanned, 0);
}

/* Every cut into two pieces, and byte by byte, gives what the whole gives. */
static void pieces_make_no_difference(void **state)
{
    static const char *const texts[] = {
        "POST /x HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 3\r\n\r\nabc",
        "\r\nPOST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2;e\r\nab\r\n1\r\nc\r\n0\r\nT: u\r\n\r\n",
    };

    (void)state;
    for (size_t t = 0; t < 2; t++) {
        size_t len = strlen(texts[t]);
        for (size_t step = 1; step < len; step++) {
            struct wr_http_parser parser = {0};
            enum wr_http_step got = WR_HTTP_MORE;
            for (size_t have = step; got == WR_HTTP_MORE; have += step) {
                size_t n = have < len ? have : len;
                char *copy = malloc(n); /* elsewhere each time, and not a byte longer */
                assert_non_null(copy);
                memcpy(copy, texts[t], n);
                got = wr_http_parse(&parser, copy, n, scratch, &request);
                if (got == WR_HTTP_DONE) {
                    assert_int_equal(n, len);
                    ASSERT_SLICE(request.target, "/x");
                    ASSERT_SLICE(request.body, "abc");
                }
                free(copy);
                assert_true(got == WR_HTTP_DONE || n < len);
            }
            assert_int_equal(got, WR_HTTP_DONE);
            assert_int_equal(parser.consumed, len);
        }
    }
}

static void a_caller_that_waits_for_100(void **state)
{
    static const char text[] =
        "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab";
    struct wr_http_parser parser = {0};
    size_t len = sizeof text - 1;

    (void)state;
    assert_int_equal(wr_http_parse(&parser, text, len - 2, scratch, &request), WR_HTTP_CONTINUE);
    assert_int_equal(wr_http_parse(&parser, text, len - 2, scratch, &request), WR_HTTP_MORE);
    assert_int_equal(wr_http_parse(&parser, text, len, scratch, &request), WR_HTTP_DONE);
    ASSERT_SLICE(request.body, "ab");
}

struct refusal {
    const char *text;
    int status;
    const char *error;
};

static const struct refusal refusals[] = {
    /* lines */
    {"GET / HTTP/1.1\nHost: h\n\n", 400, "a line ends in LF without CR"},
    {"\n", 400, "a line ends in LF without CR"},
    {"\r\n\r\n", 400, "expected METHOD TARGET HTTP/1.1"},
    {"\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, "expected METHOD TARGET HTTP/1.1"},
    /* request lines */
    {"GET /\r\nHost: h\r\n\r\n", 400, "expected METHOD TARGET HTTP/1.1"},
    {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400, "expected METHOD TARGET HTTP/1.1"},
    {"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", 400, "expected METHOD TARGET HTTP/1.1"},
    {"G(T / HTTP/1.1\r\nHost: h\r\n\r\n", 400, "expected METHOD TARGET HTTP/1.1"},
    {"GET a HTTP/1.1\r\nHost: h\r\n\r\n", 400,
     "the request target is neither a path nor an http URL"},
    {"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 400,
     "the request target is neither a path nor an http URL"},
    {"GET http:///a HTTP/1.1\r\nHost: h\r\n\r\n", 400, "the request target has no host"},
    {"GET http://u@h/a HTTP/1.1\r\nHost: h\r\n\r\n", 400, "the request target is not well-formed"},
    {"GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400, "expected the end of the line after the version"},
    {"GET / HTTP/1.2\r\nHost: h\r\n\r\n", 505, "the version is neither HTTP/1.1 nor HTTP/1.0"},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "the version is neither HTTP/1.1 nor HTTP/1.0"},
    {"GET / http/1.1\r\nHost: h\r\n\r\n", 400, "expected METHOD TARGET HTTP/1.1"},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\nHost: h\r\n\r\n", 501, "no such method"},
    /* fields */
    {"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400, "expected a colon right after the name of a field"},
    {"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400, "a field is folded over two lines"},
    {"GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400, "a field is folded over two lines"},
    {"GET / HTTP/1.1\r\nHost: h\r\n: b\r\n\r\n", 400, "expected the name of a field"},
    {"GET / HTTP/1.1\r\nHost: h\r\nA\r\n\r\n", 400,
     "expected a colon right after the name of a field"},
    {"GET / HTTP/1.1\r\nHost: h\r\nA(b: c\r\n\r\n", 400,
     "expected a colon right after the name of a field"},
    {"GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n", 400, "a control character in a field"},
    {"GET / HTTP/1.1\r\nHost: h\r\nA: b\x01\r\n\r\n", 400, "a control character in a field"},
    {"GET / HTTP/1.1\r\n\r\n", 400, "Host is missing"},
    {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "Host is given twice"},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "Host is not well-formed"},
    {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "Host is not well-formed"},
    {"GET / HTTP/1.1\r\nHost: h\r\nExpect: 200-maybe\r\n\r\n", 417,
     "the only expectation known is 100-continue"},
    /* framing */
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
     "both Content-Length and Transfer-Encoding"},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 400,
     "Content-Length is given twice"},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\na", 400,
     "Content-Length is not a number"},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\na", 400,
     "Content-Length is not a number"},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\na", 400,
     "Content-Length is not a number"},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x1\r\n\r\na", 400,
     "Content-Length is not a number"},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n", 400,
     "Content-Length is not a number"},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 262145\r\n\r\n", 413,
     "the body is larger than 256 KiB"},
    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551617\r\n\r\n", 413,
     "the body is larger than 256 KiB"},
    {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
     "chunked\r\n\r\n",
     400, "Transfer-Encoding is given twice"},
    {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501,
     "the only Transfer-Encoding known is chunked"},
    {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n", 501,
     "the only Transfer-Encoding known is chunked"},
    {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n", 501,
     "the only Transfer-Encoding known is chunked"},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "Transfer-Encoding in HTTP/1.0"},
#define CHUNKED "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    {CHUNKED "0x2\r\nab\r\n0\r\n\r\n", 400, "a chunk is not well-formed"},
    {CHUNKED "2\nab\n0\n\n", 400, "a chunk is not well-formed"},
    {CHUNKED "2\r\nabXX0\r\n\r\n", 400, "a chunk is longer than its size says"},
    {CHUNKED "-1\r\n", 400, "a chunk is not well-formed"},
    {CHUNKED "\r\n", 400, "a chunk is not well-formed"},
    {CHUNKED " 2\r\nab\r\n", 400, "a chunk is not well-formed"},
    {CHUNKED "2 \r\nab\r\n", 400, "a chunk is not well-formed"},
    {CHUNKED "2;a\x01\r\nab\r\n", 400, "a chunk is not well-formed"},
    {CHUNKED "0\r\nA : b\r\n\r\n", 400, "a trailer is not well-formed"},
    {CHUNKED "40001\r\n", 413, "the body is larger than 256 KiB"},
    {CHUNKED "ffffffffffffffffffffff\r\n", 413, "the body is larger than 256 KiB"},
};

static void refusals_and_their_reasons(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        struct wr_http_parser parser;
        enum wr_http_step step = parse(&parser, r->text, strlen(r->text));
        if (step != WR_HTTP_BAD || parser.status != r->status ||
            strcmp(parser.error, r->error) != 0)
            fail_msg("%s\nstep %d, %d %s", r->text, step, parser.status,
                     parser.error != NULL ? parser.error : "");
    }
}

static void nul_is_no_letter(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n";
    struct wr_http_parser parser;

    (void)state;
    assert_int_equal(parse(&parser, text, sizeof text - 1), WR_HTTP_BAD);
    assert_string_equal(parser.error, "a control character in a field");
}

/* |head|, then |n| times |c|, then |tail|. */
static char *padded(const char *head, size_t n, const char *c, const char *tail, size_t *len)
{
    size_t unit = strlen(c);
    char *text;

    *len = strlen(head) + n * unit + strlen(tail);
    text = malloc(*len + 1);
    assert_non_null(text);
    memcpy(text, head, strlen(head));
    for (size_t i = 0; i < n; i++)
        memcpy(text + strlen(head) + i * unit, c, unit);
    memcpy(text + *len - strlen(tail), tail, strlen(tail) + 1);
    return text;
}

static void assert_outcome(char *text, size_t len, enum wr_http_step step, int status)
{
    struct wr_http_parser parser;

    assert_int_equal(parse(&parser, text, len), step);
    assert_int_equal(step == WR_HTTP_BAD ? parser.status : 0, status);
    free(text);
}

static void bounds(void **state)
{
    static const char rest[] = " HTTP/1.1\r\nHost: h\r\n\r\n";
    static const char fields[] = "GET / HTTP/1.1\r\nHost: h\r\n";
    size_t len;
    char *text;

    (void)state;
    text = padded("GET /", 8191, "a", rest, &len);
    assert_outcome(text, len, WR_HTTP_DONE, 0);
    text = padded("GET /", 8192, "a", rest, &len);
    assert_outcome(text, len, WR_HTTP_BAD, 414);
    text = padded("GET /", 9000, "a", "", &len); /* and no end in sight */
    assert_outcome(text, len, WR_HTTP_BAD, 414);
    text = padded(fields, 99, "A:b\r\n", "\r\n", &len);
    assert_outcome(text, len, WR_HTTP_DONE, 0);
    text = padded(fields, 100, "A:b\r\n", "\r\n", &len);
    assert_outcome(text, len, WR_HTTP_BAD, 431);
    text = padded("GET / HTTP/1.1\r\nHost: h\r\nA: ", 16384 - 28 - 4, "x", "\r\n\r\n", &len);
    assert_int_equal(len, 16384);
    assert_outcome(text, len, WR_HTTP_DONE, 0);
    text = padded("GET / HTTP/1.1\r\nHost: h\r\nA: ", 16385 - 28 - 4, "x", "\r\n\r\n", &len);
    assert_outcome(text, len, WR_HTTP_BAD, 431);
    text = padded(CHUNKED, 10000, "1\r\nx\r\n", "0\r\n\r\n", &len); /* mostly around the data */
    assert_outcome(text, len, WR_HTTP_BAD, 413);
    text = padded(CHUNKED "40000\r\n", 262144, "x", "\r\n0\r\n\r\n", &len);
    assert_outcome(text, len, WR_HTTP_DONE, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_with_fields),
        cmocka_unit_test(targets),
        cmocka_unit_test(when_the_connection_stays),
        cmocka_unit_test(bodies),
        cmocka_unit_test(what_follows_is_left),
        cmocka_unit_test(pieces_make_no_difference),
        cmocka_unit_test(a_caller_that_waits_for_100),
        cmocka_unit_test(refusals_and_their_reasons),
        cmocka_unit_test(nul_is_no_letter),
        cmocka_unit_test(bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
