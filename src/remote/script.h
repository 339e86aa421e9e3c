/* script.h - the script that Redis decides with (decide.lua), and our side of it: its arguments,
 * and what its answer means. No I/O.
 *
 *   wr_script_args   the arguments of one EVALSHA for charges whose keys are in one slot
 *   wr_script_read   its answer into those charges: verdict, remaining, times, lease, receipt
 *
 * The script says only what the state was before the charge and when it decided. What remains and
 * when to come back follows from that, here, in 128 bits.
 *
 * Leased limits. The units that are out as leases may be spent up to their time to live after they
 * were granted; so at the store a token bucket whose charges have ttl_ns > 0 has a capacity of
 * B - ceil(rate * ttl). All charges of a leased limit must say the same ttl_ns, or a greater one:
 * those with extra 0 too. */
#ifndef WR_REMOTE_SCRIPT_H
#define WR_REMOTE_SCRIPT_H

#include <stddef.h>

#include "engine/backend.h"

struct redisReply;

extern const char wr_script[];
extern const size_t wr_script_len;
extern const char wr_script_sha1[]; /* 40 hexadecimal digits */

enum wr_script_op {
    WR_SCRIPT_TAKE = 0,   /* all or none */
    WR_SCRIPT_REFUND = 1, /* give cost units back, by the receipt */
    WR_SCRIPT_FORCE = 2,  /* charge whether it fits or not */
    WR_SCRIPT_DROP = 3,   /* forget the keys */
    WR_SCRIPT_JUDGE = 4,  /* as TAKE of a request that another slot refuses: takes nothing, but
                             count_denied is charged */
};

#define WR_SCRIPT_PREFIX_MAX 64 /* bytes of a prefix of keys */
#define WR_SCRIPT_NAME_MAX 256  /* bytes of a limit's name */
#define WR_SCRIPT_KEY_MAX (WR_SCRIPT_PREFIX_MAX + 2 * WR_TAG_BYTES + WR_SCRIPT_NAME_MAX + 6)
#define WR_SCRIPT_RECORD_MAX (50 + 24 + 32) /* bytes of a charge */
#define WR_SCRIPT_HEAD_BYTES 25
#define WR_SCRIPT_SLACK_MS 1000 /* how much longer than its state means something a key lives */

/* What a call is asked with. */
struct wr_script_ask {
    const char *prefix;
    unsigned nodes;    /* that share the store: a lease is at most half of the rest over them */
    int64_t about_ns;  /* about what the store's clock says, for calendar windows */
    int64_t moment_us; /* decide at this moment; 0: at the store's TIME */
    int64_t slack_ms;  /* WR_SCRIPT_SLACK_MS */
};

/* An EVALSHA; valid until this is moved or written again. */
struct wr_script_args {
    int argc; /* as hiredis takes them */
    const char *argv[4 + WEIR_LIMITS_MAX];
    size_t argvlen[4 + WEIR_LIMITS_MAX];
    size_t used;
    char bytes[WEIR_LIMITS_MAX * (WR_SCRIPT_KEY_MAX + WR_SCRIPT_RECORD_MAX) + 64];
};

/* Write the key that |charge| counts under: "prefix:{tag}:name:algorithm", so that nodes which
 * differ in a limit's algorithm do not reset each other's counts. Returns its length, without a
 * terminator; 0 when it is longer than |size| or a part longer than its bound. */
size_t wr_script_key(char *out, size_t size, const char *prefix,
                     const struct wr_remote_charge *charge);

/* EVALSHA for those of charge[0..count) whose bit is set in |which|. |shadow| as in wr_remote_call.
 * Only refunds read receipts. Returns false when |which| names none, a name or prefix is too long,
 * or a limit cannot be counted exactly (wr_ticks_make). */
bool wr_script_args(struct wr_script_args *out, const struct wr_script_ask *ask,
                    enum wr_script_op op, const struct wr_remote_charge *charge, unsigned count,
                    uint32_t which, uint32_t shadow);

enum wr_script_result {
    WR_SCRIPT_DONE,
    WR_SCRIPT_AGAIN, /* boundaries of a calendar window did not hold: nothing was decided. Ask once
                        more, with about_ns of the moment that it said */
    WR_SCRIPT_NONSENSE, /* not an answer of this script */
};

struct wr_script_answer {
    bool passed;    /* TAKE: all those of |which| that decide let it pass; so those that say allowed
                       were taken */
    int64_t now_ns; /* the store's, when it decided; 0 with NONSENSE */
};

/* The answer to TAKE, JUDGE or FORCE. Charges that |which| names are written with DONE only; of a
 * JUDGE, and where it did not pass, they say what would have been. */
enum wr_script_result wr_script_read(struct wr_remote_charge *charge, unsigned count,
                                     uint32_t which, uint32_t shadow, enum wr_script_op op,
                                     const struct redisReply *reply, struct wr_script_answer *out);

/* Units that a token bucket holds at the store when leases of |ttl_ns| are granted from it; of
 * other limits, and without leases, the capacity. */
int64_t wr_script_capacity(const struct wr_limit *limit, int64_t ttl_ns);

#endif
