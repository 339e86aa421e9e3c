/* rate.c - a scanner over one short line: number, slash, unit, words.
 *
 * Problem. A misread rate is a wrong limit for everybody. "100/m" must not be minutes to one reader
 * and months to another, and 9223372036854775808 must not become negative.
 *
 * Invariants:
 *   1. Everything is integers; every overflow is an error at the number that causes it.
 *   2. All of the text is consumed, or it is an error at the first byte that was not.
 *   3. Months and years have no fixed length: they are refused, not approximated.
 *
 * Rejected: strtoll (signs, blanks, locale), sums such as 1h30m (90m says it), fractions (a rate of
 * 0.5/second is 1/2s). */
#include "policy/rate.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/units.h"

struct scan {
    const char *p;
    const char *start;
    const char *end;
};

static struct scan scan_of(struct weir_slice text)
{
    return (struct scan){text.ptr, text.ptr, text.ptr + text.len};
}

static size_t offset(const struct scan *s)
{
    return (size_t)(s->p - s->start);
}

static void skip_blanks(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t'))
        s->p++;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Digits at s->p, at most |max|. On an error s->p is left at their start. */
static const char *take_number(struct scan *s, int64_t max, int64_t *out)
{
    const char *p = s->p;
    int64_t value = 0;

    *out = 0;
    if (p == s->end || !is_digit(*p))
        return "expected a number";
    for (; p < s->end && is_digit(*p); p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *p - '0', &value))
            return "the number is too large: it does not fit 63 bits";
    if (value > max)
        return "the number is too large here";
    s->p = p;
    *out = value;
    return NULL;
}

/* The letters at s->p. */
static struct weir_slice take_word(struct scan *s)
{
    struct weir_slice word = {s->p, 0};

    while (s->p < s->end && is_letter(*s->p))
        s->p++;
    word.len = (size_t)(s->p - word.ptr);
    return word;
}

static bool is_word(struct weir_slice word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.ptr, text, word.len) == 0;
}

struct unit {
    const char *name;
    int64_t ns; /* 0: has no fixed length */
};

static const struct unit units[] = {
    {"ms", WR_NS_PER_MS},
    {"s", WR_NS_PER_S},
    {"second", WR_NS_PER_S},
    {"seconds", WR_NS_PER_S},
    {"sec", WR_NS_PER_S},
    {"m", WR_NS_PER_MINUTE},
    {"min", WR_NS_PER_MINUTE},
    {"minute", WR_NS_PER_MINUTE},
    {"minutes", WR_NS_PER_MINUTE},
    {"h", WR_NS_PER_HOUR},
    {"hour", WR_NS_PER_HOUR},
    {"hours", WR_NS_PER_HOUR},
    {"d", WR_NS_PER_DAY},
    {"day", WR_NS_PER_DAY},
    {"days", WR_NS_PER_DAY},
    {"w", WR_NS_PER_WEEK},
    {"week", WR_NS_PER_WEEK},
    {"weeks", WR_NS_PER_WEEK},
    {"month", 0},
    {"months", 0},
    {"year", 0},
    {"years", 0},
};

/* A unit at s->p. On an error s->p is left at its start. */
static const char *take_unit(struct scan *s, int64_t *ns)
{
    const char *start = s->p;
    struct weir_slice word = take_word(s);

    *ns = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!is_word(word, units[i].name))
            continue;
        *ns = units[i].ns;
        if (*ns > 0)
            return NULL;
        s->p = start;
        return "months and years have no fixed length: write 30d, or a quota per month";
    }
    s->p = start;
    return "expected a unit: second, minute, hour, day or week (ms, s, m, h, d, w)";
}

/* UNIT, or with |bare_unit| false only DURATION (digits and a unit). */
static const char *take_duration(struct scan *s, bool bare_unit, int64_t *ns)
{
    const char *start = s->p;
    const char *wrong;
    int64_t count = 1;
    int64_t unit_ns;

    *ns = 0;
    if (!bare_unit || (s->p < s->end && is_digit(*s->p))) {
        wrong = take_number(s, INT64_MAX, &count);
        if (wrong != NULL)
            return wrong;
    }
    wrong = take_unit(s, &unit_ns);
    if (wrong != NULL)
        return wrong;
    if (count == 0) {
        s->p = start;
        return "the duration must be longer than zero";
    }
    if (!wr_mul_i64(count, unit_ns, ns)) {
        s->p = start;
        return "the duration is too long";
    }
    return NULL;
}

/* What may follow N/W: "burst N", "queue N". */
static const char *take_option(struct scan *s, struct wr_rate *out)
{
    const char *start = s->p;
    struct weir_slice word = take_word(s);
    int64_t *into;

    if (is_word(word, "burst"))
        into = &out->burst;
    else if (is_word(word, "queue"))
        into = &out->queue;
    else {
        s->p = start;
        return "expected \"burst N\", \"queue N\" or the end of the rate";
    }
    if (out->burst >= 0 || out->queue >= 0) {
        s->p = start;
        return out->burst >= 0 && out->queue < 0 && into == &out->burst ? "burst is given twice"
               : into == &out->queue && out->burst < 0                  ? "queue is given twice"
                                                       : "burst and queue exclude each other: a "
                                                         "burst passes at once, a queue waits";
    }
    skip_blanks(s);
    return take_number(s, INT64_MAX, into);
}

static const char *scan_rate(struct scan *s, struct wr_rate *out)
{
    const char *wrong;

    skip_blanks(s);
    if (s->p < s->end && is_letter(*s->p)) {
        const char *start = s->p;
        if (!is_word(take_word(s), "unlimited")) {
            s->p = start;
            return "expected a rate such as 100/minute or 100/15m, or unlimited";
        }
        out->unlimited = true;
        skip_blanks(s);
        return s->p == s->end ? NULL : "expected nothing after unlimited";
    }
    wrong = take_number(s, INT64_MAX, &out->units);
    if (wrong != NULL)
        return s->p == s->end || !is_digit(*s->p)
                   ? "expected a rate such as 100/minute or 100/15m, or unlimited"
                   : wrong;
    skip_blanks(s);
    if (s->p == s->end || *s->p != '/')
        return "expected / and a unit after the number, as in 100/minute";
    s->p++;
    skip_blanks(s);
    wrong = take_duration(s, true, &out->window_ns);
    for (skip_blanks(s); wrong == NULL && s->p < s->end; skip_blanks(s))
        wrong = take_option(s, out);
    return wrong;
}

const char *wr_rate_parse(struct weir_slice text, struct wr_rate *out, size_t *at)
{
    struct scan s = scan_of(text);
    const char *wrong;

    *out = (struct wr_rate){.burst = -1, .queue = -1};
    wrong = scan_rate(&s, out);
    *at = offset(&s);
    return wrong;
}

const char *wr_duration_parse(struct weir_slice text, int64_t *ns, size_t *at)
{
    struct scan s = scan_of(text);
    const char *wrong = take_duration(&s, false, ns);

    *at = offset(&s);
    if (wrong == NULL && s.p != s.end)
        wrong = "expected nothing after the duration";
    return wrong;
}

const char *wr_count_parse(struct weir_slice text, int64_t max, int64_t *out, size_t *at)
{
    struct scan s = scan_of(text);
    const char *wrong = take_number(&s, max, out);

    *at = offset(&s);
    if (wrong == NULL && s.p != s.end)
        wrong = "expected a number and nothing else";
    return wrong;
}

static const struct {
    const char *name;
    uint64_t bytes;
} sizes[] = {
    {"", 1},
    {"B", 1},
    {"kB", UINT64_C(1000)},
    {"MB", UINT64_C(1000000)},
    {"GB", UINT64_C(1000000000)},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
};

const char *wr_size_parse(struct weir_slice text, uint64_t *bytes, size_t *at)
{
    struct scan s = scan_of(text);
    const char *start, *wrong;
    struct weir_slice word;
    int64_t count;

    *bytes = 0;
    wrong = take_number(&s, INT64_MAX, &count);
    *at = offset(&s);
    if (wrong != NULL)
        return wrong;
    start = s.p;
    word = take_word(&s);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!is_word(word, sizes[i].name) || s.p != s.end)
            continue;
        *at = 0;
        return __builtin_mul_overflow((uint64_t)count, sizes[i].bytes, bytes)
                   ? "the size is too large: it does not fit 64 bits"
                   : NULL;
    }
    *at = (size_t)(start - s.start);
    return "expected a size in KiB, MiB or GiB (kB, MB, GB are powers of ten)";
}

void wr_rate_words(int64_t units_count, int64_t window_ns, char *out, size_t size)
{
    static const struct unit words[] = {
        {"week", WR_NS_PER_WEEK},     {"day", WR_NS_PER_DAY},  {"hour", WR_NS_PER_HOUR},
        {"minute", WR_NS_PER_MINUTE}, {"second", WR_NS_PER_S},
    };
    static const struct unit suffixes[] = {
        {"d", WR_NS_PER_DAY}, {"h", WR_NS_PER_HOUR}, {"m", WR_NS_PER_MINUTE},
        {"s", WR_NS_PER_S},   {"ms", WR_NS_PER_MS},
    };
    const char *suffix = "ns";
    int64_t count = window_ns;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (window_ns == words[i].ns) {
            (void)snprintf(out, size, "%lld per %s", (long long)units_count, words[i].name);
            return;
        }
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (window_ns % suffixes[i].ns == 0) {
            suffix = suffixes[i].name;
            count = window_ns / suffixes[i].ns;
            break;
        }
    }
    (void)snprintf(out, size, "%lld per %lld%s", (long long)units_count, (long long)count, suffix);
}
