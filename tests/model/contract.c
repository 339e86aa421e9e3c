/* contract.c - the contract that all algorithms keep (fuzz/fuzz_algo.c checks it), over plausible
 * limits with garbage states: any word, words near the present, words that charging leaves. */
#include <string.h>

#include "schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bytes {
    uint8_t data[200];
    size_t size;
};

static void put(struct bytes *b, uint64_t value, size_t count)
{
    memcpy(b->data + b->size, &value, count);
    b->size += count;
}

static struct wr_limit put_limit(struct schedule *s, struct bytes *b)
{
    enum wr_algo algo = (enum wr_algo)(1 + schedule_below(s, WR_SLIDING_WINDOW));
    struct wr_limit limit;
    int64_t units, window_ns, burst = -1;

    schedule_rate(s, algo == WR_SLIDING_WINDOW ? WR_SLIDING_WINDOW_UNITS_MAX : 999999937, &units,
                  &window_ns);
    if (schedule_one_in(s, 20))
        units = 0;
    if (algo <= WR_LEAKY_BUCKET && schedule_one_in(s, 2))
        burst = 1 + schedule_below(s, 50);
    put(b, algo, 1);
    put(b, (uint64_t)schedule_below(s, 2), 1);
    put(b, (uint64_t)units, 8);
    put(b, (uint64_t)window_ns, 8);
    put(b, (uint64_t)burst, 8);
    (void)wr_limit_make(&limit, algo, units, window_ns, burst, false);
    return limit;
}

/* Any word; a moment near now for the buckets; an index near now's for the windows; after a charge.
 */
static uint64_t a_state(struct schedule *s, const struct wr_limit *limit, int64_t now_ns)
{
    uint64_t near = (uint64_t)(now_ns + schedule_below(s, 5 * WR_NS_PER_MINUTE) - WR_NS_PER_MINUTE);
    unsigned bits = limit->count_bits * (limit->algo == WR_SLIDING_WINDOW ? 2U : 1U);

    switch (schedule_below(s, 4)) {
    case 0:
        return schedule_next(s);
    case 1:
        if (limit->window_ns == 0) /* not a limit at all */
            return near;
        if (limit->algo <= WR_LEAKY_BUCKET)
            return near * limit->scale.num / limit->scale.den;
        return ((uint64_t)now_ns / (uint64_t)limit->window_ns + (uint64_t)schedule_below(s, 5) - 2)
                   << bits |
               (schedule_next(s) & ((UINT64_C(1) << bits) - 1));
    case 2:
        if (limit->window_ns == 0)
            return 0;
        return wr_word_algo((enum wr_algo)limit->algo)
            ->force(limit, 0, now_ns - schedule_below(s, limit->window_ns),
                    schedule_below(s, limit->units + 2));
    default:
        return near;
    }
}

static void the_contract_holds_for_any_state(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 1000000; s.round++) {
        struct bytes b = {.size = 0};
        struct wr_limit limit = put_limit(&s, &b);
        int64_t now_ns = schedule_start_ns(&s);

        put(&b, a_state(&s, &limit, now_ns), 8);
        put(&b, a_state(&s, &limit, now_ns), 8);
        put(&b, (uint64_t)now_ns, 8);
        put(&b, (uint64_t)schedule_cost(&s, wr_limit_capacity(&limit)), 8);
        (void)put_limit(&s, &b);
        (void)LLVMFuzzerTestOneInput(b.data,
                                     b.size); /* aborts with the condition that does not hold */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_contract_holds_for_any_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
