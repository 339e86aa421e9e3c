/* The JSON of the HTTP door, by hand: what is read, which member an error names, what is written.
 */
#include "wire/checkjson.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FIELDS 3

static const char *const field_names[FIELDS] = {"X-Api-Key", "X-Forwarded-For", "user"};
static const enum weir_field_kind field_kinds[FIELDS] = {WEIR_FIELD_HEADER, WEIR_FIELD_HEADER,
                                                         WEIR_FIELD_KEY};
static char scratch[1 << 17];
static struct weir_request requests[WR_CHECK_BATCH_MAX];
static struct weir_slice fields[WR_CHECK_BATCH_MAX * FIELDS];
static struct wr_check_reader reader;

static int find_plan(const void *context, struct weir_slice name)
{
    (void)context;
    return name.len == 3 && memcmp(name.ptr, "pro", 3) == 0 ? 1 : WEIR_ENOENT;
}

static bool read_as(enum wr_check_form form, const char *text, size_t len)
{
    static char *body; /* not a byte longer than the text */

    free(body);
    body = malloc(len > 0 ? len : 1);
    assert_non_null(body);
    memcpy(body, text, len);
    reader = (struct wr_check_reader){.form = form,
                                      .field_count = FIELDS,
                                      .field_names = field_names,
                                      .field_kinds = field_kinds,
                                      .find_plan = find_plan,
                                      .scratch = scratch,
                                      .requests = requests,
                                      .fields = fields};
    return wr_check_read(&reader, (struct weir_slice){body, len});
}

static void reads(enum wr_check_form form, const char *text)
{
    if (!read_as(form, text, strlen(text)))
        fail_msg("%.*s: %s", (int)reader.member_len, reader.member, reader.error);
}

static void assert_slice(struct weir_slice slice, const char *text)
{
    assert_int_equal(slice.len, strlen(text));
    assert_memory_equal(slice.ptr, text, slice.len);
}

static void everything(void **state)
{
    (void)state;
    reads(WR_CHECK_FORM,
          " {\"ip\": \"192.0.2.7\", \"method\": \"POST\", \"path\": \"/a\\u00e9\\n\", \"status\": "
          "200,"
          " \"cost\": 12, \"plan\": \"pro\", \"peek\": true, \"keys\": {\"user\": \"u\\\"1\"},"
          " \"headers\": {\"x-api-KEY\": \"k1\", \"Other\": \"o\","
          " \"X-Forwarded-For\": [\"1.2.3.4\", \"\\u0035.6.7.8\", \"9.9.9.9\"]}}\n");
    assert_false(reader.array);
    assert_int_equal(reader.count, 1);
    assert_slice(requests[0].peer, "192.0.2.7");
    assert_slice(requests[0].method, "POST");
    assert_slice(requests[0].path, "/a\xc3\xa9\n");
    assert_int_equal(requests[0].cost_units, 12);
    assert_int_equal(requests[0].plan, 1);
    assert_true(requests[0].peek);
    assert_int_equal(requests[0].field_count, FIELDS);
    assert_ptr_equal(requests[0].fields, fields);
    assert_slice(fields[0], "k1");
    assert_slice(fields[1], "1.2.3.4, 5.6.7.8, 9.9.9.9");
    assert_slice(fields[2], "u\"1");
}

static void the_least(void **state)
{
    (void)state;
    reads(WR_CHECK_FORM, "{\"ip\":\"::1\"}");
    assert_slice(requests[0].method, "GET");
    assert_slice(requests[0].path, "/");
    assert_int_equal(requests[0].cost_units, -1);
    assert_int_equal(requests[0].plan, -1);
    assert_false(requests[0].peek);
    assert_null(fields[0].ptr);
    reads(WR_CHECK_FORM, "{\"ip\":\"::1\",\"headers\":{\"X-Api-Key\":\"\"}}");
    assert_non_null(fields[0].ptr); /* there, and empty */
    assert_int_equal(fields[0].len, 0);
    reads(WR_CHECK_FORM, "{\"ip\":\"::1\",\"headers\":{\"X-Api-Key\":[]}}");
    assert_int_equal(fields[0].len, 0);
}

static void arrays(void **state)
{
    (void)state;
    reads(WR_CHECK_FORM, "[]");
    assert_true(reader.array);
    assert_int_equal(reader.count, 0);
    reads(WR_CHECK_FORM,
          "[{\"ip\":\"a\",\"headers\":{\"X-Api-Key\":\"1\"}}, {\"ip\":\"b\",\"cost\":0}]");
    assert_int_equal(reader.count, 2);
    assert_slice(requests[0].peer, "a");
    assert_slice(requests[0].fields[0], "1");
    assert_slice(requests[1].peer, "b");
    assert_null(requests[1].fields[0].ptr);
    assert_int_equal(requests[1].cost_units, 0);
}

static void other_forms(void **state)
{
    (void)state;
    reads(WR_RESERVE_FORM, "{\"ip\":\"a\",\"ttl\":\"30s\"}");
    assert_slice(reader.ttl, "30s");
    reads(WR_RESERVE_FORM, "{\"ttl\":90,\"ip\":\"a\",\"cost\":5}");
    assert_null(reader.ttl.ptr);
    assert_int_equal(reader.ttl_s, 90);
    reads(WR_SETTLE_FORM, "{\"id\":\"0123\",\"cost\":7}");
    assert_slice(reader.id, "0123");
    assert_int_equal(requests[0].cost_units, 7);
    reads(WR_RELEASE_FORM, "{\"id\":\"0123\"}");
    assert_slice(reader.id, "0123");
}

static const struct wrong {
    enum wr_check_form form;
    const char *text, *member, *error;
} wrongs[] = {
#define C WR_CHECK_FORM
    {C, "", "", "expected a JSON object, found no body"},
    {C, "{", "", "the text ends within the JSON object"},
    {C, "{} x", "ip", "missing"},
    {C, "{\"ip\":\"a\"} x", "", "more text after the JSON object"},
    {C, "\"x\"", "", "expected an object"},
    {C, "null", "", "expected an object"},
    {C, "{\"ip\":\"\xff\"}", "", "the body is not UTF-8"},
    {C, "{\"ip\":\"\\x41\"}", "ip", "no such escape in a JSON string"},
    {C, "{\"ip\":\"\\ud800\"}", "ip", "half of a surrogate pair"},
    {C, "{\"ip\":\"a\",}", "", "expected a string in quotes"},
    {C, "{\"ip\":7}", "ip", "expected a string"},
    {C, "{\"ip\":\"192.0.2.1/32\"}", "ip", "expected an address or a host name"},
    {C, "{\"ip\":\"[192.0.2.1]\"}", "ip", "expected an address or a host name"},
    {C, "{\"ip\":\"192.0.2.1%eth0\"}", "ip", "expected an address or a host name"},
    {C, "{\"ip\":\"192.0.2.1 \\u0000\"}", "ip", "expected an address or a host name"},
    {C, "{\"ip\":null}", "ip", "expected a string"},
    {C, "{\"ip\":\"\"}", "ip", "expected a string that is not empty"},
    {C, "{\"ip\":\"a\",\"ip\":\"b\"}", "ip", "given twice"},
    {C, "{\"ip\":\"a\",\"method\":1}", "method", "expected a string"},
    {C, "{\"ip\":\"a\",\"path\":[[[[]]]]}", "path", "expected a string"},
    {C, "{\"ip\":\"a\",\"cost\":\"1\"}", "cost", "expected a whole number from 0 to 1000000000"},
    {C, "{\"ip\":\"a\",\"cost\":-1}", "cost", "expected a whole number from 0 to 1000000000"},
    {C, "{\"ip\":\"a\",\"cost\":1.5}", "cost", "expected a whole number from 0 to 1000000000"},
    {C, "{\"ip\":\"a\",\"cost\":1e-3}", "cost", "expected a whole number from 0 to 1000000000"},
    {C, "{\"ip\":\"a\",\"cost\":1000000001}", "cost",
     "expected a whole number from 0 to 1000000000"},
    {C, "{\"ip\":\"a\",\"cost\":99999999999999999999}", "cost",
     "expected a whole number from 0 to 1000000000"},
    {C, "{\"ip\":\"a\",\"cost\":01}", "", "expected a comma or the end of the object or array"},
    {C, "{\"ip\":\"a\",\"status\":\"ok\"}", "status",
     "expected a status: a whole number up to 999"},
    {C, "{\"ip\":\"a\",\"peek\":1}", "peek", "expected true or false"},
    {C, "{\"ip\":\"a\",\"plan\":\"gold\"}", "plan", "the policy has no plan of this name"},
    {C, "{\"ip\":\"a\",\"headers\":[]}", "headers", "expected an object of strings"},
    {C, "{\"ip\":\"a\",\"headers\":{\"X-Api-Key\":1}}", "headers.X-Api-Key",
     "expected a string or an array of strings"},
    {C, "{\"ip\":\"a\",\"headers\":{\"Other\":{}}}", "headers.Other",
     "expected a string or an array of strings"},
    {C, "{\"ip\":\"a\",\"headers\":{\"X-Api-Key\":[\"a\",[]]}}", "headers.X-Api-Key",
     "expected a string or an array of strings"},
    {C, "{\"ip\":\"a\",\"headers\":{\"X-Api-Key\":\"a\",\"x-api-key\":\"b\"}}", "headers.x-api-key",
     "given twice"},
    {C, "{\"ip\":\"a\",\"keys\":{\"users\":\"x\"}}", "keys.users",
     "the policy has no identity of this name"},
    {C, "{\"ip\":\"a\",\"keys\":{\"user\":[\"x\"]}}", "keys.user", "expected a string"},
    {C, "{\"ip\":\"a\",\"time\":1}", "time",
     "no such member; there are ip, method, path, status, cost, headers, keys, plan and peek"},
    {C, "{\"ip\":\"a\",\"ttl\":1}", "ttl",
     "no such member; there are ip, method, path, status, cost, headers, keys, plan and peek"},
    {C, "[{\"ip\":\"a\"},{\"ip\":\"a\",\"cost\":true}]", "[1].cost",
     "expected a whole number from 0 to 1000000000"},
    {C, "[{\"ip\":\"a\"},{}]", "[1].ip", "missing"},
    {C, "[{\"ip\":\"a\"},[{\"ip\":\"a\"}]]", "[1]", "expected an object"},
    {C, "[[[[[[[[[[", "[0]", "expected an object"},
    {C, "[{\"ip\":\"a\"}", "", "the text ends within the JSON object"},
    {WR_RESERVE_FORM, "{\"ip\":\"a\"}", "ttl", "missing"},
    {WR_RESERVE_FORM, "[]", "", "expected an object"},
    {WR_RESERVE_FORM, "{\"ip\":\"a\",\"ttl\":1,\"peek\":true}", "peek",
     "no such member; there are ip, method, path, status, cost, headers, keys, plan and ttl"},
    {WR_RESERVE_FORM, "{\"ip\":\"a\",\"ttl\":1.5}", "ttl",
     "expected a duration: \"30s\", or a number of seconds"},
    {WR_SETTLE_FORM, "{\"id\":\"a\"}", "cost", "missing"},
    {WR_SETTLE_FORM, "{\"cost\":1}", "id", "missing"},
    {WR_SETTLE_FORM, "{\"id\":1,\"cost\":1}", "id", "expected a string"},
    {WR_RELEASE_FORM, "{\"id\":\"a\",\"cost\":1}", "cost", "no such member; there is id"},
};

static void errors_name_the_member(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct wrong *w = &wrongs[i];
        if (read_as(w->form, w->text, strlen(w->text)))
            fail_msg("%s: was read", w->text);
        if (reader.member_len != strlen(w->member) ||
            memcmp(reader.member, w->member, reader.member_len) != 0 ||
            strcmp(reader.error, w->error) != 0)
            fail_msg("%s: %.*s: %s", w->text, (int)reader.member_len, reader.member, reader.error);
    }
}

static void a_long_name_is_cut(void **state)
{
    char text[512] = "[{\"", *at = text + 3;

    (void)state;
    memset(at, 'n', 300);
    memcpy(at + 300, "\":1}]", 6);
    assert_false(read_as(WR_CHECK_FORM, text, strlen(text)));
    assert_int_equal(reader.member_len, WR_CHECK_MEMBER_MAX);
    assert_memory_equal(reader.member, "[0].nnn", 7);
}

static void too_many(void **state)
{
    static char text[WR_CHECK_BATCH_MAX * 11 + 32];
    size_t at = 0;

    (void)state;
    text[at++] = '[';
    for (int i = 0; i <= WR_CHECK_BATCH_MAX; i++) {
        if (i == WR_CHECK_BATCH_MAX) {
            text[at - 1] = ']';
            assert_true(read_as(WR_CHECK_FORM, text, at));
            assert_int_equal(reader.count, WR_CHECK_BATCH_MAX);
            text[at - 1] = ',';
        }
        memcpy(text + at, "{\"ip\":\"a\"},", 11);
        at += 11;
    }
    text[at - 1] = ']';
    assert_false(read_as(WR_CHECK_FORM, text, at));
    assert_string_equal(reader.error, "more than 1000 requests in one array");
    assert_int_equal(reader.member_len, 6);
    assert_memory_equal(reader.member, "[1000]", 6);
}

static void assert_written(const struct wr_check_told *told, const char *text)
{
    static char out[WR_CHECK_ANSWER_MAX];
    size_t len = wr_check_write(told, out);

    if (len != strlen(text) || memcmp(out, text, len) != 0)
        fail_msg("%.*s", (int)len, out);
}

static void answers(void **state)
{
    static struct weir_answer answer;
    struct wr_check_told told = {.answer = NULL};

    (void)state;
    assert_written(
        &told, "{\"verdict\":\"allow\",\"limit\":null,\"remaining\":null,\"retry_after_ms\":null,"
               "\"delay_ms\":0,\"reason\":null,\"plan\":null,\"limits\":[]}");
    answer = (struct weir_answer){.outcome = WEIR_DENY,
                                  .reason = WEIR_REASON_LIMIT,
                                  .count = 2,
                                  .decisive = 1,
                                  .retry_after_ns = 1000001};
    answer.verdicts[0] = (struct weir_verdict){
        .outcome = WEIR_ALLOW, .shadow = 1, .capacity_units = 600, .remaining_units = 599};
    answer.verdicts[1] = (struct weir_verdict){
        .outcome = WEIR_DENY, .capacity_units = 10, .retry_after_ns = 1000001};
    told = (struct wr_check_told){.answer = &answer,
                                  .spoken = 1,
                                  .names = {"a", "b"},
                                  .reset_ns = {100000000, 60000000000},
                                  .plan = "pro",
                                  .reservation = true};
    assert_written(
        &told,
        "{\"verdict\":\"deny\",\"limit\":\"b\",\"remaining\":0,\"retry_after_ms\":2,\"delay_ms\":0,"
        "\"reason\":\"limit\",\"plan\":\"pro\",\"id\":null,\"limits\":["
        "{\"name\":\"a\",\"verdict\":\"allow\",\"limit\":600,\"remaining\":599,"
        "\"retry_after_ms\":null,\"delay_ms\":0,\"reset_ms\":100,\"shadow\":true},"
        "{\"name\":\"b\",\"verdict\":\"deny\",\"limit\":10,\"remaining\":0,"
        "\"retry_after_ms\":2,\"delay_ms\":0,\"reset_ms\":60000,\"shadow\":false}]}");
    answer = (struct weir_answer){.outcome = WEIR_DELAY, .count = 1, .delay_ns = 200000000};
    answer.verdicts[0] = (struct weir_verdict){
        .outcome = WEIR_DELAY, .capacity_units = 20, .remaining_units = 19, .delay_ns = 200000000};
    told =
        (struct wr_check_told){.answer = &answer, .names = {"q"}, .id = "ff", .reservation = true};
    assert_written(
        &told, "{\"verdict\":\"delay\",\"limit\":\"q\",\"remaining\":19,\"retry_after_ms\":null,"
               "\"delay_ms\":200,\"reason\":null,\"plan\":null,\"id\":\"ff\",\"limits\":["
               "{\"name\":\"q\",\"verdict\":\"delay\",\"limit\":20,\"remaining\":19,"
               "\"retry_after_ms\":null,\"delay_ms\":200,\"reset_ms\":0,\"shadow\":false}]}");
}

/* Trying a limit out: the verdict says so, the fields for callers do not speak of it. */
static void a_shadow_limit_is_not_spoken_of(void **state)
{
    static struct weir_answer answer;
    struct wr_check_told told = {.answer = &answer, .spoken = 1, .names = {"new", "old"}};

    (void)state;
    answer = (struct weir_answer){
        .outcome = WEIR_SHADOW, .reason = WEIR_REASON_LIMIT, .count = 2, .retry_after_ns = 627};
    answer.verdicts[0] = (struct weir_verdict){
        .outcome = WEIR_DENY, .shadow = 1, .capacity_units = 2, .retry_after_ns = 627};
    answer.verdicts[1] = (struct weir_verdict){.capacity_units = 10, .remaining_units = 7};
    assert_written(&told,
                   "{\"verdict\":\"shadow\",\"limit\":\"old\",\"remaining\":7,"
                   "\"retry_after_ms\":null,\"delay_ms\":0,\"reason\":null,\"plan\":null,"
                   "\"limits\":[{\"name\":\"new\",\"verdict\":\"deny\",\"limit\":2,\"remaining\":0,"
                   "\"retry_after_ms\":1,\"delay_ms\":0,\"reset_ms\":0,\"shadow\":true},"
                   "{\"name\":\"old\",\"verdict\":\"allow\",\"limit\":10,\"remaining\":7,"
                   "\"retry_after_ms\":null,\"delay_ms\":0,\"reset_ms\":0,\"shadow\":false}]}");
    told.spoken = -1;
    answer.count = 0;
    assert_written(&told, "{\"verdict\":\"shadow\",\"limit\":null,\"remaining\":null,"
                          "\"retry_after_ms\":null,\"delay_ms\":0,\"reason\":null,\"plan\":null,"
                          "\"limits\":[]}");
}

/* The longest there can be: its length is known, and has to fit. */
static void the_longest_answer_fits(void **state)
{
    static struct weir_answer answer;
    static char name[65], out[WR_CHECK_ANSWER_MAX];
    struct wr_check_told told = {.answer = &answer, .plan = name, .id = name, .reservation = true};

    (void)state;
    memset(name, 'n', 64);
    answer = (struct weir_answer){.outcome = WEIR_SHADOW,
                                  .count = WEIR_LIMITS_MAX,
                                  .retry_after_ns = INT64_MAX,
                                  .delay_ns = INT64_MAX};
    for (size_t i = 0; i < WEIR_LIMITS_MAX; i++) {
        told.names[i] = name;
        told.reset_ns[i] = INT64_MAX;
        answer.verdicts[i] = (struct weir_verdict){.outcome = WEIR_ALLOW,
                                                   .capacity_units = INT64_MAX,
                                                   .remaining_units = INT64_MAX,
                                                   .retry_after_ns = INT64_MAX,
                                                   .delay_ns = INT64_MAX};
    }
    assert_in_range(wr_check_write(&told, out), 16 * 230, WR_CHECK_ANSWER_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything),
        cmocka_unit_test(the_least),
        cmocka_unit_test(arrays),
        cmocka_unit_test(other_forms),
        cmocka_unit_test(errors_name_the_member),
        cmocka_unit_test(a_long_name_is_cut),
        cmocka_unit_test(too_many),
        cmocka_unit_test(answers),
        cmocka_unit_test(a_shadow_limit_is_not_spoken_of),
        cmocka_unit_test(the_longest_answer_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
