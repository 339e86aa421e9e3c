/* check.c, repair.c - what is counted, what is found, what is put in order. */
#include "fixture.h"

#include "store/check.h"
#include "store/list.h"
#include "store/log.h"
#include "store/node.h"

static struct wr_arena_report report;
static struct wr_diag diag;
static struct wr_arena *arena;
static uint16_t word_class, list_class;
static char text[8192];

static void store_word(uint64_t key, uint64_t state)
{
    const struct wr_worth worth = {1, WR_NS_PER_S};
    struct wr_slot_view view;

    wr_slot_find(arena, test_hash(key), &view);
    assert_int_equal(wr_slot_put(arena, test_hash(key), &view, word_class, state, &worth, NOW), 0);
}

static void store_list(uint64_t key, uint32_t stamps, int64_t now_ns)
{
    const struct wr_worth worth = {1, WR_NS_PER_S};
    struct wr_log log;
    int64_t stamp;

    assert_int_equal(wr_log_open(&log, arena, test_hash(key), list_class, &worth, now_ns), 0);
    assert_int_equal(wr_log_append(&log, stamps, &stamp), 0);
    wr_log_close(&log);
}

static struct wr_slot *slot_of(uint64_t key)
{
    struct wr_slot_view view;

    wr_slot_find(arena, test_hash(key), &view);
    assert_non_null(view.slot);
    return view.slot;
}

/* Ten keys with a word, of which one is full and one unused; three lists of 1, 20 and 40 stamps. */
static int set_up(void **unused)
{
    (void)unused;
    arena = test_arena("", WR_ARENA_BYTES_MIN, 30);
    word_class = test_class_make(arena, 9, WR_NS_PER_S, 0);
    list_class = test_class_make(arena, 40, 10 * WR_NS_PER_S, WR_NS_PER_MS);
    for (uint64_t i = 0; i < 10; i++)
        store_word(i, i);
    store_list(100, 1, NOW);
    store_list(101, 20, NOW);
    store_list(102, 40, NOW);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    wr_arena_close(arena);
    return 0;
}

static int check(void)
{
    int rc;

    wr_diag_init(&diag, "arena");
    rc = wr_arena_check(arena, NOW, &report, &diag);
    (void)wr_diag_format(&diag, text, sizeof text);
    return rc;
}

static void found(const char *words)
{
    assert_int_equal(check(), WEIR_ECORRUPT);
    if (strstr(text, words) == NULL)
        fail_msg("'%s' is not in: %s", words, text);
    assert_int_equal(wr_arena_repair(arena, NOW), 0);
    if (check() != 0)
        fail_msg("after the repair: %s", text);
    assert_int_equal(report.nodes_lost, 0);
    assert_int_equal(report.heads_lost, 0);
    assert_int_equal(report.duplicates, 0);
}

static void everything_is_counted(void **unused)
{
    (void)unused;
    assert_int_equal(check(), 0);
    assert_int_equal(report.size_bytes, WR_ARENA_BYTES_MIN);
    assert_int_equal(report.slots, wr_arena_slots(arena));
    assert_int_equal(report.used, 13);
    assert_int_equal(report.live, 12);
    assert_int_equal(report.classes, 2);
    assert_int_equal(report.processes, 1);
    assert_int_equal(report.reports[word_class].slots, 10);
    assert_int_equal(report.reports[word_class].live, 9);
    assert_int_equal(report.reports[word_class].full, 1);
    assert_int_equal(report.reports[list_class].slots, 3);
    assert_int_equal(report.reports[list_class].stamps, 61);
    assert_int_equal(report.reports[list_class].full, 1);
    assert_int_equal(report.heads_used, 3);
    assert_int_equal(report.nodes_used, 1 + 2 + 3);
    assert_int_equal(report.nodes_free + report.nodes_used, report.nodes);
    assert_int_equal(report.heads_free + report.heads_used, report.heads);
    assert_int_equal(report.nodes_lost, 0);
    assert_int_equal(report.duplicates, 0);
    assert_int_equal(report.damaged, 0);
}

static void a_slot_of_no_class_is_found(void **unused)
{
    (void)unused;
    slot_of(3)->word |= WR_CLASS_MASK;
    found("the class of slot");
    assert_int_equal(report.used, 12);
    assert_int_equal(wr_arena_count(arena, WR_QUARANTINED), 1);
}

static void a_class_that_the_judge_refuses_is_found(void **unused)
{
    (void)unused;
    arena->classes[word_class].params[0] = 0; /* limit 0: see test_judge */
    found("damaged: class 1");
    assert_int_equal(report.used, 3);
    assert_int_equal(report.classes, 1);
}

static void a_state_without_a_key_is_found(void **unused)
{
    (void)unused;
    slot_of(3)->word = 0;
    found("a state without a key");
}

static void two_slots_with_one_list_are_found(void **unused)
{
    (void)unused;
    slot_of(100)->state = slot_of(101)->state;
    found("the reference to a list");
    assert_int_equal(report.reports[list_class].stamps, 60);
}

static void references_to_nowhere_are_found(void **unused)
{
    struct wr_log_head *head;

    (void)unused;
    slot_of(100)->state = UINT64_MAX;
    head = wr_head_at(arena, slot_of(101)->state);
    head->copy[head->selector & 1].first = UINT32_MAX;
    found("the reference to a list");
    assert_int_equal(report.reports[list_class].stamps, 40);
}

static void a_cycle_of_nodes_is_found(void **unused)
{
    struct wr_log_head *head = wr_head_at(arena, slot_of(102)->state);
    struct wr_list list;

    (void)unused;
    assert_true(wr_list_read(arena, head, &list));
    wr_node_at(arena, list.first)->next = list.first;
    found("the list of slot");
}

static void a_node_in_two_lists_is_found(void **unused)
{
    struct wr_log_head *a = wr_head_at(arena, slot_of(101)->state);
    struct wr_log_head *b = wr_head_at(arena, slot_of(102)->state);

    (void)unused;
    wr_node_at(arena, a->copy[a->selector & 1].first)->next = b->copy[b->selector & 1].first;
    found("the list of slot");
}

static void a_free_node_that_is_in_a_list_is_found(void **unused)
{
    (void)unused;
    arena->header->nodes.free = 1;
    found("the free list of nodes");
}

static void duplicates_are_folded(void **unused)
{
    struct wr_slot *slot = slot_of(5);
    struct wr_bucket *bucket = wr_slot_bucket(arena, test_hash(5));
    struct wr_slot *other = &bucket->slot[7];
    uint64_t used;

    (void)unused;
    assert_ptr_not_equal(slot, other);
    *other = (struct wr_slot){slot->word, 8};
    assert_int_equal(check(), 0);
    assert_int_equal(report.duplicates, 1);
    used = report.used;
    assert_int_equal(wr_arena_repair(arena, NOW), 0);
    assert_int_equal(check(), 0);
    assert_int_equal(report.duplicates, 0);
    assert_int_equal(report.used, used - 1);
    assert_int_equal(slot_of(5)->state, 8);
}

static void lost_nodes_and_heads_are_given_back(void **unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(wr_node_take(arena), 0);
    assert_int_not_equal(wr_head_take(arena), 0);
    assert_int_equal(check(), 0);
    assert_int_equal(report.nodes_lost, 3);
    assert_int_equal(report.heads_lost, 1);
    assert_int_equal(wr_arena_repair(arena, NOW), 0);
    assert_int_equal(check(), 0);
    assert_int_equal(report.nodes_lost, 0);
    assert_int_equal(report.heads_lost, 0);
    assert_int_equal(report.reports[list_class].stamps, 61);
    store_list(103, 30, NOW);
    assert_int_equal(check(), 0);
}

/* Whatever the bytes: decisions and the walk end, and a repair makes it sound. */
static void random_bytes_do_no_harm(void **unused)
{
    unsigned char *base = (unsigned char *)arena->header;

    (void)unused;
    for (uint64_t round = 0; round < 20; round++) {
        for (uint64_t i = 0; i < 20000; i++) {
            uint64_t dice = test_hash(round << 32 | i);
            uint64_t at = 256 + dice % (WR_ARENA_BYTES_MIN - 256); /* not the header's identity */
            base[at] = (unsigned char)(dice >> 56);
        }
        for (uint64_t i = 0; i < 2000; i++) {
            const struct wr_worth worth = {UINT64_C(1) << 32, WR_NS_PER_S};
            uint64_t hash = test_hash(i % 150);
            struct wr_log log;
            struct wr_slot_view view;
            int64_t stamp;
            int rc = wr_log_open(&log, arena, hash, list_class, &worth, NOW + (int64_t)i);
            if (rc == 0) {
                (void)wr_log_append(&log, (uint32_t)i % 40, &stamp);
                (void)wr_log_remove(&log, wr_log_stamp(&log, (uint32_t)i % 7), 3);
                wr_log_close(&log);
            }
            wr_slot_find(arena, hash, &view);
            (void)wr_slot_put(arena, hash, &view, word_class, i, &worth, NOW);
        }
        (void)check();
        assert_int_equal(wr_arena_repair(arena, NOW), 0);
        if (check() != 0)
            fail_msg("round %d: %s", (int)round, text);
    }
}

int main(void)
{
#define WITH_ARENA(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_ARENA(everything_is_counted),
        WITH_ARENA(a_slot_of_no_class_is_found),
        WITH_ARENA(a_class_that_the_judge_refuses_is_found),
        WITH_ARENA(a_state_without_a_key_is_found),
        WITH_ARENA(two_slots_with_one_list_are_found),
        WITH_ARENA(references_to_nowhere_are_found),
        WITH_ARENA(a_cycle_of_nodes_is_found),
        WITH_ARENA(a_node_in_two_lists_is_found),
        WITH_ARENA(a_free_node_that_is_in_a_list_is_found),
        WITH_ARENA(duplicates_are_folded),
        WITH_ARENA(lost_nodes_and_heads_are_given_back),
        WITH_ARENA(random_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
