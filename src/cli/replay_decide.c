/* replay_decide.c - requests in the order of their times -> verdicts, under the log's clock.
 *
 * The idea. Requests of one moment are decided in one batch, so that their cache misses overlap
 * (logs of whole seconds have many). The clock is the log's and never goes back: a request that
 * came too late is decided at the time reached.
 *
 * A place in a concurrency limit is held for as long as the log says that the request took; where
 * it does not say, until the clock moves on. Places held are in a heap by the moment they end.
 *
 * Quotas of customers are watched request by request: what one took beyond its plan is seen in the
 * cell before the next one is decided. A log knows the status from the start, so what a quota does
 * not count is given back at once, not at the end of the request.
 *
 * Invariant: releases due at or before a moment happen before the requests of that moment. */
#include <stdlib.h>
#include <string.h>

#include "cli/replay.h"
#include "engine/engine.h"
#include "lib/handle.h"

#define BATCH 16
#define HELD_MAX 65536U /* places held at a time; beyond, the next to end ends early */

struct held {
    int64_t until_ns;
    struct weir_answer answer;
};

struct wr_decider {
    struct weir *w;
    struct wr_order *order;
    struct wr_tally *tally;
    FILE *verdicts_to;
    const char *const *files;
    bool skip_options;
    size_t batch; /* requests decided together */
    int64_t now_ns;
    size_t count;
    struct wr_item *items[BATCH];
    struct weir_request requests[BATCH];
    struct weir_answer answers[BATCH];
    struct held **held; /* a heap by until_ns */
    size_t held_count, held_size;
};

struct wr_decider *wr_decider_new(struct weir *w, struct wr_order *order, struct wr_tally *tally,
                                  FILE *verdicts_to, const char *const *files)
{
    struct wr_decider *d = calloc(1, sizeof *d);
    struct weir_answer_options defaults;

    if (d == NULL)
        return NULL;
    weir_answer_defaults(w, &defaults);
    d->w = w;
    d->order = order;
    d->tally = tally;
    d->verdicts_to = verdicts_to;
    d->files = files;
    d->skip_options = defaults.skip_options;
    d->batch = wr_policy_settings(w->policy)->customers != NULL ? 1 : BATCH;
    return d;
}

void wr_decider_free(struct wr_decider *d)
{
    if (d == NULL)
        return;
    for (size_t i = 0; i < d->count; i++)
        wr_order_done(d->order, d->items[i]);
    for (size_t i = 0; i < d->held_count; i++)
        free(d->held[i]);
    free(d->held);
    free(d);
}

/* ---- places held -------------------------------------------------------------------------- */

static void release_first(struct wr_decider *d, int64_t now_ns)
{
    struct held *first = d->held[0], *last = d->held[--d->held_count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < d->held_count && d->held[child + 1]->until_ns < d->held[child]->until_ns)
            child++;
        if (child >= d->held_count || d->held[child]->until_ns >= last->until_ns)
            break;
        d->held[i] = d->held[child];
        i = child;
    }
    d->held[i] = last;
    weir_release(d->w, &first->answer, now_ns);
    free(first);
}

static void release_due(struct wr_decider *d, int64_t now_ns)
{
    while (d->held_count > 0 && d->held[0]->until_ns <= now_ns)
        release_first(d, d->held[0]->until_ns);
}

static bool hold(struct wr_decider *d, const struct weir_answer *answer, int64_t until_ns)
{
    struct held *held = malloc(sizeof *held);
    size_t i;

    if (held == NULL)
        return false;
    held->until_ns = until_ns;
    held->answer = *answer;
    if (d->held_count == HELD_MAX)
        release_first(d, d->now_ns);
    if (d->held_count == d->held_size) {
        size_t size = d->held_size > 0 ? d->held_size * 2 : 64;
        struct held **grown = realloc(d->held, size * sizeof(struct held *));
        if (grown == NULL) {
            free(held);
            return false;
        }
        d->held = grown;
        d->held_size = size;
    }
    for (i = d->held_count++; i > 0 && until_ns < d->held[(i - 1) / 2]->until_ns; i = (i - 1) / 2)
        d->held[i] = d->held[(i - 1) / 2];
    d->held[i] = held;
    return true;
}

/* ---- deciding ----------------------------------------------------------------------------- */

/* Give back what is not counted, and see what is beyond the plan. */
static void look_closer(struct wr_decider *d, const struct wr_item *item,
                        struct weir_answer *answer, struct wr_verdict_extra *extra)
{
    const struct wr_engine *engine = d->w->engine;
    struct wr_supposed_upgrade upgrade;
    struct wr_quota_taken taken;

    if (item->status >= 100 && item->status <= 599 && answer->outcome != WEIR_DENY &&
        weir_awaits_status(d->w, answer))
        (void)weir_finish(d->w, answer, item->status, d->now_ns);
    for (unsigned i = 0; i < answer->count; i++)
        if (wr_engine_quota_taken(engine, answer, i, &taken) &&
            taken.overage_units + taken.grace_units > 0)
            extra->beyond[extra->beyond_count++] = (struct wr_beyond){
                answer->verdicts[i].limit, taken.overage_units, taken.grace_units};
    extra->upgraded = wr_engine_supposed_upgrade(engine, &upgrade);
    extra->from = upgrade.from;
    extra->to = upgrade.to;
}

static bool conclude(struct wr_decider *d, struct wr_item *item, struct weir_answer *answer)
{
    const char *file = d->files != NULL ? d->files[item->source] : NULL;
    int64_t lasts_ns = item->duration_ns > 0 ? item->duration_ns : 1, until_ns;
    struct wr_verdict_extra extra = {.beyond_count = 0};
    bool ok;

    if (answer != NULL && d->batch == 1)
        look_closer(d, item, answer, &extra);
    ok = wr_tally_add(d->tally, item, answer, &extra);
    if (d->verdicts_to != NULL)
        wr_verdict_json(d->w, &(struct wr_verdict){item, file, answer, &extra}, d->verdicts_to);
    if (answer != NULL && answer->outcome != WEIR_DENY && weir_holds(d->w, answer)) {
        if (__builtin_add_overflow(d->now_ns, lasts_ns, &until_ns))
            until_ns = INT64_MAX;
        ok = ok && hold(d, answer, until_ns);
    }
    wr_order_done(d->order, item);
    return ok;
}

bool wr_decider_flush(struct wr_decider *d)
{
    bool ok = true;

    if (d->count == 0)
        return true;
    release_due(d, d->now_ns);
    /* Fails for arguments out of range only, which the parser has refused. */
    ok = weir_decide_batch(d->w, d->requests, d->count, d->now_ns, d->answers) == 0;
    for (size_t i = 0; i < d->count; i++)
        ok = conclude(d, d->items[i], &d->answers[i]) && ok;
    d->count = 0;
    return ok;
}

bool wr_decider_add(struct wr_decider *d, struct wr_item *item)
{
    static const char options[] = "OPTIONS";
    int64_t now_ns = item->time_ns > d->now_ns ? item->time_ns : d->now_ns;
    bool skip = d->skip_options && item->request.method.len == sizeof options - 1 &&
                memcmp(item->request.method.ptr, options, sizeof options - 1) == 0;
    bool ok = true;

    if (d->count == d->batch || now_ns != d->now_ns || skip)
        ok = wr_decider_flush(d);
    d->now_ns = now_ns;
    if (skip)
        return conclude(d, item, NULL) && ok;
    d->items[d->count] = item;
    d->requests[d->count] = item->request;
    d->count++;
    return ok;
}
