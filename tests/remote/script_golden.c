/* script_golden.c - the golden vectors through the script in a real Redis: script_golden FILE..
 *
 * Redis has microseconds. A vector between two of them is asked at the one before, where its answer
 * is the same, but for one that asks what holds just before a microsecond is over. */
#include "../golden/vectors.h"
#include "store.h"

struct run {
    struct store store;
    uint64_t who;
};

static void start(struct vectors *vectors)
{
    struct run *run = vectors->context;
    run->who++;
}

static bool decide(struct vectors *vectors, int64_t now, int64_t cost, struct wr_take *out)
{
    struct run *run = vectors->context;
    struct wr_remote_charge charge = store_charge(&vectors->limit, "golden", run->who, cost);

    charge.place = vectors->line;
    (void)store_take(&run->store, &charge, 1, 0, now - now % WR_NS_PER_US);
    *out = (struct wr_take){.allowed = charge.allowed,
                            .never = charge.never,
                            .remaining = charge.remaining,
                            .retry_after_ns = charge.retry_after_ns,
                            .delay_ns = charge.delay_ns};
    return true;
}

int main(int argc, char **argv)
{
    static struct run run;
    struct vectors vectors = {.start = start, .decide = decide, .context = &run};
    int status;

    store_open(&run.store);
    status = read_files(&vectors, argc, argv);
    store_close(&run.store);
    return status;
}
