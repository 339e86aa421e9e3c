/* Heads of responses, and problems of input. */
#include "wire/http1_reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char out[WR_HTTP_PROBLEM_MAX];

static struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

static void heads(void **state)
{
    struct wr_http_reply reply = {.out = out, .size = sizeof out - 1};

    (void)state;
    wr_http_reply_begin(&reply, 429);
    wr_http_reply_field(&reply, "Retry-After", slice("12"));
    wr_http_reply_end(&reply, 0, true, false);
    out[reply.len] = '\0';
    assert_string_equal(
        out, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 12\r\nContent-Length: 0\r\n\r\n");
    reply = (struct wr_http_reply){.out = out, .size = sizeof out - 1};
    wr_http_reply_begin(&reply, 200);
    wr_http_reply_end(&reply, 1234, false, false);
    out[reply.len] = '\0';
    assert_string_equal(out,
                        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1234\r\n\r\n");
    assert_false(reply.full);
}

static void what_does_not_fit_is_told(void **state)
{
    struct wr_http_reply reply = {.out = out, .size = 20};

    (void)state;
    wr_http_reply_begin(&reply, 200);
    wr_http_reply_end(&reply, 0, true, false);
    assert_true(reply.full);
    assert_true(reply.len <= 20);
}

static void problems(void **state)
{
    (void)state;
    out[wr_http_problem(out, 400, "missing", slice("[0].ip"))] = '\0';
    assert_string_equal(out, "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"
                             "\"detail\":\"missing\",\"member\":\"[0].ip\"}");
    out[wr_http_problem(out, 404, "no such path", (struct weir_slice){NULL, 0})] = '\0';
    assert_string_equal(out, "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,"
                             "\"detail\":\"no such path\"}");
}

static void details_are_told_whole(void **state)
{
    char detail[WR_HTTP_DETAIL_MAX + 100];
    size_t len;

    (void)state;
    memset(detail, 'd', sizeof detail);
    detail[500] = '\0';
    len = wr_http_problem(out, 507, detail, (struct weir_slice){NULL, 0});
    assert_non_null(memmem(out, len, "\"title\":\"Insufficient Storage\",\"status\":507,", 44));
    assert_non_null(memmem(out, len, detail, 500));
    memset(detail, 1, sizeof detail - 1);
    detail[sizeof detail - 1] = '\0';
    len = wr_http_problem(out, 400, detail, (struct weir_slice){detail, sizeof detail - 1});
    assert_in_range(len, 6 * WR_HTTP_DETAIL_MAX, WR_HTTP_PROBLEM_MAX);
    assert_memory_equal(out + len - 2, "\"}", 2);
}

/* Every status that something here answers has its words. */
static void every_status_has_a_title(void **state)
{
    static const int answered[] = {200, 400, 401, 403, 404, 405, 408, 409, 410, 413, 414,
                                   415, 417, 422, 429, 431, 500, 501, 503, 505, 507};

    (void)state;
    for (size_t i = 0; i < sizeof answered / sizeof answered[0]; i++)
        if (wr_http_reason(answered[i])[0] == '\0')
            fail_msg("%d", answered[i]);
}

static void a_hostile_member_is_escaped_and_fits(void **state)
{
    char member[400];

    (void)state;
    memset(member, 1, sizeof member);
    assert_in_range(wr_http_problem(out, 400, "x", (struct weir_slice){member, sizeof member}),
                    160 * 6, WR_HTTP_PROBLEM_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads),
        cmocka_unit_test(what_does_not_fit_is_told),
        cmocka_unit_test(problems),
        cmocka_unit_test(details_are_told_whole),
        cmocka_unit_test(every_status_has_a_title),
        cmocka_unit_test(a_hostile_member_is_escaped_and_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
