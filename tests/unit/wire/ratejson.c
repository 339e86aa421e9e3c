/* The Envoy Rate Limit Service as proto3 JSON, by hand. */
#include "wire/ratejson.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct wr_rate_reader reader;
static char scratch[1 << 16];

static bool reads(const char *text)
{
    static char *body;
    size_t len = strlen(text);

    free(body);
    body = malloc(len + (len == 0));
    assert_non_null(body);
    memcpy(body, text, len);
    return wr_rate_read(&reader, (struct weir_slice){body, len}, scratch);
}

static void assert_slice(struct weir_slice slice, const char *text)
{
    assert_int_equal(slice.len, strlen(text));
    assert_memory_equal(slice.ptr, text, slice.len);
}

static void both_spellings(void **state)
{
    static const char *const texts[] = {
        "{\"domain\":\"shop\",\"hitsAddend\":2,\"descriptors\":[{\"entries\":[{\"key\":\"plan\","
        "\"value\":"
        "\"fr\\u0065e\"},{\"key\":\"x\"}],\"limit\":{\"requestsPerUnit\":5,\"unit\":\"MINUTE\"},"
        "\"hitsAddend\":\"18446744073709551615\",\"isNegativeHits\":true},{\"entries\":[]}]}",
        "{\"domain\":\"shop\",\"hits_addend\":\"2\",\"descriptors\":[{\"entries\":[{\"key\":"
        "\"plan\","
        "\"value\":\"free\"},{\"value\":null,\"key\":\"x\"}],\"limit\":{\"requests_per_unit\":"
        "\"5\",\"unit\":2},"
        "\"hits_addend\":18446744073709551615,\"is_negative_hits\":true},{\"limit\":null}]}"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct wr_descriptor *d = reader.descriptors;
        if (!reads(texts[i]))
            fail_msg("%s", reader.error);
        assert_slice(reader.request.domain, "shop");
        assert_int_equal(reader.request.hits, 2);
        assert_int_equal(reader.request.count, 2);
        assert_int_equal(d[0].count, 2);
        assert_slice(d[0].entries[0].key, "plan");
        assert_slice(d[0].entries[0].value, "free");
        assert_slice(d[0].entries[1].key, "x");
        assert_slice(d[0].entries[1].value, "");
        assert_true(d[0].has_limit && d[0].has_hits && d[0].negative);
        assert_int_equal(d[0].limit_units, 5);
        assert_int_equal(d[0].limit_unit, WR_UNIT_MINUTE);
        assert_true(d[0].hits == UINT64_MAX);
        assert_int_equal(d[1].count, 0);
        assert_false(d[1].has_limit || d[1].has_hits || d[1].negative);
    }
    assert_true(reads("{\"hitsAddend\":2.0,\"descriptors\":[{\"hitsAddend\":\"1e1\"}]}"));
    assert_int_equal(reader.request.hits, 2);
    assert_int_equal(reader.descriptors[0].hits, 10);
    assert_true(reads("{}")); /* whether that is a question is for others to say */
    assert_true(reads("{\"domain\":null,\"descriptors\":null,\"hitsAddend\":null}"));
}

static void what_is_wrong(void **state)
{
    static const char *const texts[][2] = {
        {"", "the body is not JSON"},
        {"[]", "expected a JSON object"},
        {"{} {}", "more text after the JSON object"},
        {"{\"domain\":1}", "expected a string"},
        {"{\"domian\":\"x\"}", "no such member"},
        {"{\"domain\":\"x\",\"domain\":\"x\"}", "a member is given twice"},
        {"{\"hitsAddend\":1,\"hits_addend\":1}", "a member is given twice"},
        {"{\"hitsAddend\":4294967296}", "the number is too large"},
        {"{\"hitsAddend\":-1}", "expected a whole number"},
        {"{\"hitsAddend\":\"\"}", "expected a whole number"},
        {"{\"descriptors\":{}}", "expected a JSON array"},
        {"{\"descriptors\":[null]}", "expected a JSON object"},
        {"{\"descriptors\":[{\"entries\":[{\"key\":[]}]}]}", "expected a string"},
        {"{\"descriptors\":[{\"entries\":[{\"value\":\"x\"}]}]}",
         "a descriptor entry has an empty key"},
        {"{\"descriptors\":[{\"hitsAddend\":18446744073709551616}]}", "the number is too large"},
        {"{\"descriptors\":[{\"limit\":{\"unit\":\"WEEK\"}}]}", "no such unit"},
        {"{\"descriptors\":[{\"limit\":{\"unit\":\"minute\"}}]}", "no such unit"},
        {"{\"descriptors\":[{\"limit\":{\"requestsPerUnit\":1}}]}",
         "a limit override has no unit of time"},
        {"{\"descriptors\":[{\"limit\":{\"unit\":7}}]}", "a limit override has no unit of time"},
        {"{\"descriptors\":[{\"isNegativeHits\":1}]}", "expected true or false"},
        {"{\"descriptors\":[[[[[[", "expected a JSON object"},
        {"{\"domain\":\"\\xff\"}", "no such escape in a JSON string"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (reads(texts[i][0]) || strcmp(reader.error, texts[i][1]) != 0)
            fail_msg("%s: %s", texts[i][0], reader.error != NULL ? reader.error : "was read");
    }
}

/* RFC 9457's problem names the member. */
static void where_it_is_wrong(void **state)
{
    static const char *const texts[][2] = {
        {"", ""},
        {"[]", ""},
        {"{\"domain\":1}", "domain"},
        {"{\"domian\":\"x\"}", "domian"},
        {"{\"hitsAddend\":1,\"hits_addend\":1}", "hits_addend"},
        {"{\"hitsAddend\":1.5}", "hitsAddend"},
        {"{\"domain\":\"d\",\"descriptors\":{}}", "descriptors"},
        {"{\"descriptors\":[{},null]}", "descriptors[1]"},
        {"{\"descriptors\":[{},{\"entries\":[{\"key\":\"a\"},{\"key\":\"b\",\"valeu\":\"x\"}]}]}",
         "descriptors[1].entries[1].valeu"},
        {"{\"descriptors\":[{\"entries\":[{\"key\":\"a\",\"value\":7}]}]}",
         "descriptors[0].entries[0].value"},
        {"{\"descriptors\":[{\"entries\":[{\"value\":\"x\"}]}]}", "descriptors[0].entries[0].key"},
        {"{\"descriptors\":[{\"limit\":{\"unit\":\"WEEK\"}}]}", "descriptors[0].limit.unit"},
        {"{\"descriptors\":[{\"isNegativeHits\":1}]}", "descriptors[0].isNegativeHits"},
        {"{\"domain\":\"a\",\"hitsAddend\":tru}", "hitsAddend"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_false(reads(texts[i][0]));
        if (reader.member_len != strlen(texts[i][1]) ||
            memcmp(reader.member, texts[i][1], reader.member_len) != 0)
            fail_msg("%s: %.*s", texts[i][0], (int)reader.member_len, reader.member);
    }
}

static void a_long_way_is_cut(void **state)
{
    static char text[4096];

    (void)state;
    (void)snprintf(text, sizeof text, "{\"%03000d\":1}", 7);
    assert_false(reads(text));
    assert_int_equal(reader.member_len, WR_RATE_MEMBER_MAX);
}

/* |text| |n| times between |before| and |after|, with commas. */
static const char *repeated(const char *before, int n, const char *text, const char *after)
{
    static char out[1 << 12];
    size_t at = strlen(before), len = strlen(text);

    memcpy(out, before, at);
    for (int i = 0; i < n; i++) {
        if (i > 0)
            out[at++] = ',';
        memcpy(out + at, text, len);
        at += len;
    }
    memcpy(out + at, after, strlen(after) + 1);
    return out;
}

static void too_many(void **state)
{
    (void)state;
    assert_true(reads(repeated("{\"descriptors\":[", WR_DESCRIPTORS_MAX, "{}", "]}")));
    assert_false(reads(repeated("{\"descriptors\":[", WR_DESCRIPTORS_MAX + 1, "{}", "]}")));
    assert_true(reads(
        repeated("{\"descriptors\":[{\"entries\":[", WR_ENTRIES_MAX, "{\"key\":\"k\"}", "]}]}")));
    assert_false(reads(repeated("{\"descriptors\":[{\"entries\":[", WR_ENTRIES_MAX + 1,
                                "{\"key\":\"k\"}", "]}]}")));
}

static void answers(void **state)
{
    static struct wr_rate_response response;
    static char out[4096];
    size_t len;

    (void)state;
    response = (struct wr_rate_response){.code = WR_RATE_OVER_LIMIT, .count = 3};
    response.statuses[0] = (struct wr_rate_status){.code = WR_RATE_OVER_LIMIT,
                                                   .has_limit = true,
                                                   .unit = WR_UNIT_MINUTE,
                                                   .units = 5,
                                                   .reset_s = 41};
    response.statuses[1] = (struct wr_rate_status){.code = WR_RATE_OK};
    response.statuses[2] = (struct wr_rate_status){
        .code = WR_RATE_OK, .has_limit = true, .name = {"a\"b", 3}, .remaining = 4};
    response.header_count = 1;
    response.headers[0] = (struct wr_rate_header){{"Retry-After", 11}, {"41", 2}};
    response.body = (struct weir_slice){"{\"a\":1}", 7};
    len = wr_rate_write(&response, out);
    assert_in_range(len, 1, wr_rate_write_max(&response));
    out[len] = '\0';
    assert_string_equal(
        out,
        "{\"overallCode\":\"OVER_LIMIT\",\"statuses\":["
        "{\"code\":\"OVER_LIMIT\",\"currentLimit\":{\"requestsPerUnit\":5,\"unit\":\"MINUTE\"},"
        "\"durationUntilReset\":\"41s\"},"
        "{\"code\":\"OK\"},"
        "{\"code\":\"OK\",\"currentLimit\":{\"name\":\"a\\\"b\"},\"limitRemaining\":4}],"
        "\"responseHeadersToAdd\":[{\"key\":\"Retry-After\",\"value\":\"41\"}],"
        "\"rawBody\":\"eyJhIjoxfQ==\"}");
    response = (struct wr_rate_response){.code = WR_RATE_OK, .count = 1};
    response.statuses[0] = (struct wr_rate_status){.code = WR_RATE_OK, .has_limit = true};
    out[wr_rate_write(&response, out)] = '\0';
    assert_string_equal(
        out, "{\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OK\",\"currentLimit\":{}}]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_spellings),    cmocka_unit_test(what_is_wrong),
        cmocka_unit_test(where_it_is_wrong), cmocka_unit_test(a_long_way_is_cut),
        cmocka_unit_test(too_many),          cmocka_unit_test(answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
