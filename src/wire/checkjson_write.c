/* checkjson_write.c - what was decided, as JSON: the members of `weir replay --verdicts` first,
 * then every limit that was met.
 *
 * Numbers are written by hand: the answer is written for every request, and printf would cost more
 * than the decision. Names of limits and plans are [A-Za-z0-9._-], so nothing needs escaping. */
#include <string.h>

#include "base/units.h"
#include "wire/checkjson.h"

static const char *const outcomes[] = {[WEIR_ALLOW] = "allow",
                                       [WEIR_DELAY] = "delay",
                                       [WEIR_DENY] = "deny",
                                       [WEIR_SHADOW] = "shadow",
                                       [WEIR_ASK] = "ask"};

/* Of enum weir_reason, as docs/http.md has them. */
static const char *const reasons[] = {
    [WEIR_REASON_NONE] = "none",         [WEIR_REASON_LIMIT] = "limit",
    [WEIR_REASON_CAPACITY] = "capacity", [WEIR_REASON_ZERO] = "zero",
    [WEIR_REASON_BANNED] = "banned",     [WEIR_REASON_MISSING] = "missing",
    [WEIR_REASON_BUSY] = "busy",         [WEIR_REASON_STORE] = "store",
    [WEIR_REASON_PLAN] = "plan"};

const char *wr_check_reason(unsigned reason)
{
    return reason < sizeof reasons / sizeof *reasons ? reasons[reason] : "none";
}

static char *put_bytes(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

static char *put(char *at, const char *text)
{
    return put_bytes(at, text, strlen(text));
}

static char *put_number(char *at, int64_t value)
{
    char digits[20];
    size_t n = sizeof digits;
    uint64_t left = value > 0 ? (uint64_t)value : 0; /* nothing told is negative */

    do {
        digits[--n] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    memcpy(at, digits + n, sizeof digits - n);
    return at + sizeof digits - n;
}

/* "text", or null. */
static char *put_name(char *at, const char *text)
{
    if (text == NULL)
        return put(at, "null");
    *at++ = '"';
    at = put(at, text);
    *at++ = '"';
    return at;
}

static int64_t ceil_ms(int64_t ns)
{
    return ns / WR_NS_PER_MS + (ns % WR_NS_PER_MS != 0);
}

/* Until when a retry would pass; null where no waiting helps, or none is needed. */
static char *put_wait(char *at, int64_t ns)
{
    return ns > 0 ? put_number(at, ceil_ms(ns)) : put(at, "null");
}

static char *put_limit(char *at, const struct wr_check_told *told, unsigned i)
{
    const struct weir_verdict *v = &told->answer->verdicts[i];

    at = put(at, "{\"name\":");
    at = put_name(at, told->names[i]);
    at = put(at, ",\"verdict\":");
    at = put_name(at, outcomes[v->outcome & 3]);
    at = put(at, ",\"limit\":");
    at = put_number(at, v->capacity_units);
    at = put(at, ",\"remaining\":");
    at = put_number(at, v->remaining_units);
    at = put(at, ",\"retry_after_ms\":");
    at = put_wait(at, v->retry_after_ns);
    at = put(at, ",\"delay_ms\":");
    at = put_number(at, ceil_ms(v->delay_ns));
    at = put(at, ",\"reset_ms\":");
    at = put_number(at, ceil_ms(told->reset_ns[i]));
    return put(at, v->shadow != 0 ? ",\"shadow\":true}" : ",\"shadow\":false}");
}

static char *put_spoken(char *at, const struct wr_check_told *told)
{
    const struct weir_answer *answer = told->answer;

    if (answer == NULL || told->spoken < 0 || told->spoken >= (int)answer->count)
        return put(at, ",\"limit\":null,\"remaining\":null");
    at = put(at, ",\"limit\":");
    at = put_name(at, told->names[told->spoken]);
    at = put(at, ",\"remaining\":");
    return put_number(at, answer->verdicts[told->spoken].remaining_units);
}

size_t wr_check_write(const struct wr_check_told *told, char *out)
{
    const struct weir_answer *answer = told->answer;
    unsigned outcome = answer != NULL ? answer->outcome & 3U : WEIR_ALLOW;
    unsigned count = answer == NULL                    ? 0
                     : answer->count < WEIR_LIMITS_MAX ? answer->count
                                                       : WEIR_LIMITS_MAX;
    char *at = put(out, "{\"verdict\":");

    at = put_name(at, outcomes[outcome]);
    at = put_spoken(at, told);
    at = put(at, ",\"retry_after_ms\":");
    at = put_wait(at, answer != NULL && outcome == WEIR_DENY ? answer->retry_after_ns : 0);
    at = put(at, ",\"delay_ms\":");
    at = put_number(at, answer != NULL && outcome != WEIR_DENY ? ceil_ms(answer->delay_ns) : 0);
    at = put(at, ",\"reason\":");
    at = put_name(at,
                  answer != NULL && outcome == WEIR_DENY ? wr_check_reason(answer->reason) : NULL);
    at = put(at, ",\"plan\":");
    at = put_name(at, told->plan);
    if (told->reservation) {
        at = put(at, ",\"id\":");
        at = put_name(at, told->id);
    }
    at = put(at, ",\"limits\":[");
    for (unsigned i = 0; i < count; i++) {
        if (i > 0)
            *at++ = ',';
        at = put_limit(at, told, i);
    }
    at = put(at, "]}");
    return (size_t)(at - out);
}
