/* keeper_expire.c - the keeper deletes what `customers.keep` does not keep any longer: once a day,
 * a batch a turn.
 *
 * Problem. What is deleted is what bills are made of, and the only thing that says it is old is the
 * clock of this machine, which at its start may be years ahead until somebody sets it.
 *
 * Idea. Nothing is deleted before the clock has gone evenly for an hour of this process's life:
 * from turn to turn neither back nor by more than an hour ahead. An hour is also what there is to
 * take back a policy with a `keep` that was a slip. */
#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"
#include "meter/keeper_parts.h"

#define EVERY_NS WR_NS_PER_DAY
#define STEADY_NS WR_NS_PER_HOUR
#define STEP_NS WR_NS_PER_HOUR /* longer than turns are apart, and than most of them last */

static bool is_due(struct wr_keeper *keeper, int64_t now_ns)
{
    int64_t step_ns = now_ns - keeper->turn_ns;

    if (keeper->turn_ns == 0 || step_ns < 0 || step_ns >= STEP_NS)
        keeper->expire_ns = now_ns + STEADY_NS;
    keeper->turn_ns = now_ns;
    return now_ns >= keeper->expire_ns;
}

static void say_expired(struct wr_keeper *keeper)
{
    const struct wr_expired *expired = &keeper->expired;
    char text[192];

    (void)snprintf(text, sizeof text,
                   "%" PRIu64 " windows that ended longer ago than customers.keep says, %" PRIu64
                   " of their days, %" PRIu64 " of their alerts",
                   expired->windows, expired->days, expired->alerts);
    keeper->say(keeper->context, WR_KEEPER_INFO, "old rows of the ledger were deleted", text);
}

/* What was deleted is not to be written again. */
static int learn_since(struct wr_keeper *keeper)
{
    struct wr_kept *kept;
    int result = 0;

    for (size_t i = 0; result == 0 && (kept = wr_keeper_kept(keeper, i)) != NULL; i++)
        if (kept->row != 0)
            result = wr_expire_since(keeper->database, kept->row, &kept->since);
    return result;
}

/* As many batches as there are seconds between turns. 1: there may be more. */
static int delete_some(struct wr_keeper *keeper, int64_t now_ns)
{
    int64_t before_ns = now_ns - keeper->config->keep_ns, spent_ns = 0;
    uint64_t windows = keeper->expired.windows;
    int result = 1, learned;

    while (result == 1 && spent_ns < keeper->config->flush_ns) {
        result = wr_expire(keeper->database, before_ns, &keeper->expired);
        spent_ns += WR_NS_PER_S;
    }
    windows = keeper->expired.windows - windows;
    (void)pthread_mutex_lock(&keeper->mutex);
    keeper->state.expired += windows;
    (void)pthread_mutex_unlock(&keeper->mutex);
    learned = windows > 0 ? learn_since(keeper) : 0;
    return result < 0 || learned == 0 ? result : learned;
}

int wr_keeper_expire(struct wr_keeper *keeper, int64_t now_ns)
{
    bool due = is_due(keeper, now_ns);
    int result = due && keeper->config->keep_ns > 0 ? delete_some(keeper, now_ns) : 0;

    if (result != 0 || !due)
        return result < 0 ? result : 0;
    keeper->expire_ns = now_ns + EVERY_NS;
    if (keeper->expired.windows > 0)
        say_expired(keeper);
    keeper->expired = (struct wr_expired){0};
    return 0;
}
