/* series.h - every time series of /metrics. docs/metrics.md has them in words. */
#ifndef WR_DOORS_SERIES_H
#define WR_DOORS_SERIES_H

#include "doors/process.h"
#include "engine/backend.h"
#include "meter/keeper.h"
#include "serve/totals.h"
#include "store/arena.h"
#include "wire/exposition.h"

#define WR_SERIES_RULES_MAX                                               \
    2000 /* rules of envoy_ratelimit told apart; more are one, "(others)" \
          */

/* What a scrape tells. */
struct wr_scrape {
    const char *version;
    const char *store; /* its kind, or "none" */
    struct wr_counted counted;
    uint64_t arena[WR_ARENA_COUNTERS];
    uint64_t arena_slots;
    uint64_t reservations, reservations_most;
    struct wr_occupancy occupancy;
    uint64_t generation, reloads_good, reloads_refused;
    bool ready;
    struct wr_process_use process;
    struct wr_backend_peer peers[WR_BACKEND_PEERS_MAX]; /* of a ring */
    size_t peer_count;
    struct wr_keeper_state ledger; /* zeros: the policy has no customers */
    bool has_ledger;
    struct wr_webhook_state webhook; /* likewise */
    struct wr_alert_count alerts[WR_ALERT_COUNTS_MAX];
    size_t alert_count;
    int64_t wall_ns;  /* now */
    int64_t ahead_ns; /* how far that is ahead of the clock of decisions */
};

/* series_alerts.c */
void wr_series_alerts(struct wr_exposition *to, const struct wr_scrape *scrape);
void wr_series_deliveries(struct wr_exposition *to, const struct wr_scrape *scrape);
void wr_series_given_up(struct wr_exposition *to, const struct wr_scrape *scrape);

void wr_series_write(struct wr_exposition *to, const struct wr_scrape *scrape);

#endif
