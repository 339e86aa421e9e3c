/* golden.c - drive the algorithms by the golden vectors: golden FILE.. (format: README.md). Lists
 * of stamps are a plain array here. A quota is both a window in a word, as in the arena, and the
 * exact count of a customer: they must say the same. */
#include "algo/concurrency.h"
#include "algo/quota.h"
#include "algo/sliding_log.h"
#include "vectors.h"

#define STAMPS_MAX 20000

struct run {
    uint64_t state;
    struct wr_quota_state quota;
    int64_t stamps[STAMPS_MAX];
    uint32_t live;
};

static void append(struct run *run, int64_t now, int64_t count)
{
    for (; count > 0 && run->live < STAMPS_MAX; count--)
        run->stamps[run->live++] = now;
}

static void take_stamps(struct run *run, const struct wr_limit *limit, int64_t now, int64_t cost,
                        struct wr_take *out)
{
    bool places = limit->algo == WR_CONCURRENCY;
    uint32_t kept = 0, must_age;

    for (uint32_t i = 0; i < run->live; i++) {
        if (now - run->stamps[i] < limit->window_ns)
            run->stamps[kept++] = run->stamps[i];
    }
    run->live = kept;
    if (places)
        wr_concurrency_take(limit, run->live, cost == 0, out, &must_age);
    else
        wr_sliding_log_take(limit, run->live, cost, out, &must_age);
    if (must_age > 0) /* behind what lives lies what the refusal adds */
        out->retry_after_ns = wr_sliding_log_retry(
            limit, must_age <= run->live ? run->stamps[must_age - 1] : now, now);
    if (out->allowed || limit->count_denied)
        append(run, now, places && cost > 0 ? 1 : cost);
}

static void take_word(struct run *run, const struct wr_limit *limit, int64_t now, int64_t cost,
                      struct wr_take *out)
{
    const struct wr_word_algo *algo = wr_word_algo((enum wr_algo)limit->algo);

    algo->take(limit, run->state, now, cost, out);
    run->state = out->state;
    if (!out->allowed && limit->count_denied)
        run->state = algo->force(limit, run->state, now, cost);
}

static void take_quota(struct vectors *vectors, int64_t now, int64_t cost,
                       const struct wr_take *word)
{
    struct run *run = vectors->context;
    struct wr_quota_rule rule = {
        .civil = vectors->limit.civil, .limit = vectors->limit.units, .most = vectors->limit.units};
    struct wr_quota_take out;

    wr_quota_take(&rule, run->quota, now, cost, &out);
    run->quota = out.state;
    if (out.take.allowed != word->allowed || out.take.never != word->never ||
        out.take.remaining != word->remaining || out.take.retry_after_ns != word->retry_after_ns ||
        out.over_units != 0)
        complain(vectors, "a customer's count differs from a window's");
}

static void start(struct vectors *vectors)
{
    struct run *run = vectors->context;

    run->state = 0;
    run->live = 0;
    run->quota = (struct wr_quota_state){0, 0};
}

static bool decide(struct vectors *vectors, int64_t now, int64_t cost, struct wr_take *out)
{
    struct run *run = vectors->context;

    if (wr_limit_is_word(&vectors->limit))
        take_word(run, &vectors->limit, now, cost, out);
    else
        take_stamps(run, &vectors->limit, now, cost, out);
    if (vectors->limit.calendar == WR_CALENDAR_CIVIL)
        take_quota(vectors, now, cost, out);
    return true;
}

int main(int argc, char **argv)
{
    static struct run run;
    struct vectors vectors = {.start = start, .decide = decide, .context = &run};

    return read_files(&vectors, argc, argv);
}
