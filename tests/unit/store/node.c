/* node.c - the pools. */
#include "fixture.h"

#include "store/node.h"

static void every_node_is_given_out_once(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);
    static unsigned char seen[1 << 16];
    uint32_t count = arena->node_count, ref;

    (void)unused;
    for (int round = 0; round < 2; round++) {
        memset(seen, 0, sizeof seen);
        for (uint32_t i = 0; i < count; i++) {
            ref = wr_node_take(arena);
            assert_in_range(ref, 1, count);
            assert_int_equal(seen[ref], 0);
            seen[ref] = 1;
        }
        assert_int_equal(wr_node_take(arena), 0);
        for (ref = 1; ref <= count; ref++)
            wr_node_put_chain(arena, ref, ref);
    }
    wr_arena_close(arena);
}

static void a_chain_is_given_back_whole(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);
    uint32_t a = wr_node_take(arena), b = wr_node_take(arena), c = wr_node_take(arena);

    (void)unused;
    wr_node_at(arena, a)->next = b;
    wr_node_at(arena, b)->next = c;
    wr_node_put_chain(arena, a, c);
    assert_int_equal(wr_node_take(arena), a);
    assert_int_equal(wr_node_at(arena, a)->next, 0);
    assert_int_equal(wr_node_take(arena), b);
    assert_int_equal(wr_node_take(arena), c);
    wr_arena_close(arena);
}

static void references_out_of_range_are_nothing(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);

    (void)unused;
    assert_null(wr_node_at(arena, 0));
    assert_null(wr_node_at(arena, arena->node_count + 1));
    assert_non_null(wr_node_at(arena, arena->node_count));
    assert_null(wr_head_at(arena, 0));
    assert_null(wr_head_at(arena, arena->head_count + 1));
    assert_null(wr_head_at(arena, UINT64_C(1) << 32 | 1));
    wr_node_put_chain(arena, 0, 0);
    wr_node_put_chain(arena, UINT32_MAX, 1);
    wr_head_put(arena, 0);
    assert_int_equal(wr_node_take(arena), 1);
    wr_arena_close(arena);
}

static void a_damaged_free_list_ends(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);

    (void)unused;
    arena->header->nodes.free = UINT32_MAX;
    arena->header->nodes.fresh = UINT64_MAX;
    assert_int_equal(wr_node_take(arena), 0);
    arena->header->heads.free = arena->head_count + 7;
    arena->header->heads.fresh = 0;
    assert_int_equal(wr_head_take(arena), 1);
    wr_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_is_given_out_once),
        cmocka_unit_test(a_chain_is_given_back_whole),
        cmocka_unit_test(references_out_of_range_are_nothing),
        cmocka_unit_test(a_damaged_free_list_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
