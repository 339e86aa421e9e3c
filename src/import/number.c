/* number.c - rates as other limiters write them, in whole numbers.
 *
 * They have decimals ("0.05", "1e-05") where a policy has so many units in so many whole seconds.
 * Idea: the number is a fraction, and the continued fraction of it gives the nearest one whose
 * parts a policy has room for: 0.3333333333 a second is 1 in 3 s.
 *
 * Invariants
 *   1. Of a number no more than DIGITS decimals are looked at; whether the others were all 0 is
 *      known.
 *   2. What is printed is exactly what was read, or a note says what became of it.
 *
 * Rejected: floating point, whose nearest fraction of 0.1 is not 1/10; rounding at the sixth
 * decimal, which makes 333333 in 1000000 s of it. */
#include "import/draft.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/arith.h"

#define DIGITS_MAX INT64_C(100000000000000000) /* 10^17: one more digit fits int64 */
#define UNITS_MAX ((INT64_C(1) << 24) - 1)     /* that every algorithm has room for */
#define PER_S_MAX (INT64_C(366) * 86400)       /* the longest window of a policy */

/* number / parts */
struct fraction {
    int64_t number, parts;
    bool exact;
};

/* By 10, or by 1/10; false: there is no room for it. */
static bool scale(struct fraction *of, bool up)
{
    if (up && of->parts > 1) {
        of->parts /= 10;
    } else if (up) {
        if (of->number > DIGITS_MAX)
            return false;
        of->number *= 10;
    } else if (of->parts < DIGITS_MAX) {
        of->parts *= 10;
    } else {
        of->exact = of->exact && of->number % 10 == 0;
        of->number /= 10;
    }
    return true;
}

/* What follows the e of "1e-05"; false: it is no exponent. */
static bool read_exponent(const char *text, struct fraction *out)
{
    bool up = *text != '-';
    char *end;
    long by;

    if (*text == '-' || *text == '+')
        text++;
    if (*text < '0' || *text > '9')
        return false;
    by = strtol(text, &end, 10);
    if (*end != '\0' || (up && by > 18))
        return false;
    for (long i = 0; i < by && i < 40; i++)
        if (!scale(out, up))
            return false;
    return true;
}

static bool read_decimal(const char *text, struct fraction *out)
{
    bool digits = false, point = false;

    *out = (struct fraction){0, 1, true};
    for (; *text != '\0'; text++) {
        bool full = out->number > DIGITS_MAX / 10 || out->parts > DIGITS_MAX / 10;
        if (*text == '.' && !point) {
            point = true;
        } else if ((*text == 'e' || *text == 'E') && digits) {
            return read_exponent(text + 1, out);
        } else if (*text < '0' || *text > '9' || (full && !point)) {
            return false;
        } else if (full) {
            out->exact = out->exact && *text == '0';
        } else {
            digits = true;
            out->number = out->number * 10 + (*text - '0');
            out->parts *= point ? 10 : 1;
        }
    }
    return digits;
}

/* The fraction nearest to |of| with at most |parts_max| parts: the convergents of its continued
 * fraction, of which the last is cut to what there is room for. */
static struct fraction nearest(const struct fraction *of, int64_t parts_max)
{
    int64_t a = of->number, b = of->parts, number_max = wr_max_i64(UNITS_MAX, a / b);
    struct fraction before = {0, 1, true}, last = {1, 0, of->exact}, next;

    while (b != 0) {
        int64_t times = a / b, rest = a % b, room = times;
        if (last.number > 0)
            room = wr_min_i64(room, (number_max - before.number) / last.number);
        if (last.parts > 0)
            room = wr_min_i64(room, (parts_max - before.parts) / last.parts);
        if (room < times)
            last.exact = false;
        if (room < times && room <= times / 2) /* the last is nearer */
            break;
        next = (struct fraction){room * last.number + before.number,
                                 room * last.parts + before.parts, last.exact};
        if (room < times)
            return next;
        before = last;
        last = next;
        a = b;
        b = rest;
    }
    return last;
}

static const char *words_of(struct wr_draft *draft, int64_t number, int64_t per_s)
{
    static const struct {
        int64_t s;
        const char *word;
    } named[] = {{1, "second"}, {60, "minute"}, {3600, "hour"}, {86400, "day"}, {604800, "week"}};

    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (per_s == named[i].s)
            return wr_draft_text(draft, "%" PRId64 "/%s", number, named[i].word);
    if (per_s % 86400 == 0)
        return wr_draft_text(draft, "%" PRId64 "/%" PRId64 "d", number, per_s / 86400);
    return wr_draft_text(draft, "%" PRId64 "/%" PRId64 "s", number, per_s);
}

const char *wr_draft_rate(struct wr_draft *draft, unsigned line, const char *units, int64_t per_s,
                          int64_t burst)
{
    struct fraction read, found;
    const char *text;

    if (per_s < 1 || per_s > PER_S_MAX || !read_decimal(units, &read))
        return NULL;
    found = nearest(&read, PER_S_MAX / per_s);
    text = found.number == 0 ? "0/second" : words_of(draft, found.number, per_s * found.parts);
    if (!found.exact)
        wr_draft_note(draft, line, 0,
                      "a rate of %s in %" PRId64 " s: here it is %s, the nearest that every "
                      "algorithm has room for",
                      units, per_s, text);
    return burst >= 0 ? wr_draft_text(draft, "%s burst %" PRId64, text, burst) : text;
}
