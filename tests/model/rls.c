/* rls.c - rate limit requests of every shape that protobuf has, read by src/wire/rls_read.c and by
 * protobuf-c.
 *
 * Messages are made from the schema and then bent: fields in any order and number, in longer forms
 * than needed, of another kind, unknown, of number 0, in groups; texts that are none; some bytes
 * changed or cut in the end. */
#include <string.h>

#include "rls_model.h"
#include "schedule.h"

#define ROUNDS 60000
#define BYTES_MAX 8192

struct message {
    uint8_t data[BYTES_MAX];
    size_t len;
};

enum kind { VARINT = 0, FIXED64 = 1, BYTES = 2, GROUP = 3, FIXED32 = 5, KINDS = 8 };

/* Where a message is bent at all, one field in so many. */
static int64_t one_in;

static void put_byte(struct message *m, uint8_t byte)
{
    if (m->len < sizeof m->data)
        m->data[m->len++] = byte;
}

/* In |extra| more bytes than it needs. */
static void put_varint(struct message *m, uint64_t value, int64_t extra)
{
    for (; value > 127; value >>= 7)
        put_byte(m, (uint8_t)(value | 128));
    for (; extra > 0; extra--, value = 0)
        put_byte(m, (uint8_t)(value | 128));
    put_byte(m, (uint8_t)value);
}

static int64_t a_few(struct schedule *s, int64_t most)
{
    return schedule_one_in(s, one_in) ? schedule_below(s, most) : 0;
}

static uint64_t a_number(struct schedule *s)
{
    switch (schedule_below(s, 5)) {
    case 0:
        return (uint64_t)-schedule_below(s, 5);
    case 1:
        return schedule_next(s);
    case 2:
        return (UINT64_C(1) << 32) + (uint64_t)schedule_below(s, 8);
    default:
        return (uint64_t)schedule_below(s, 8);
    }
}

static void put_tag(struct message *m, struct schedule *s, uint32_t number, enum kind kind)
{
    put_varint(m, (uint64_t)number << 3 | kind, a_few(s, 6));
}

/* What |inner| holds, as the value of a field. */
static void put_inner(struct message *m, struct schedule *s, const struct message *inner)
{
    uint64_t len = inner->len;

    if (schedule_one_in(s, 20 * one_in))
        len = a_number(s);
    put_varint(m, len, a_few(s, 6));
    for (size_t i = 0; i < inner->len; i++)
        put_byte(m, inner->data[i]);
}

static void put_number(struct message *m, struct schedule *s, uint32_t number)
{
    put_tag(m, s, number, VARINT);
    put_varint(m, a_number(s), a_few(s, 11));
}

static void put_text(struct message *m, struct schedule *s, uint32_t number)
{
    static const char *const pieces[] = {"a",
                                         "path",
                                         "192.0.2.1",
                                         "\xc3\xa9",
                                         "\xe2\x82\xac",
                                         "\xf0\x9f\x98\x80",
                                         "a long text, of more bytes than sixteen",
                                         ""};
    static const char *const bad[] = {"\x80",     "\xc0\xaf",         "\xed\xa0\x80",
                                      "\xe2\x82", "\xf4\x90\x80\x80", "\xff"};
    struct message text = {.len = 0};

    for (int64_t n = 1 + schedule_below(s, 3); n > 0; n--) {
        const char *piece = pieces[schedule_below(s, 8)];
        if (schedule_one_in(s, 5 * one_in))
            piece = bad[schedule_below(s, 6)];
        for (; *piece != '\0'; piece++)
            put_byte(&text, (uint8_t)*piece);
    }
    if (schedule_one_in(s, one_in))
        put_byte(&text, 0);
    put_tag(m, s, number, BYTES);
    put_inner(m, s, &text);
}

/* A field of any number and kind, which may be known under another kind. */
static void put_stranger(struct message *m, struct schedule *s)
{
    static const uint32_t numbers[] = {
        1, 2, 3, 4, 5, 15, 16, 2047, 2048, (1U << 29) - 1, 1U << 29, UINT32_MAX, 0};
    enum kind kind = (enum kind)schedule_below(s, KINDS);
    uint32_t number = numbers[schedule_below(s, 13)];
    struct message any = {.len = 0};

    if (schedule_one_in(s, 2)) { /* nothing is wrong with it */
        kind = (enum kind[]){VARINT, FIXED64, BYTES, FIXED32}[schedule_below(s, 4)];
        number = (uint32_t)(5 + schedule_below(s, 5000));
    }
    put_tag(m, s, number, kind);
    if (kind == VARINT)
        put_varint(m, a_number(s), a_few(s, 11));
    for (int64_t n = kind == FIXED64 ? 8 : kind == FIXED32 ? 4 : 0; n > 0; n--)
        put_byte(m, (uint8_t)schedule_next(s));
    if (kind != BYTES)
        return;
    for (int64_t n = schedule_below(s, 6); n > 0; n--)
        put_varint(&any, a_number(s), 0); /* packed numbers, or anything */
    put_inner(m, s, &any);
}

static void put_entry(struct message *m, struct schedule *s)
{
    struct message inner = {.len = 0};

    put_text(&inner, s, 1);
    for (int64_t n = schedule_below(s, 3); n > 0; n--)
        put_text(&inner, s, 2);
    if (schedule_one_in(s, one_in))
        put_text(&inner, s, 1);
    if (schedule_one_in(s, one_in))
        put_stranger(&inner, s);
    put_tag(m, s, 1, BYTES);
    put_inner(m, s, &inner);
}

/* A message of numbers: an override, or hits. */
static void put_numbers(struct message *m, struct schedule *s, uint32_t field, uint32_t numbers)
{
    struct message inner = {.len = 0};

    for (uint32_t i = 1; i <= numbers; i++)
        if (!schedule_one_in(s, 4))
            put_number(&inner, s, i);
    if (schedule_one_in(s, one_in))
        put_stranger(&inner, s);
    put_tag(m, s, field, BYTES);
    put_inner(m, s, &inner);
}

static void put_descriptor(struct message *m, struct schedule *s)
{
    struct message inner = {.len = 0};
    int64_t count = schedule_one_in(s, 50) ? 15 + schedule_below(s, 4) : schedule_below(s, 4);

    for (; count > 0; count--)
        put_entry(&inner, s);
    for (int64_t n = schedule_one_in(s, 4) ? schedule_below(s, 4) : 0; n > 0; n--)
        put_numbers(&inner, s, 2, 2);
    for (int64_t n = schedule_one_in(s, 4) ? schedule_below(s, 3) : 0; n > 0; n--)
        put_numbers(&inner, s, 3, 1);
    if (schedule_one_in(s, 4))
        put_number(&inner, s, 4);
    if (schedule_one_in(s, one_in))
        put_stranger(&inner, s);
    put_tag(m, s, 2, BYTES);
    put_inner(m, s, &inner);
}

static void put_request(struct message *m, struct schedule *s)
{
    int64_t count = schedule_one_in(s, 50) ? 62 + schedule_below(s, 5) : schedule_below(s, 5);

    put_text(m, s, 1);
    for (; count > 0; count--)
        put_descriptor(m, s);
    for (int64_t n = schedule_below(s, 3); n > 0; n--)
        put_number(m, s, 3);
    if (schedule_one_in(s, one_in))
        put_stranger(m, s);
    if (schedule_one_in(s, 4))
        put_text(m, s, 1);
}

static void damage(struct message *m, struct schedule *s)
{
    for (int64_t n = schedule_below(s, 3); n > 0 && m->len > 0; n--)
        m->data[schedule_below(s, (int64_t)m->len)] = (uint8_t)schedule_next(s);
    if (schedule_one_in(s, 2))
        m->len = (size_t)schedule_below(s, (int64_t)m->len + 1);
}

/* What came out, so that a test that makes nothing but nonsense is seen. */
static const char *const outcomes[] = {
    "",
    "the message is not a RateLimitRequest",
    "the domain is not UTF-8",
    "the request has more than 64 descriptors",
    "a limit override has no unit of time",
    "a descriptor has more than 16 entries",
    "a descriptor's key or value is not UTF-8",
    "a descriptor entry has an empty key",
};
#define OUTCOMES (sizeof outcomes / sizeof outcomes[0])

static size_t outcome_of(const char *why)
{
    size_t i = 0;

    while (i < OUTCOMES && strcmp(why, outcomes[i]) != 0)
        i++;
    return i;
}

static void read_as_protobuf_c_reads(void **state)
{
    struct schedule s = schedule_start();
    unsigned seen[OUTCOMES + 1] = {0};
    struct message message;

    (void)state;
    for (s.round = 0; s.round < ROUNDS; s.round++) {
        const struct wr_rate_request *request;
        const char *why, *difference;
        int result;

        one_in = schedule_one_in(&s, 2) ? 1000 : 10;
        message.len = 0;
        put_request(&message, &s);
        if (schedule_one_in(&s, 8))
            damage(&message, &s);
        difference = rls_model_compare(message.data, message.len, &request, &result, &why);
        if (difference != NULL)
            fail_msg("WEIR_SEED=%llu round %u: %s", (unsigned long long)s.seed, s.round,
                     difference);
        seen[outcome_of(why)]++;
    }
    assert_int_equal(seen[OUTCOMES], 0);
    assert_true(seen[0] > ROUNDS / 10);
    for (size_t i = 1; i < OUTCOMES; i++)
        assert_true(seen[i] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(read_as_protobuf_c_reads)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
