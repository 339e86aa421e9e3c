/* fields.c - writing response fields, in every shape that clients read.
 *
 * The problem. The same standing of a request against up to sixteen limits is told in six shapes by
 * as many generations of a draft and of habits; clients compare whole strings and break on a sign,
 * a fraction, or a field that comes twice. And it is done for every answer of a busy proxy, so it
 * must cost next to nothing: no printf, one pass, one buffer.
 *
 * The idea. A writer appends to the caller's buffer; a field is opened, filled by the writer, and
 * closed into one struct weir_header. Each family is a function that opens its fields in turn.
 *
 * Invariants:
 *   1. A name is sent once: opening a field that was sent before answers no, so of two families
 *      that share a name the first (in the order of their bits) wins.
 *   2. Numbers are 0..999999999999999 (RFC 9651: at most 15 digits), without sign or fraction.
 *   3. Durations are rounded up; a duration told with a refusal is never 0.
 *   4. A t in RateLimit is never later than Retry-After, and RateLimit lists on a refusal only the
 *      policies that were violated (draft -11, section on Retry-After).
 *   5. Nothing is written past the buffer: every piece asks for its room first.
 *
 * Rejected: snprintf (it is most of the time of an answer that is refused); rendering the
 * constant RateLimit-Policy once per policy file (which limits match differs by request). */
#include "wire/fields.h"

#include <string.h>

#include "base/arith.h"
#include "base/units.h"

#define NUMBER_MAX INT64_C(999999999999999)
#define DIGITS_MAX 15

enum field {
    RETRY_AFTER,
    CACHE_CONTROL,
    LIMIT,
    REMAINING,
    RESET,
    POLICY,
    RATELIMIT,
    X_LIMIT,
    X_REMAINING,
    X_RESET,
    EXPOSE,
    FIELDS
};
_Static_assert(FIELDS <= WEIR_HEADERS_MAX, "every field has room in the caller's array");

static const char *const field_names[FIELDS] = {
    [RETRY_AFTER] = "Retry-After",
    [CACHE_CONTROL] = "Cache-Control",
    [LIMIT] = "RateLimit-Limit",
    [REMAINING] = "RateLimit-Remaining",
    [RESET] = "RateLimit-Reset",
    [POLICY] = "RateLimit-Policy",
    [RATELIMIT] = "RateLimit",
    [X_LIMIT] = "X-RateLimit-Limit",
    [X_REMAINING] = "X-RateLimit-Remaining",
    [X_RESET] = "X-RateLimit-Reset",
    [EXPOSE] = "Access-Control-Expose-Headers",
};

struct writer {
    const struct wr_standings *standings;
    struct weir_header *out;
    int count;
    unsigned sent; /* bits of enum field */
    bool full;
    char *at;
    char *end;
};

/* Is there room for |bytes| more? Asked once for a group of puts, which then need not ask. */
static bool room(struct writer *w, size_t bytes)
{
    if ((size_t)(w->end - w->at) >= bytes)
        return true;
    w->full = true;
    return false;
}

static void put_text(struct writer *w, const char *text, size_t len)
{
    memcpy(w->at, text, len);
    w->at += len;
}

#define PUT(w, literal) put_text(w, literal, sizeof(literal) - 1)

/* How many digits |number| has. 1233/4096 is log10(2), so |guess| is right or one too small. */
static unsigned count_digits(uint64_t number)
{
    static const uint64_t powers[] = {1,
                                      10,
                                      100,
                                      1000,
                                      10000,
                                      100000,
                                      1000000,
                                      10000000,
                                      100000000,
                                      1000000000,
                                      10000000000,
                                      100000000000,
                                      1000000000000,
                                      10000000000000,
                                      100000000000000,
                                      1000000000000000};
    unsigned guess = wr_bit_length(number) * 1233 >> 12;

    return guess + (number >= powers[guess] || guess == 0);
}

/* Takes up to DIGITS_MAX bytes. Two digits a step, from the last one, to where they belong. */
static void put_number(struct writer *w, int64_t number)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "6869707172737475767778798081828384858687888990919293949596979899";
    uint64_t rest = (uint64_t)wr_min_i64(wr_max_i64(number, 0), NUMBER_MAX);
    unsigned digits = count_digits(rest);
    char *p;

    w->at += digits;
    for (p = w->at; rest >= 10; rest /= 100) {
        p -= 2;
        memcpy(p, pairs + 2 * (rest % 100), 2);
    }
    if (digits % 2 != 0)
        *--p = (char)('0' + rest);
}

/* Whole seconds, rounded up. */
static int64_t seconds(int64_t ns)
{
    return ns <= 0 ? 0 : ns / WR_NS_PER_S + (ns % WR_NS_PER_S != 0);
}

/* The window in whole seconds, or 0 where it cannot be told in such. */
static int64_t window_seconds(const struct wr_standing *s)
{
    return s->window_ns > 0 && s->window_ns % WR_NS_PER_S == 0 ? s->window_ns / WR_NS_PER_S : 0;
}

static bool open_field(struct writer *w, enum field field)
{
    if ((w->sent & 1U << field) != 0)
        return false;
    w->out[w->count].name = field_names[field];
    w->out[w->count].value.ptr = w->at;
    w->sent |= 1U << field;
    return true;
}

static void close_field(struct writer *w)
{
    struct weir_header *header = &w->out[w->count++];

    header->value.len = (size_t)(w->at - header->value.ptr);
}

static void number_field(struct writer *w, enum field field, int64_t number)
{
    if (!open_field(w, field) || !room(w, DIGITS_MAX))
        return;
    put_number(w, number);
    close_field(w);
}

static const struct wr_standing *decisive(const struct writer *w)
{
    return &w->standings->item[w->standings->decisive];
}

/* Until the decisive limit is whole again, in seconds. */
static int64_t reset_seconds(const struct writer *w)
{
    int64_t s = seconds(decisive(w)->reset_ns);

    return w->standings->denied ? wr_max_i64(s, 1) : s;
}

/* ---- lists of integers: drafts -03 to -07 -------------------------------------------------- */

/* These drafts demand a window, and (-06, -07) different quotas; what has none is not listed. */
static bool listed_as_integer(const struct wr_standings *standings, size_t index)
{
    const struct wr_standing *s = &standings->item[index];

    if (window_seconds(s) == 0)
        return false;
    for (size_t i = 0; i < index; i++) {
        const struct wr_standing *before = &standings->item[i];
        if (before->quota_units == s->quota_units && window_seconds(before) != 0)
            return false;
    }
    return true;
}

/* "60;w=60, 5000;w=86400"; returns whether there was anything to list. */
static bool put_integer_policies(struct writer *w, bool comma)
{
    const struct wr_standings *standings = w->standings;

    for (size_t i = 0; i < standings->count; i++) {
        if (!listed_as_integer(standings, i))
            continue;
        if (!room(w, sizeof ", ;w=" + (size_t)2 * DIGITS_MAX))
            return false;
        if (comma)
            PUT(w, ", ");
        put_number(w, standings->item[i].quota_units);
        PUT(w, ";w=");
        put_number(w, window_seconds(&standings->item[i]));
        comma = true;
    }
    return comma;
}

static void integer_policy_field(struct writer *w)
{
    if (!open_field(w, POLICY))
        return;
    if (put_integer_policies(w, false))
        close_field(w);
    /* else: an empty list is a field that is absent; the place is used again */
}

static void plain_triple(struct writer *w)
{
    number_field(w, REMAINING, decisive(w)->remaining_units);
    number_field(w, RESET, reset_seconds(w));
}

static void draft_03(struct writer *w)
{
    if (open_field(w, LIMIT) && room(w, DIGITS_MAX)) {
        put_number(w, decisive(w)->quota_units);
        /* Of a limit without a window there is no quota policy: those of others beside its number
         * would be taken for its own. */
        if (window_seconds(decisive(w)) > 0)
            (void)put_integer_policies(w, true);
        close_field(w);
    }
    plain_triple(w);
}

static void draft_06(struct writer *w)
{
    integer_policy_field(w);
    number_field(w, LIMIT, decisive(w)->quota_units);
    plain_triple(w);
}

static void draft_07(struct writer *w)
{
    integer_policy_field(w);
    if (!open_field(w, RATELIMIT) ||
        !room(w, sizeof "limit=, remaining=, reset=" + (size_t)3 * DIGITS_MAX))
        return;
    PUT(w, "limit=");
    put_number(w, decisive(w)->quota_units);
    PUT(w, ", remaining=");
    put_number(w, decisive(w)->remaining_units);
    PUT(w, ", reset=");
    put_number(w, reset_seconds(w));
    close_field(w);
}

/* ---- lists of strings: draft -11 ----------------------------------------------------------- */

/* The most that an item takes besides its name. */
#define ITEM_MAX (sizeof ", \"\";q=;qu=\"concurrent-requests\";w=" + (size_t)2 * DIGITS_MAX)

/* Opens an item; false where there is no room for a whole one. */
static bool put_name(struct writer *w, const struct wr_standing *s, bool first)
{
    size_t len = strlen(s->name);

    if (!room(w, len + ITEM_MAX))
        return false;
    if (!first)
        PUT(w, ", ");
    PUT(w, "\"");
    put_text(w, s->name, len);
    PUT(w, "\";");
    return true;
}

static void put_policy(struct writer *w, const struct wr_standing *s)
{
    int64_t window = window_seconds(s);

    PUT(w, "q=");
    put_number(w, s->quota_units);
    if (s->concurrent)
        PUT(w, ";qu=\"concurrent-requests\"");
    if (window > 0) {
        PUT(w, ";w=");
        put_number(w, window);
    }
}

static void put_standing(struct writer *w, const struct wr_standing *s)
{
    int64_t next = seconds(s->next_ns);

    PUT(w, "r=");
    put_number(w, s->remaining_units);
    if (next == 0)
        return;
    if (w->standings->denied && w->standings->retry_after_ns > 0)
        next = wr_min_i64(next, seconds(w->standings->retry_after_ns));
    PUT(w, ";t=");
    put_number(w, next);
}

static void draft_11(struct writer *w)
{
    const struct wr_standings *standings = w->standings;
    bool first = true;

    if (open_field(w, POLICY)) {
        for (size_t i = 0; i < standings->count; i++) {
            if (put_name(w, &standings->item[i], i == 0))
                put_policy(w, &standings->item[i]);
        }
        close_field(w);
    }
    if (!open_field(w, RATELIMIT))
        return;
    for (size_t i = 0; i < standings->count; i++) {
        if (standings->denied && !standings->item[i].violated)
            continue;
        if (put_name(w, &standings->item[i], first))
            put_standing(w, &standings->item[i]);
        first = false;
    }
    if (!first) /* an empty list is a field that is absent */
        close_field(w);
}

/* ---- the rest ------------------------------------------------------------------------------ */

static void x_triple(struct writer *w, bool epoch)
{
    const struct wr_standing *s = decisive(w);
    int64_t reset = s->reset_ns;

    number_field(w, X_LIMIT, s->quota_units);
    number_field(w, X_REMAINING, s->remaining_units);
    if (!epoch) {
        number_field(w, X_RESET, reset_seconds(w));
        return;
    }
    if (w->standings->denied)
        reset = wr_max_i64(reset, 1);
    number_field(w, X_RESET, seconds(wr_add_sat_i64(w->standings->now_ns, reset)));
}

static void refusal_fields(struct writer *w)
{
    if (w->standings->retry_after_ns > 0)
        number_field(w, RETRY_AFTER, seconds(w->standings->retry_after_ns));
    if (open_field(w, CACHE_CONTROL) && room(w, sizeof "no-store")) {
        PUT(w, "no-store");
        close_field(w);
    }
}

/* Names what was sent; not Cache-Control, which browsers show without being told. */
static void expose_field(struct writer *w)
{
    bool first = true;
    int sent = w->count;

    (void)open_field(w, EXPOSE);
    for (int i = 0; i < sent; i++) {
        const char *name = w->out[i].name;
        if (name == field_names[CACHE_CONTROL] || !room(w, strlen(name) + 2))
            continue;
        if (!first)
            PUT(w, ", ");
        put_text(w, name, strlen(name));
        first = false;
    }
    if (!first)
        close_field(w);
}

int wr_fields_write(const struct wr_standings *standings, unsigned families,
                    struct weir_header *out, char *buffer, size_t size)
{
    struct writer w = {.standings = standings, .out = out, .at = buffer, .end = buffer + size};

    if (standings->denied)
        refusal_fields(&w);
    if (standings->count > 0) {
        if ((families & WEIR_HEADERS_X) != 0)
            x_triple(&w, true);
        if ((families & WEIR_HEADERS_X_DELTA) != 0)
            x_triple(&w, false);
        if ((families & WEIR_HEADERS_DRAFT_03) != 0)
            draft_03(&w);
        if ((families & WEIR_HEADERS_DRAFT_06) != 0)
            draft_06(&w);
        if ((families & WEIR_HEADERS_DRAFT_07) != 0)
            draft_07(&w);
        if ((families & WEIR_HEADERS_DRAFT_11) != 0)
            draft_11(&w);
    }
    if (standings->expose)
        expose_field(&w);
    return w.full ? WEIR_EFULL : w.count;
}
