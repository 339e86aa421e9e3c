/* Any bytes as a reply of memcached: values lie within the input, a prefix says MORE or BAD or what
 * the whole says, and what a charge makes of it is a verdict within its bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "remote/memcached_charge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

static void check_charge(enum wr_algo algo, int64_t burst, enum wr_mc_want want,
                         enum wr_mc_step step, const struct wr_mc_reply *reply)
{
    const int64_t now = INT64_C(1700000000123456789);
    struct wr_limit limit;
    struct wr_remote_charge asked = {.name = "fuzz", .cost = 3, .extra = 20, .ttl_ns = 100000000};
    struct wr_mc_charge charge;

    must(wr_limit_make(&limit, algo, 100, INT64_C(60000000000), burst, false) == NULL);
    asked.limit = &limit;
    wr_mc_charge_begin(&charge, &asked, now);
    if (!wr_mc_charge_hear(&charge, want, step, reply, now))
        return;
    wr_mc_charge_judge(&charge, 3, now);
    must(asked.remaining >= 0 && asked.remaining <= wr_limit_capacity(&limit));
    must(asked.granted >= 0 && asked.granted <= asked.extra);
    must(asked.allowed || asked.never == (asked.retry_after_ns == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    struct wr_mc_reply reply, part;
    enum wr_mc_step step, shorter;

    must(copy != NULL);
    memcpy(copy, data, size);
    step = wr_mc_parse(copy, size, &reply);
    if (step == WR_MC_VALUE || step == WR_MC_REFUSED)
        must(reply.value.ptr >= copy && reply.value.ptr + reply.value.len <= copy + size);
    must(reply.consumed <= size);
    if (step != WR_MC_MORE && step != WR_MC_BAD && reply.consumed > 0) {
        shorter = wr_mc_parse(copy, reply.consumed - 1, &part);
        must(shorter == WR_MC_MORE);
    }
    if (step != WR_MC_MORE && step != WR_MC_BAD) {
        check_charge(WR_SLIDING_WINDOW, -1, WR_MC_WANT_COUNT, step, &reply);
        check_charge(WR_SLIDING_WINDOW, -1, WR_MC_WANT_PREVIOUS, step, &reply);
        check_charge(WR_FIXED_WINDOW, -1, WR_MC_WANT_COUNT, step, &reply);
        check_charge(WR_TOKEN_BUCKET, 150, WR_MC_WANT_WORD, step, &reply);
        check_charge(WR_LEAKY_BUCKET, 5, WR_MC_WANT_WORD, step, &reply);
    }
    free(copy);
    return 0;
}
