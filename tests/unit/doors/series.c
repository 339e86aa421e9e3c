/* series.c - what /metrics says of a scrape made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doors/series.h"

static struct wr_exposition page;

/* |scrape| as text, terminated. */
static const char *text_of(const struct wr_scrape *scrape)
{
    wr_exposition_begin(&page, WR_TEXT_0_0_4);
    wr_series_write(&page, scrape);
    assert_false(page.failed);
    assert_true(page.len < page.room);
    page.text[page.len] = '\0';
    return page.text;
}

/* Is |line| a whole line of |text|? */
static void has_line(const char *text, const char *line)
{
    char whole[512];

    (void)snprintf(whole, sizeof whole, "\n%s\n", line);
    if (strstr(text, whole) == NULL)
        fail_msg("no line %s in %s", line, text);
}

static int tear_down(void **unused)
{
    (void)unused;
    wr_exposition_free(&page);
    return 0;
}

static void test_each_value_in_its_place(void **state)
{
    static const struct wr_total limits[] = {
        {.name = "a", .count.by_limit = {1, 2, 3, 4}},
        {.name = "b", .shared = true, .count.by_limit = {5, 6, 7, 8, 9, 10, 11}}};
    static const struct wr_total rules[] = {
        {.name = "shop.x", .count.by_rule = {1, 2, 3, 4, 5, 6}}};
    struct wr_scrape s = {.version = "9.9",
                          .store = "redis",
                          .arena = {10, 11, 12, 13, 14, 15},
                          .arena_slots = 65536,
                          .occupancy = {8192, 2048},
                          .generation = 3,
                          .reloads_good = 2,
                          .reloads_refused = 7,
                          .ready = true,
                          .process = {1500000000, 20, 21, 22, 23, UINT64_C(1700000000250000000)}};
    const char *text;
    (void)state;

    s.peer_count = 2;
    s.peers[0] = (struct wr_backend_peer){"10.0.0.2:7946", true, 80, 81, 82, 83};
    s.peers[1] = (struct wr_backend_peer){"[::1]:1", false, 0, 0, 0, 84};
    s.counted.outcome[WEIR_ALLOW] = 30;
    s.counted.outcome[WEIR_DELAY] = 31;
    s.counted.outcome[WEIR_DENY] = 32;
    s.counted.outcome[WEIR_SHADOW] = 33;
    s.counted.refused_unlogged = 34;
    s.reservations = 41;
    s.reservations_most = 42;
    s.counted.limits = limits;
    s.counted.limit_count = 2;
    s.counted.rules = rules;
    s.counted.rule_count = 1;
    s.counted.door[WR_DOOR_RESP] = (struct wr_door_metrics){.bad_requests = 40,
                                                            .connections_opened = 50,
                                                            .connections_closed = 8,
                                                            .deadline_closed = 41,
                                                            .latency = {[0] = 5, [12] = 1},
                                                            .latency_sum_ns = 2500000000};
    s.counted.store = (struct wr_store_metrics){.configured = 2,
                                                .up = 2,
                                                .nodes = 3,
                                                .calls = 60,
                                                .commands = 61,
                                                .gone = {0, 62, 63, 64, 65, 66, 67},
                                                .latency = {[1] = 7},
                                                .latency_sum_ns = 500000000,
                                                .lease_granted = 70,
                                                .lease_spent = 71,
                                                .lease_returned = 72};
    text = text_of(&s);
    has_line(text, "weir_requests_total{outcome=\"allowed\"} 30");
    has_line(text, "weir_requests_total{outcome=\"delayed\"} 31");
    has_line(text, "weir_requests_total{outcome=\"denied\"} 32");
    has_line(text, "weir_requests_total{outcome=\"shadow_denied\"} 33");
    has_line(text, "weir_decisions_total{limit=\"a\",outcome=\"allowed\"} 1");
    has_line(text, "weir_decisions_total{limit=\"a\",outcome=\"denied\"} 2");
    has_line(text, "weir_decisions_total{limit=\"a\",outcome=\"delayed\"} 3");
    has_line(text, "weir_decisions_total{limit=\"a\",outcome=\"shadow_denied\"} 4");
    has_line(text, "weir_door_bad_requests_total{door=\"resp\"} 40");
    has_line(text, "weir_door_bad_requests_total{door=\"admin\"} 0");
    has_line(text, "weir_door_connections{door=\"resp\"} 42");
    has_line(text, "weir_door_connections_opened_total{door=\"resp\"} 50");
    has_line(text, "weir_door_deadline_closed_total{door=\"resp\"} 41");
    has_line(text, "weir_door_request_duration_seconds_bucket{door=\"resp\",le=\"1e-05\"} 5");
    has_line(text, "weir_door_request_duration_seconds_bucket{door=\"resp\",le=\"1.0\"} 5");
    has_line(text, "weir_door_request_duration_seconds_bucket{door=\"resp\",le=\"+Inf\"} 6");
    has_line(text, "weir_door_request_duration_seconds_sum{door=\"resp\"} 2.5");
    has_line(text, "weir_door_request_duration_seconds_count{door=\"resp\"} 6");
    has_line(text, "weir_arena_evicted_live_total 10");
    has_line(text, "weir_arena_unstored_total 11");
    has_line(text, "weir_arena_quarantined_slots_total 12");
    has_line(text, "weir_arena_stolen_locks_total 13");
    has_line(text, "weir_arena_busy_lists_total 14");
    has_line(text, "weir_arena_no_nodes_total 15");
    has_line(text, "weir_arena_slots 65536");
    has_line(text, "weir_arena_occupancy_ratio 0.25");
    has_line(text, "weir_envoy_hits_total{limit=\"shop.x\"} 1");
    has_line(text, "weir_envoy_within_limit_total{limit=\"shop.x\"} 2");
    has_line(text, "weir_envoy_near_limit_total{limit=\"shop.x\"} 3");
    has_line(text, "weir_envoy_over_limit_total{limit=\"shop.x\"} 4");
    has_line(text, "weir_envoy_shadow_mode_total{limit=\"shop.x\"} 5");
    has_line(text, "weir_envoy_negative_hits_total{limit=\"shop.x\"} 6");
    has_line(text, "weir_degraded_decisions_total{limit=\"b\",how=\"open\"} 9");
    has_line(text, "weir_degraded_decisions_total{limit=\"b\",how=\"closed\"} 10");
    has_line(text, "weir_degraded_decisions_total{limit=\"b\",how=\"local\"} 11");
    assert_null(strstr(text, "degraded_decisions_total{limit=\"a\"")); /* is not shared */
    has_line(text, "weir_store_up 1");
    has_line(text, "weir_store_nodes 3");
    has_line(text, "weir_store_calls_total 60");
    has_line(text, "weir_store_commands_total 61");
    has_line(text, "weir_store_gone_total{reason=\"connect\"} 62");
    has_line(text, "weir_store_gone_total{reason=\"timeout\"} 63");
    has_line(text, "weir_store_gone_total{reason=\"breaker\"} 64");
    has_line(text, "weir_store_gone_total{reason=\"busy\"} 65");
    has_line(text, "weir_store_gone_total{reason=\"denied\"} 66");
    has_line(text, "weir_store_gone_total{reason=\"protocol\"} 67");
    has_line(text, "weir_store_call_duration_seconds_bucket{store=\"redis\",le=\"1e-05\"} 0");
    has_line(text, "weir_store_call_duration_seconds_bucket{store=\"redis\",le=\"2.5e-05\"} 7");
    has_line(text, "weir_store_call_duration_seconds_sum{store=\"redis\"} 0.5");
    has_line(text, "weir_lease_units_total{what=\"granted\"} 70");
    has_line(text, "weir_lease_units_total{what=\"spent\"} 71");
    has_line(text, "weir_lease_units_total{what=\"returned\"} 72");
    has_line(text, "weir_ring_peer_up{peer=\"10.0.0.2:7946\"} 1");
    has_line(text, "weir_ring_forwarded_total{peer=\"10.0.0.2:7946\"} 80");
    has_line(text, "weir_ring_answered_total{peer=\"10.0.0.2:7946\"} 81");
    has_line(text, "weir_ring_late_total{peer=\"10.0.0.2:7946\"} 82");
    has_line(text, "weir_ring_handed_over_total{peer=\"10.0.0.2:7946\"} 83");
    has_line(text, "weir_ring_peer_up{peer=\"[::1]:1\"} 0");
    has_line(text, "weir_ring_handed_over_total{peer=\"[::1]:1\"} 84");
    has_line(text, "weir_log_refusals_suppressed_total 34");
    has_line(text, "weir_reservations_open 41");
    has_line(text, "weir_reservations_max 42");
    has_line(text, "weir_policy_generation 3");
    has_line(text, "weir_policy_reloads_total{outcome=\"applied\"} 2");
    has_line(text, "weir_policy_reloads_total{outcome=\"refused\"} 7");
    has_line(text, "weir_ready 1");
    has_line(text, "weir_build_info{version=\"9.9\"} 1");
    has_line(text, "process_cpu_seconds_total 1.5");
    has_line(text, "process_virtual_memory_bytes 20");
    has_line(text, "process_resident_memory_bytes 21");
    has_line(text, "process_open_fds 22");
    has_line(text, "process_max_fds 23");
    has_line(text, "process_start_time_seconds 1700000000.25");
}

static void test_many_rules_are_bounded(void **state)
{
    size_t count = WR_SERIES_RULES_MAX + 3;
    struct wr_total *rules = calloc(count, sizeof *rules);
    struct wr_scrape s = {.version = "1", .store = "none"};
    const char *text;
    (void)state;

    assert_non_null(rules);
    for (size_t i = 0; i < count; i++) {
        rules[i].name = i < WR_SERIES_RULES_MAX ? "told" : "beyond";
        rules[i].count.by_rule[WR_ENVOY_OVER] = 5;
    }
    s.counted.rules = rules;
    s.counted.rule_count = count;
    text = text_of(&s);
    has_line(text, "weir_envoy_over_limit_total{limit=\"(others)\"} 15");
    assert_null(strstr(text, "beyond"));
    s.counted.rule_count = WR_SERIES_RULES_MAX;
    assert_null(strstr(text_of(&s), "(others)"));
    free(rules);
}

static void test_the_process(void **state)
{
    struct wr_process_use first, second;
    FILE *file;
    (void)state;

    wr_process_look(&first);
    file = fopen("/dev/null", "re");
    assert_non_null(file);
    wr_process_look(&second);
    assert_int_equal(second.open_fds, first.open_fds + 1);
    assert_true(first.open_fds >= 3);
    assert_true(first.max_fds >= first.open_fds);
    assert_true(first.resident_bytes > 100000);
    assert_true(first.virtual_bytes >= first.resident_bytes);
    assert_true(second.cpu_ns >= first.cpu_ns);
    assert_true(first.start_unix_ns > UINT64_C(1600000000) * 1000000000);
    assert_int_equal(first.start_unix_ns, second.start_unix_ns);
    (void)fclose(file);
}

/* Each kind of trouble has a line, and only one is 1. */
static void test_the_ledger(void **state)
{
    struct wr_scrape s = {.version = "9.9",
                          .store = "none",
                          .has_ledger = true,
                          .wall_ns = 5500000000,
                          .ledger = {.writer = true,
                                     .disk = WR_DISK_FULL,
                                     .flushed_ns = 3000000000,
                                     .batches = 31,
                                     .rows = 32,
                                     .expired = 42,
                                     .failures = 33,
                                     .waiting = 34,
                                     .customers = 35,
                                     .keys = 36,
                                     .left_out = 37,
                                     .upgrades = 38,
                                     .trials = 39,
                                     .lost = 40,
                                     .damaged = 41,
                                     .astray = 42}};
    const char *text = text_of(&s);

    (void)state;
    has_line(text, "weir_ledger_up 0");
    has_line(text, "weir_ledger_writer 1");
    has_line(text, "weir_ledger_trouble{disk=\"full\"} 1");
    has_line(text, "weir_ledger_trouble{disk=\"read-only\"} 0");
    has_line(text, "weir_ledger_trouble{disk=\"failed\"} 0");
    has_line(text, "weir_ledger_age_seconds 2.5");
    has_line(text, "weir_ledger_batches_total 31");
    has_line(text, "weir_ledger_rows_total 32");
    has_line(text, "weir_ledger_expired_windows_total 42");
    has_line(text, "weir_ledger_failures_total 33");
    has_line(text, "weir_ledger_waiting_cells 34");
    has_line(text, "weir_customers 35");
    has_line(text, "weir_customer_keys 36");
    has_line(text, "weir_customers_left_out 37");
    has_line(text, "weir_customer_upgrades_total 38");
    has_line(text, "weir_customer_trials_ended_total 39");
    has_line(text, "weir_ledger_lost_units_total 40");
    has_line(text, "weir_ledger_damaged_cells 41");
    has_line(text, "weir_ledger_stray_files 42");
    s.ahead_ns = 10800 * INT64_C(1000000000);
    text = text_of(&s);
    has_line(text, "weir_clock_behind_seconds{clock=\"decisions\"} 10800.0");
    has_line(text, "weir_clock_behind_seconds{clock=\"machine\"} 0.0");
    s.ahead_ns = -2500 * INT64_C(1000000);
    text = text_of(&s);
    has_line(text, "weir_clock_behind_seconds{clock=\"decisions\"} 0.0");
    has_line(text, "weir_clock_behind_seconds{clock=\"machine\"} 2.5");
    s.ledger = (struct wr_keeper_state){.writer = false};
    text = text_of(&s);
    has_line(text, "weir_ledger_up 1");
    has_line(text, "weir_ledger_age_seconds 0.0");
    s.has_ledger = false;
    has_line(text_of(&s), "weir_ledger_up 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_each_value_in_its_place, tear_down),
        cmocka_unit_test_teardown(test_many_rules_are_bounded, tear_down),
        cmocka_unit_test_teardown(test_the_ledger, tear_down),
        cmocka_unit_test(test_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
