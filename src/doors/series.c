/* series.c - every time series of /metrics, one row each.
 *
 * Names and labels are a promise to dashboards and alerts: a row may be added; to change one is to
 * break somebody's alert in silence. Labels are limit, outcome and door, whose values are few and
 * the policy's or ours; nothing that a caller can choose is one. Every series is there from the
 * start, as 0: a rate over a counter that appears with its first event misses that event. */
#include "doors/series.h"

typedef void write_fn(struct wr_exposition *to, const struct wr_scrape *scrape);

/* By enum wr_door_id. */
static const char *const doors[WR_DOORS] = {[WR_DOOR_HTTP] = "http",
                                            [WR_DOOR_GRPC] = "grpc",
                                            [WR_DOOR_RESP] = "resp",
                                            [WR_DOOR_AGENT] = "agent",
                                            [WR_DOOR_ADMIN] = "admin"};

/* ---- decisions ------------------------------------------------------------------------------ */

static void decisions(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    static const char *const outcomes[WR_LIMIT_OUTCOMES] = {[WR_LIMIT_ALLOWED] = "allowed",
                                                            [WR_LIMIT_DENIED] = "denied",
                                                            [WR_LIMIT_DELAYED] = "delayed",
                                                            [WR_LIMIT_SHADOW_DENIED] =
                                                                "shadow_denied"};

    for (size_t i = 0; i < scrape->counted.limit_count; i++) {
        const struct wr_total *total = &scrape->counted.limits[i];
        for (unsigned c = 0; c < WR_LIMIT_OUTCOMES; c++) {
            const struct wr_metric_labels labels =
                wr_labels("limit", total->name, "outcome", outcomes[c]);
            wr_exposition_sample(to, &labels, total->count.by_limit[c]);
        }
    }
}

static void requests(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    static const char *const outcomes[4] = {[WEIR_ALLOW] = "allowed",
                                            [WEIR_DELAY] = "delayed",
                                            [WEIR_DENY] = "denied",
                                            [WEIR_SHADOW] = "shadow_denied"};

    for (unsigned i = 0; i < 4; i++) {
        const struct wr_metric_labels labels = wr_label("outcome", outcomes[i]);
        wr_exposition_sample(to, &labels, scrape->counted.outcome[i]);
    }
}

/* One statistic of each rule; those above the bound as one. */
static void rules(struct wr_exposition *to, const struct wr_scrape *scrape, enum wr_envoy_stat stat)
{
    size_t count = scrape->counted.rule_count;
    struct wr_metric_labels labels;
    uint64_t others = 0;

    for (size_t i = 0; i < count; i++) {
        const struct wr_total *total = &scrape->counted.rules[i];
        labels = wr_label("limit", total->name);
        if (i < WR_SERIES_RULES_MAX)
            wr_exposition_sample(to, &labels, total->count.by_rule[stat]);
        else
            others += total->count.by_rule[stat];
    }
    labels = wr_label("limit", "(others)");
    if (count > WR_SERIES_RULES_MAX)
        wr_exposition_sample(to, &labels, others);
}

#define RULES(name, stat)                                                      \
    static void name(struct wr_exposition *to, const struct wr_scrape *scrape) \
    {                                                                          \
        rules(to, scrape, stat);                                               \
    }
RULES(rule_total, WR_ENVOY_TOTAL)
RULES(rule_within, WR_ENVOY_WITHIN)
RULES(rule_near, WR_ENVOY_NEAR)
RULES(rule_over, WR_ENVOY_OVER)
RULES(rule_shadow, WR_ENVOY_SHADOW)
RULES(rule_negative, WR_ENVOY_RETURNED)

/* ---- doors ---------------------------------------------------------------------------------- */

static void latency(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    int64_t bounds[WR_LATENCY_BUCKETS];

    for (unsigned i = 0; i < WR_LATENCY_BUCKETS; i++)
        bounds[i] = wr_metrics_latency_bound(i);
    for (unsigned d = 0; d < WR_DOORS; d++) {
        const struct wr_door_metrics *door = &scrape->counted.door[d];
        const struct wr_metric_label label = {"door", doors[d]};
        const struct wr_histogram histogram = {bounds, door->latency, WR_LATENCY_BUCKETS,
                                               door->latency_sum_ns};
        wr_exposition_histogram(to, &label, &histogram);
    }
}

#define DOORS(name, expression)                                                \
    static void name(struct wr_exposition *to, const struct wr_scrape *scrape) \
    {                                                                          \
        for (unsigned d = 0; d < WR_DOORS; d++) {                              \
            const struct wr_door_metrics *door = &scrape->counted.door[d];     \
            const struct wr_metric_labels labels = wr_label("door", doors[d]); \
            wr_exposition_sample(to, &labels, expression);                     \
        }                                                                      \
    }
DOORS(bad_requests, door->bad_requests)
DOORS(opened, door->connections_opened)
DOORS(open_now, door->connections_opened - door->connections_closed)
DOORS(deadline_closed, door->deadline_closed)

/* ---- the store ------------------------------------------------------------------------------ */

/* By enum wr_remote_trouble. */
static const char *const troubles[WR_TROUBLES] = {
    [WR_TROUBLE_CONNECT] = "connect", [WR_TROUBLE_TIMEOUT] = "timeout",
    [WR_TROUBLE_BREAKER] = "breaker", [WR_TROUBLE_BUSY] = "busy",
    [WR_TROUBLE_DENIED] = "denied",   [WR_TROUBLE_PROTOCOL] = "protocol"};

static void degraded(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    static const char *const how[] = {"open", "closed", "local"};

    for (size_t i = 0; i < scrape->counted.limit_count; i++) {
        const struct wr_total *total = &scrape->counted.limits[i];
        for (unsigned c = 0; total->shared && c < 3; c++) {
            const struct wr_metric_labels labels = wr_labels("limit", total->name, "how", how[c]);
            wr_exposition_sample(to, &labels, total->count.by_limit[WR_LIMIT_GONE_OPEN + c]);
        }
    }
}

static void store_gone(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    for (unsigned i = WR_TROUBLE_CONNECT; i < WR_TROUBLES; i++) {
        const struct wr_metric_labels labels = wr_label("reason", troubles[i]);
        wr_exposition_sample(to, &labels, scrape->counted.store.gone[i]);
    }
}

static void store_latency(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    const struct wr_store_metrics *store = &scrape->counted.store;
    int64_t bounds[WR_LATENCY_BUCKETS];
    const struct wr_histogram histogram = {bounds, store->latency, WR_LATENCY_BUCKETS,
                                           store->latency_sum_ns};
    const struct wr_metric_label label = {"store", scrape->store};

    for (unsigned i = 0; i < WR_LATENCY_BUCKETS; i++)
        bounds[i] = wr_metrics_latency_bound(i);
    wr_exposition_histogram(to, &label, &histogram);
}

static void lease_units(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    const struct wr_store_metrics *store = &scrape->counted.store;
    const struct {
        const char *what;
        uint64_t units;
    } rows[] = {{"granted", store->lease_granted},
                {"spent", store->lease_spent},
                {"returned", store->lease_returned}};

    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct wr_metric_labels labels = wr_label("what", rows[i].what);
        wr_exposition_sample(to, &labels, rows[i].units);
    }
}

#define PEERS(function, value)                                                              \
    static void function(struct wr_exposition *to, const struct wr_scrape *scrape)          \
    {                                                                                       \
        for (size_t i = 0; i < scrape->peer_count; i++) {                                   \
            const struct wr_metric_labels labels = wr_label("peer", scrape->peers[i].name); \
            wr_exposition_sample(to, &labels, scrape->peers[i].value);                      \
        }                                                                                   \
    }
PEERS(ring_up, up)
PEERS(ring_forwarded, forwarded)
PEERS(ring_answered, answered)
PEERS(ring_late, late)
PEERS(ring_handed_over, handed_over)

/* ---- the rest ------------------------------------------------------------------------------- */

static void reloads(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    const struct wr_metric_labels good = wr_label("outcome", "applied");
    const struct wr_metric_labels refused = wr_label("outcome", "refused");

    wr_exposition_sample(to, &good, scrape->reloads_good);
    wr_exposition_sample(to, &refused, scrape->reloads_refused);
}

static void occupancy(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    const struct wr_occupancy *seen = &scrape->occupancy;

    wr_exposition_decimal(to, NULL, seen->looked > 0 ? seen->live * 10000 / seen->looked : 0, 4);
}

static void build_info(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    const struct wr_metric_labels labels = wr_label("version", scrape->version);

    wr_exposition_sample(to, &labels, 1);
}

#define VALUE(name, expression)                                                \
    static void name(struct wr_exposition *to, const struct wr_scrape *scrape) \
    {                                                                          \
        wr_exposition_sample(to, NULL, expression);                            \
    }
VALUE(evicted, scrape->arena[WR_EVICTED_LIVE])
VALUE(unstored, scrape->arena[WR_UNSTORED])
VALUE(quarantined, scrape->arena[WR_QUARANTINED])
VALUE(stolen_locks, scrape->arena[WR_STOLEN_LOCKS])
VALUE(busy_lists, scrape->arena[WR_BUSY_LISTS])
VALUE(no_nodes, scrape->arena[WR_NO_NODES])
VALUE(slots, scrape->arena_slots)
VALUE(reservations, scrape->reservations)
VALUE(reservations_most, scrape->reservations_most)
VALUE(unlogged, scrape->counted.refused_unlogged)
VALUE(store_up, scrape->counted.store.configured > 0 &&
                    scrape->counted.store.up == scrape->counted.store.configured)
VALUE(store_nodes, scrape->counted.store.nodes)
VALUE(store_calls, scrape->counted.store.calls)
VALUE(store_commands, scrape->counted.store.commands)
VALUE(generation, scrape->generation)
VALUE(ready, scrape->ready ? 1 : 0)
VALUE(virtual_memory, scrape->process.virtual_bytes)
VALUE(resident_memory, scrape->process.resident_bytes)
VALUE(open_fds, scrape->process.open_fds)
VALUE(max_fds, scrape->process.max_fds)

VALUE(customers, scrape->ledger.customers)
VALUE(customer_keys, scrape->ledger.keys)
VALUE(left_out, scrape->ledger.left_out)
VALUE(upgrades, scrape->ledger.upgrades)
VALUE(trials, scrape->ledger.trials)
VALUE(events_waiting, scrape->webhook.waiting)
VALUE(events_dead, scrape->webhook.dead)
VALUE(ledger_up, scrape->has_ledger && scrape->ledger.disk == WR_DISK_WELL)
VALUE(ledger_writer, scrape->ledger.writer)
VALUE(ledger_batches, scrape->ledger.batches)
VALUE(ledger_rows, scrape->ledger.rows)
VALUE(ledger_expired, scrape->ledger.expired)
VALUE(ledger_failures, scrape->ledger.failures)
VALUE(ledger_waiting, scrape->ledger.waiting)
VALUE(ledger_lost, scrape->ledger.lost)
VALUE(ledger_damaged, scrape->ledger.damaged)
VALUE(ledger_astray, scrape->ledger.astray)

static void ledger_trouble(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    for (unsigned i = WR_DISK_WELL + 1; i < WR_DISKS; i++) {
        const struct wr_metric_labels labels = wr_label("disk", wr_disk_name((enum wr_disk)i));
        wr_exposition_sample(to, &labels, scrape->ledger.disk == (enum wr_disk)i);
    }
}

/* 0 as well where it never was: another process writes it, or there is none. */
static void ledger_age(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    int64_t age_ns = scrape->wall_ns - scrape->ledger.flushed_ns;

    wr_exposition_seconds(to, NULL,
                          scrape->ledger.flushed_ns > 0 && age_ns > 0 ? (uint64_t)age_ns : 0);
}

static void clocks(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    const struct wr_metric_labels decisions = wr_label("clock", "decisions"),
                                  machine = wr_label("clock", "machine");
    int64_t ahead_ns = scrape->ahead_ns;

    wr_exposition_seconds(to, &decisions, ahead_ns > 0 ? (uint64_t)ahead_ns : 0);
    wr_exposition_seconds(to, &machine, ahead_ns < 0 ? -(uint64_t)ahead_ns : 0);
}

static void cpu(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    wr_exposition_seconds(to, NULL, scrape->process.cpu_ns);
}

static void start(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    wr_exposition_seconds(to, NULL, scrape->process.start_unix_ns);
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct series {
    struct wr_metric metric;
    write_fn *write;
} all[] = {
    {{"weir_requests", WR_COUNTER,
      "Requests decided through a door of this daemon, by what became of the whole."},
     requests},
    {{"weir_decisions", WR_COUNTER,
      "What each limit of the policy said of the requests that met it. Kept by name over reloads."},
     decisions},
    {{"weir_door_request_duration_seconds", WR_HISTOGRAM,
      "Time from a request's last byte to its answer, without delays asked for by a limit."},
     latency},
    {{"weir_door_bad_requests", WR_COUNTER,
      "Requests refused as input: malformed, unauthorised, or of no known path or command."},
     bad_requests},
    {{"weir_door_connections", WR_GAUGE, "Connections open now."}, open_now},
    {{"weir_door_connections_opened", WR_COUNTER, "Connections accepted."}, opened},
    {{"weir_door_deadline_closed", WR_COUNTER,
      "Connections closed because the other side was too slow or silent for too long."},
     deadline_closed},
    {{"weir_arena_evicted_live", WR_COUNTER,
      "Keys evicted from the arena that were still in use: it is too small. By all processes."},
     evicted},
    {{"weir_arena_unstored", WR_COUNTER,
      "New keys decided without being stored, the arena being full. By all processes."},
     unstored},
    {{"weir_arena_quarantined_slots", WR_COUNTER,
      "Slots of the arena found damaged and emptied. By all processes."},
     quarantined},
    {{"weir_arena_stolen_locks", WR_COUNTER,
      "Locks of lists taken over from dead processes. By all processes."},
     stolen_locks},
    {{"weir_arena_busy_lists", WR_COUNTER,
      "Decisions refused because a stopped process held the key's list. By all processes."},
     busy_lists},
    {{"weir_arena_no_nodes", WR_COUNTER,
      "Decisions refused because the arena had no room left for lists. By all processes."},
     no_nodes},
    {{"weir_arena_slots", WR_GAUGE, "Slots of the arena, one a key and limit."}, slots},
    {{"weir_arena_occupancy_ratio", WR_GAUGE,
      "Fraction of the arena's slots in use, estimated from a sample of 8192 that moves from "
      "scrape "
      "to scrape; exact where there are no more."},
     occupancy},
    {{"weir_envoy_hits", WR_COUNTER, "Hits on a rule of envoy_ratelimit (total_hits)."},
     rule_total},
    {{"weir_envoy_within_limit", WR_COUNTER,
      "Hits within the limit of a rule of envoy_ratelimit (within_limit)."},
     rule_within},
    {{"weir_envoy_near_limit", WR_COUNTER,
      "Hits above four fifths of the limit of a rule of envoy_ratelimit (near_limit)."},
     rule_near},
    {{"weir_envoy_over_limit", WR_COUNTER,
      "Hits over the limit of a rule of envoy_ratelimit (over_limit)."},
     rule_over},
    {{"weir_envoy_shadow_mode", WR_COUNTER,
      "Hits over the limit of a rule of envoy_ratelimit that were let through (shadow_mode)."},
     rule_shadow},
    {{"weir_envoy_negative_hits", WR_COUNTER,
      "Hits given back to a rule of envoy_ratelimit (total_negative_hits)."},
     rule_negative},
    {{"weir_degraded_decisions", WR_COUNTER,
      "Decisions on shared limits made without their store, by what the limit then does."},
     degraded},
    {{"weir_store_up", WR_GAUGE,
      "1 as long as every loop reaches the store of shared limits; 0 too where there is none."},
     store_up},
    {{"weir_store_nodes", WR_GAUGE, "Daemons that share the store, as last known."}, store_nodes},
    {{"weir_store_calls", WR_COUNTER, "Decisions that the store was asked for."}, store_calls},
    {{"weir_store_commands", WR_COUNTER, "Commands sent to the store for decisions."},
     store_commands},
    {{"weir_store_gone", WR_COUNTER,
      "Decisions that had to be made without the store, by what kept it from answering."},
     store_gone},
    {{"weir_store_call_duration_seconds", WR_HISTOGRAM,
      "Time from asking the store to its answer, of those that came in time."},
     store_latency},
    {{"weir_lease_units", WR_COUNTER,
      "Units of shared limits that were leased to this node: granted, spent by this daemon, "
      "returned unspent."},
     lease_units},
    {{"weir_ring_peer_up", WR_GAUGE,
      "1 as long as every loop reaches this node of the ring, and it answers."},
     ring_up},
    {{"weir_ring_forwarded", WR_COUNTER,
      "Commands sent to a node of the ring for keys that it owns."},
     ring_forwarded},
    {{"weir_ring_answered", WR_COUNTER, "Of those sent to it, answered within the deadline."},
     ring_answered},
    {{"weir_ring_late", WR_COUNTER,
      "Of those sent to it, answered after the deadline; what that took is given back."},
     ring_late},
    {{"weir_ring_handed_over", WR_COUNTER,
      "Keys that this node counted and has handed over to that one."},
     ring_handed_over},
    {{"weir_customers", WR_GAUGE, "Customers that are known, as last counted."}, customers},
    {{"weir_customer_keys", WR_GAUGE, "Keys that lead to a customer."}, customer_keys},
    {{"weir_customers_left_out", WR_GAUGE,
      "Changes of customers that customers.map has no room for, and customers without a cell."},
     left_out},
    {{"weir_customer_upgrades", WR_COUNTER, "Customers that a quota has moved to the next plan."},
     upgrades},
    {{"weir_customer_trials_ended", WR_COUNTER, "Trials that have ended."}, trials},
    {{"weir_alerts", WR_COUNTER, "Thresholds of quotas that were reached and told, of alert_at."},
     wr_series_alerts},
    {{"weir_webhook_tries", WR_COUNTER, "Events posted, by whether they were taken."},
     wr_series_deliveries},
    {{"weir_webhook_given_up", WR_COUNTER, "Events given up after customers.webhook.give_up."},
     wr_series_given_up},
    {{"weir_webhook_waiting_events", WR_GAUGE, "Events that are to be posted."}, events_waiting},
    {{"weir_webhook_dead_events", WR_GAUGE, "Events that were given up: see weir alerts."},
     events_dead},
    {{"weir_ledger_up", WR_GAUGE,
      "1 as long as nothing keeps the ledger from being written; 0 too where there is none."},
     ledger_up},
    {{"weir_ledger_writer", WR_GAUGE,
      "1 for the process of a host that keeps customers and ledger."},
     ledger_writer},
    {{"weir_ledger_trouble", WR_GAUGE, "1 for what keeps the ledger from being written."},
     ledger_trouble},
    {{"weir_ledger_batches", WR_COUNTER, "Batches written to the ledger."}, ledger_batches},
    {{"weir_ledger_rows", WR_COUNTER, "Rows written in them."}, ledger_rows},
    {{"weir_ledger_expired_windows", WR_COUNTER, "Windows deleted as older than customers.keep."},
     ledger_expired},
    {{"weir_ledger_failures", WR_COUNTER, "Attempts to write it that failed."}, ledger_failures},
    {{"weir_ledger_waiting_cells", WR_GAUGE,
      "While it cannot be written: counts that differ from it."},
     ledger_waiting},
    {{"weir_ledger_age_seconds", WR_GAUGE, "Since all that was counted was last written."},
     ledger_age},
    {{"weir_ledger_lost_units", WR_COUNTER,
      "Units of windows that ended before they could be written."},
     ledger_lost},
    {{"weir_ledger_damaged_cells", WR_GAUGE,
      "Counts of windows that cannot be: files of usage are damaged, or a clock was wrong."},
     ledger_damaged},
    {{"weir_ledger_stray_files", WR_GAUGE,
      "Files of usage, or customers.map, that were taken away while they are counted in."},
     ledger_astray},
    {{"weir_reservations_open", WR_GAUGE,
      "Reservations remembered, to be settled or released; expired ones until they are swept."},
     reservations},
    {{"weir_reservations_max", WR_GAUGE,
      "Reservations that can be remembered; a quarter of them by one peer."},
     reservations_most},
    {{"weir_log_refusals_suppressed", WR_COUNTER,
      "Refused requests above what the log may have in a second, told as a number only."},
     unlogged},
    {{"weir_policy_generation", WR_GAUGE,
      "1 for the policy the daemon started with, one more for each reload that was applied."},
     generation},
    {{"weir_policy_reloads", WR_COUNTER, "Reloads of the policy, by how they went."}, reloads},
    {{"weir_clock_behind_seconds", WR_GAUGE,
      "By how much the clock of decisions, or of the machine, is behind the other."},
     clocks},
    {{"weir_ready", WR_GAUGE, "1 as long as /readyz says so."}, ready},
    {{"weir_build_info", WR_GAUGE, "1, with the version that runs."}, build_info},
    {{"process_cpu_seconds", WR_COUNTER, "User and system CPU time spent in seconds."}, cpu},
    {{"process_resident_memory_bytes", WR_GAUGE, "Resident memory size in bytes."},
     resident_memory},
    {{"process_virtual_memory_bytes", WR_GAUGE, "Virtual memory size in bytes."}, virtual_memory},
    {{"process_open_fds", WR_GAUGE, "Number of open file descriptors."}, open_fds},
    {{"process_max_fds", WR_GAUGE, "Maximum number of open file descriptors."}, max_fds},
    {{"process_start_time_seconds", WR_GAUGE,
      "Start time of the process since unix epoch in seconds."},
     start},
};

void wr_series_write(struct wr_exposition *to, const struct wr_scrape *scrape)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        wr_exposition_family(to, &all[i].metric);
        all[i].write(to, scrape);
    }
    wr_exposition_end(to);
}
