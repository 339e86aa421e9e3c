/* tally.h - what a replay counts: per limit, per client, and when. */
#ifndef WR_CLI_TALLY_H
#define WR_CLI_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "cli/order.h"
#include "weir/weir.h"

#define WR_TALLY_CLIENTS_MAX ((size_t)1 << 22) /* told apart; the rest is counted as one */
#define WR_TALLY_BAD_MAX 5                     /* bad lines shown */
#define WR_TALLY_EXCERPT 96                    /* bytes of a bad line kept */
#define WR_TALLY_REASON 192

/* What a request took of quotas beyond what its plan includes. */
struct wr_beyond {
    unsigned limit;
    int64_t overage_units, grace_units; /* not both 0 */
};

struct wr_verdict_extra {
    unsigned beyond_count;
    struct wr_beyond beyond[WEIR_LIMITS_MAX];
    bool upgraded; /* the customer moved from plan |from| to |to| */
    unsigned from, to;
};

/* Customers that moved from one plan to another. */
struct wr_upgrades {
    unsigned from, to;
    uint64_t count;
};
#define WR_TALLY_UPGRADES_MAX 64 /* each plan leads to one other */

/* What one client had to do with one limit. */
struct wr_touch {
    struct wr_touch *next; /* of the same client, last used first */
    const struct wr_client *client;
    unsigned limit;
    uint64_t requests, denied, delayed;
};

/* A caller as the policy sees it. */
struct wr_client {
    UT_hash_handle hh;
    struct wr_touch *touches;
    uint64_t requests, denied;
    size_t len;
    char name[];
};

struct wr_limit_tally {
    const char *name;
    bool shadow; /* seen to be so; of a limit that no request met it is not known */
    uint64_t requests, denied, delayed, clients, clients_denied;
    int64_t first_denied_ns, last_denied_ns; /* where denied > 0 */
    int64_t minute, busiest_minute;          /* minutes since the epoch */
    uint64_t minute_denied, busiest_denied;
    int64_t least_remaining, capacity; /* of the one that came nearest; least -1: none */
    bool counts_beyond;                /* a quota by customer: */
    uint64_t overage_requests, grace_requests;
    int64_t overage_units, grace_units;
};

struct wr_bad_line {
    uint32_t source;
    uint64_t line;
    size_t column;
    char reason[WR_TALLY_REASON];
    size_t len;
    char excerpt[WR_TALLY_EXCERPT];
};

struct wr_tally {
    struct weir *w;
    uint64_t lines, bad_lines, requests;
    uint64_t outcomes[4]; /* by enum weir_outcome */
    uint64_t uncounted;   /* OPTIONS requests that the policy does not count */
    uint64_t late;
    uint64_t logged_429; /* requests that the log itself says were refused */
    int64_t first_ns, last_ns;
    size_t limit_count;
    struct wr_limit_tally *limits;
    size_t upgrade_count;
    struct wr_upgrades upgrades[WR_TALLY_UPGRADES_MAX];
    struct wr_client *clients; /* uthash by name */
    struct wr_memo *memo;
    size_t bad_kept;
    struct wr_bad_line bad[WR_TALLY_BAD_MAX];
};

/* False when out of memory, as for all here. Fini frees what init and the counting allocated. */
bool wr_tally_init(struct wr_tally *tally, struct weir *w);
void wr_tally_fini(struct wr_tally *tally);

void wr_tally_bad(struct wr_tally *tally, const struct wr_bad_line *bad, const char *line,
                  size_t len);

/* Count |item|, decided as |answer| at |now|; |answer| NULL: not counted by the policy. */
bool wr_tally_add(struct wr_tally *tally, const struct wr_item *item,
                  const struct weir_answer *answer, const struct wr_verdict_extra *extra);

size_t wr_tally_clients(const struct wr_tally *tally);

/* The clients that |limit| refused or delayed most: at most |n|, into |out|. Returns how many. */
size_t wr_tally_top(const struct wr_tally *tally, unsigned limit, size_t n,
                    const struct wr_touch **out);

#endif
