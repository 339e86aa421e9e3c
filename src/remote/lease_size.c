/* lease_size.c - see lease_size.h.
 *
 * Problem. A lease that is too small costs a round trip every few requests; one that is too large
 * lies unspent here while another node refuses, or dies with us.
 *
 * Idea. Whoever has spent its lease comes back, so the time between two questions says how fast the
 * units of the first went:
 *
 *     gap < ttl     they lasted for gap: units * span / gap would have lasted for span; at most
 *                   twice as many as before, as one short gap proves little
 *     gap >= ttl    they lasted until they were void: half as many, and half again for every ttl
 *                   of silence
 *     cold          not seen lately: none, and a second question within WR_LEASE_SPAN_NS begins
 *
 * span is WR_LEASE_SPAN_NS, or half a ttl where that is shorter: a lease that is meant to last as
 * long as it may would be void before it is spent half of the time.
 *
 * Invariants:
 *   1. extra <= capacity / (8 nodes): what lies unspent at all nodes (of one loop each) is at most
 *      an eighth of a limit, or two of them where a window turns. Of a calendar's window a 64th:
 * what a node that dies takes with it is missing for a day, or a month.
 *   2. Nothing here can admit: the store grants what there is, and extra only asks.
 *   3. A lease that is void nearly at once, as the last ones of a window are, is not asked for
 * again before the window has turned: each would lie unspent.
 *   4. A row that is in use (its key has asked within two spans) is not taken over: of two hot keys
 *      that fall on one, the first keeps its leases and the other stays strict.
 *
 * Rejected: counting requests as they pass (a shared write for each decision from a lease, where
 * there is none now); a moving average (doubling and halving reach any rate in ten questions). */
#include "remote/lease_size.h"

#include "algo/lease.h"
#include "algo/period.h"

#define HALVINGS_MAX 62

static struct wr_lease_row *row_of(struct wr_lease_table *table, uint64_t key)
{
    return &table->row[key % WR_LEASE_ROWS];
}

/* How long a lease is meant to last. Of a quota, not beyond its window, as far as our clock knows.
 */
static int64_t span_ns(const struct wr_lease_want *want, int64_t ttl_ns)
{
    int64_t lasts_ns = ttl_ns;

    if (want->limit->calendar != WR_CALENDAR_NONE)
        lasts_ns = wr_min_i64(lasts_ns,
                              wr_limit_period_at(want->limit, want->now_ns).end_ns - want->now_ns);
    return wr_min_i64(WR_LEASE_SPAN_NS, lasts_ns / 2);
}

/* What |row|, asked for |gap_ns| ago, is to ask for now. */
static int64_t next_extra(const struct wr_lease_row *row, const struct wr_lease_want *want,
                          int64_t ttl_ns)
{
    int64_t gap_ns = want->now_ns - row->asked_ns;
    uint64_t had = (uint64_t)(row->cost + row->granted), lasting;

    if (row->extra == 0 && gap_ns > WR_LEASE_SPAN_NS)
        return 0;
    if (row->extra > 0 && gap_ns >= ttl_ns)
        return row->extra >> wr_min_i64(gap_ns / ttl_ns, HALVINGS_MAX);
    lasting =
        wr_muldiv_floor(had, (uint64_t)span_ns(want, ttl_ns), (uint64_t)wr_max_i64(gap_ns, 1));
    return (int64_t)wr_min_u64(lasting, 2 * had);
}

static int64_t most(const struct wr_lease_want *want)
{
    return wr_min_i64(wr_leasing_most(want->limit, want->nodes), WR_LEASE_UNITS_MAX);
}

void wr_lease_size(struct wr_lease_table *table, const struct wr_lease_want *want, int64_t *extra,
                   int64_t *ttl_ns)
{
    struct wr_lease_row *row = row_of(table, want->key);
    int64_t gap_ns = want->now_ns - row->asked_ns;

    *extra = 0;
    *ttl_ns = wr_lease_ttl_ns(want->limit);
    if (*ttl_ns == 0 || want->cost <= 0 || most(want) == 0)
        return;
    if (row->key == want->key && row->brief && gap_ns >= 0 && gap_ns < WR_LEASE_TTL_MIN_NS)
        return;
    if (row->key == want->key && gap_ns >= 0)
        *extra = wr_min_i64(next_extra(row, want, *ttl_ns), most(want));
    else if (row->key != 0 && gap_ns >= 0 && gap_ns < 2 * WR_LEASE_SPAN_NS)
        return;
    *row = (struct wr_lease_row){.key = want->key,
                                 .asked_ns = want->now_ns,
                                 .cost = wr_min_i64(want->cost, WR_LEASE_UNITS_MAX),
                                 .extra = *extra,
                                 .granted = *extra};
}

void wr_lease_answered(struct wr_lease_table *table, uint64_t key, int64_t granted,
                       int64_t lease_ns)
{
    struct wr_lease_row *row = row_of(table, key);

    if (row->key != key)
        return;
    row->granted = wr_max_i64(0, wr_min_i64(granted, row->extra));
    row->brief = granted > 0 && lease_ns < WR_LEASE_TTL_MIN_NS;
}
