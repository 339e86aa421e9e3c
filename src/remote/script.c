/* script.c - the arguments of a call of decide.lua.
 *
 * Redis makes a string of Lua of every argument; so all that is no key is one packed string:
 * numbers as little-endian doubles, which hold whole numbers below 2^53 exactly and cost Lua no
 * parsing. docs/formats/redis.md draws it.
 *
 *     head     op, moment, nodes, slack
 *     records  of each key: algorithm, flags, cost, extra, four parameters
 *              + three boundaries, of calendar windows
 *              + the place, of concurrency and of refunds; the receipt, of refunds
 *
 * Invariants:
 *   1. Nothing is allocated; the caller's wr_script_args holds it all: its size covers
 *      WEIR_LIMITS_MAX charges of the longest names.
 *   2. Every number written is whole and below 2^53.
 *
 * Rejected: arguments as text (ten strings to copy, intern and parse for one key). */
#include "remote/script.h"

#include <string.h>

#include "algo/leasing.h"
#include "algo/period.h"
#include "algo/ticks.h"
#include "base/hex.h"
#include "remote/script_limit.h"

#define FLAG_SHADOW 1U
#define FLAG_COUNT_DENIED 2U
#define FLAG_CALENDAR 4U

static void put(struct wr_script_args *args, const void *bytes, size_t len)
{
    memcpy(args->bytes + args->used, bytes, len);
    args->used += len;
}

static void put_number(struct wr_script_args *args, int64_t value)
{
    double number = (double)value;
    unsigned char bytes[8];
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(bits >> (8 * i));
    put(args, bytes, sizeof bytes);
}

static void put_byte(struct wr_script_args *args, unsigned value)
{
    unsigned char byte = (unsigned char)value;
    put(args, &byte, 1);
}

static void put_arg(struct wr_script_args *args, const char *bytes, size_t len)
{
    args->argv[args->argc] = bytes;
    args->argvlen[args->argc++] = len;
}

size_t wr_script_key(char *out, size_t size, const char *prefix,
                     const struct wr_remote_charge *charge)
{
    const unsigned char *tag = charge->tag;
    const char *name = charge->name;
    size_t prefix_len = strnlen(prefix, WR_SCRIPT_PREFIX_MAX + 1);
    size_t name_len = strnlen(name, WR_SCRIPT_NAME_MAX + 1), at = prefix_len;

    if (prefix_len > WR_SCRIPT_PREFIX_MAX || name_len > WR_SCRIPT_NAME_MAX ||
        prefix_len + name_len + 2 * (size_t)WR_TAG_BYTES + 6 > size)
        return 0;
    memcpy(out, prefix, prefix_len);
    out[at++] = ':';
    out[at++] = '{';
    wr_hex_write(out + at, tag, WR_TAG_BYTES);
    at += 2 * (size_t)WR_TAG_BYTES;
    out[at++] = '}';
    out[at++] = ':';
    memcpy(out + at, name, name_len);
    at += name_len;
    out[at++] = ':';
    out[at++] = "0123456789abcdef"[charge->limit->algo & 15];
    return at;
}

static bool put_keys(struct wr_script_args *args, const char *prefix,
                     const struct wr_remote_charge *charge, unsigned count, uint32_t which)
{
    for (unsigned i = 0; i < count; i++) {
        char *key = args->bytes + args->used;
        size_t len;

        if ((which >> i & 1) == 0)
            continue;
        len = wr_script_key(key, WR_SCRIPT_KEY_MAX, prefix, &charge[i]);
        if (len == 0)
            return false;
        put_arg(args, key, len);
        args->used += len;
    }
    return true;
}

/* What the script must know of a limit: four numbers (decide.lua says which). */
static bool put_parameters(struct wr_script_args *args, const struct wr_remote_charge *charge)
{
    const struct wr_limit *limit = charge->limit;
    int64_t p[4] = {limit->units, limit->window_ns / WR_NS_PER_US, 0, 0};
    struct wr_ticks ticks;

    if (limit->algo <= WR_LEAKY_BUCKET) {
        if (!wr_ticks_make(&ticks, limit))
            return false;
        p[0] = ticks.unit;
        p[1] = ticks.rate;
        p[2] = wr_script_capacity(limit, charge->ttl_ns) * ticks.unit;
        p[3] = limit->burst * ticks.unit;
        if (limit->algo == WR_LEAKY_BUCKET) {
            p[2] = limit->units == 0 ? -1 : limit->burst * ticks.unit;
            p[3] = wr_script_window_ticks(limit, &ticks);
        }
    } else if (limit->window_ns % WR_NS_PER_US != 0) {
        return false;
    } else if (limit->algo <= WR_SLIDING_WINDOW) {
        if (limit->calendar != WR_CALENDAR_NONE)
            p[1] = wr_limit_windows_id(limit);
        p[2] = (INT64_C(1) << limit->count_bits) - 1;
    }
    for (unsigned i = 0; i < 4; i++)
        put_number(args, p[i]);
    return true;
}

static void put_boundaries(struct wr_script_args *args, const struct wr_limit *limit,
                           int64_t about_ns)
{
    struct wr_period here = wr_limit_period_at(limit, wr_moment_ns(about_ns));

    put_number(args, here.start_ns / WR_NS_PER_US);
    put_number(args, here.end_ns / WR_NS_PER_US);
    put_number(args, wr_limit_period(limit, here.index + 1).end_ns / WR_NS_PER_US);
}

static void put_place(struct wr_script_args *args, uint64_t place)
{
    char text[WR_HEX_U64];

    wr_hex_write_u64(text, place);
    put(args, text, sizeof text);
}

static bool put_record(struct wr_script_args *args, const struct wr_script_ask *ask,
                       enum wr_script_op op, const struct wr_remote_charge *charge, bool shadow)
{
    const struct wr_limit *limit = charge->limit;
    bool calendar = limit->calendar != WR_CALENDAR_NONE;
    bool leases = op == WR_SCRIPT_TAKE && charge->ttl_ns > 0;
    int64_t extra = leases ? wr_min_i64(charge->extra, WR_TICKS_MAX - 1) : 0;

    put_byte(args, limit->algo);
    put_byte(args, (shadow ? FLAG_SHADOW : 0) | (limit->count_denied ? FLAG_COUNT_DENIED : 0) |
                       (calendar ? FLAG_CALENDAR : 0));
    put_number(args, wr_max_i64(0, wr_min_i64(charge->cost, WEIR_COST_MAX)));
    put_number(args, wr_can_lease(limit) ? wr_max_i64(0, extra) : 0);
    if (!put_parameters(args, charge))
        return false;
    if (calendar)
        put_boundaries(args, limit, ask->about_ns);
    if (op == WR_SCRIPT_REFUND || limit->algo == WR_CONCURRENCY)
        put_place(args, charge->place);
    if (op == WR_SCRIPT_REFUND) {
        put_number(args, (int64_t)wr_min_u64(charge->receipt[0], WR_TICKS_MAX - 1));
        put_number(args, (int64_t)wr_min_u64(charge->receipt[1], WR_TICKS_MAX - 1));
    }
    return true;
}

static void put_count(struct wr_script_args *args, unsigned keys)
{
    size_t from = args->used;

    if (keys >= 10)
        put_byte(args, '0' + keys / 10);
    put_byte(args, '0' + keys % 10);
    put_arg(args, args->bytes + from, args->used - from);
}

bool wr_script_args(struct wr_script_args *out, const struct wr_script_ask *ask,
                    enum wr_script_op op, const struct wr_remote_charge *charge, unsigned count,
                    uint32_t which, uint32_t shadow)
{
    size_t from;

    out->argc = 0;
    out->used = 0;
    if (count > WEIR_LIMITS_MAX || (which & ((UINT32_C(1) << count) - 1)) == 0)
        return false;
    which &= (UINT32_C(1) << count) - 1;
    put_arg(out, "EVALSHA", 7);
    put_arg(out, wr_script_sha1, 40);
    put_count(out, (unsigned)__builtin_popcount(which));
    if (!put_keys(out, ask->prefix, charge, count, which))
        return false;
    from = out->used;
    put_byte(out, op);
    put_number(out, wr_max_i64(0, ask->moment_us));
    put_number(out, ask->nodes > 0 ? ask->nodes : 1);
    put_number(out, wr_max_i64(1, ask->slack_ms));
    for (unsigned i = 0; i < count; i++) {
        if ((which >> i & 1) != 0 && !put_record(out, ask, op, &charge[i], (shadow >> i & 1) != 0))
            return false;
    }
    put_arg(out, out->bytes + from, out->used - from);
    return true;
}
