/* answer.c - an answer as response fields and as a problem body: gathers what wire/ writes. */
#include <string.h>

#include "algo/limit.h"
#include "lib/handle.h"
#include "policy/quota.h"
#include "wire/fields.h"
#include "wire/problem.h"

static const struct wr_limit *limit_of(const struct weir *w, const struct weir_verdict *verdict)
{
    return &wr_policy_limit(w->policy, verdict->limit)->by[verdict->plan];
}

/* A customer's own quota goes by the machine's civil days. */
static int64_t ahead_ns(const struct weir *w, const struct weir_verdict *verdict)
{
    const struct wr_policy_limit *limit = wr_policy_limit(w->policy, verdict->limit);

    return limit->quota != NULL && limit->quota->exact && !limit->shared
               ? wr_arena_wall_ahead_ns(w->arena)
               : 0;
}

/* A window of the calendar is as long as the one that |answer| was decided in: a day may have 23
 * hours, a month 28 days. */
static int64_t calendar_ns(const struct weir *w, const struct weir_answer *answer,
                           const struct weir_verdict *verdict)
{
    const struct wr_policy_quota *quota = wr_policy_limit(w->policy, verdict->limit)->quota;
    struct wr_civil civil = limit_of(w, verdict)->civil;
    struct wr_civil_window window;

    if (quota != NULL && quota->anchor_by_customer && answer->customer_anchor != 0)
        civil.anchor = answer->customer_anchor;
    window =
        wr_civil_at(&civil, wr_moment_ns(wr_add_sat_i64(answer->decided_ns, ahead_ns(w, verdict))));
    return window.end_ns - window.start_ns;
}

/* The window that a caller may think in: none for places, nor for a bucket whose capacity is not
 * what a window lets through. */
static int64_t window_of(const struct weir *w, const struct weir_answer *answer,
                         const struct weir_verdict *verdict)
{
    const struct wr_limit *limit = limit_of(w, verdict);

    if (limit->algo == WR_CONCURRENCY || wr_limit_capacity(limit) != limit->units)
        return 0;
    return limit->calendar == WR_CALENDAR_CIVIL ? calendar_ns(w, answer, verdict)
                                                : limit->window_ns;
}

/* "day", where a window is one of the calendar; NULL: it is its length. */
static const char *period_of(const struct wr_limit *limit)
{
    static const char *const civil[] = {
        [WR_PER_DAY] = "day", [WR_PER_WEEK] = "week", [WR_PER_MONTH] = "month"};

    if (limit->calendar == WR_CALENDAR_CIVIL && limit->civil.per <= WR_PER_MONTH)
        return civil[limit->civil.per];
    return NULL;
}

static bool is_known(const struct weir *w, const struct weir_verdict *verdict)
{
    return verdict->limit < wr_policy_limit_count(w->policy) &&
           verdict->plan < wr_policy_plan_count(w->policy);
}

int wr_answer_spoken(const struct weir_answer *answer)
{
    int best = -1;

    if (answer->outcome != WEIR_SHADOW)
        return answer->decisive < (int)answer->count ? answer->decisive : -1;
    for (int i = 0; i < (int)answer->count && i < WEIR_LIMITS_MAX; i++) {
        const struct weir_verdict *v = &answer->verdicts[i];
        if (v->shadow == 0 &&
            (best < 0 || v->remaining_units < answer->verdicts[best].remaining_units))
            best = i;
    }
    return best;
}

static void gather(const struct weir *w, const struct weir_answer *answer, struct wr_standings *out)
{
    memset(out, 0, sizeof *out);
    out->now_ns = answer->decided_ns;
    out->denied = answer->outcome == WEIR_DENY;
    out->retry_after_ns = answer->retry_after_ns;
    out->expose = wr_policy_settings(w->policy)->cors_expose;
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        const struct weir_verdict *v = &answer->verdicts[i];
        struct wr_standing *standing = &out->item[out->count];

        /* What is not enforced is not told, nor what is not known. */
        if (v->shadow != 0 || !is_known(w, v) || v->reason == WEIR_REASON_STORE)
            continue;
        standing->name = wr_policy_limit(w->policy, v->limit)->name;
        standing->quota_units = v->capacity_units;
        standing->remaining_units = v->remaining_units;
        standing->window_ns = window_of(w, answer, v);
        standing->concurrent = limit_of(w, v)->algo == WR_CONCURRENCY;
        standing->violated = v->outcome == WEIR_DENY;
        wr_engine_times(w->engine, v, answer->decided_ns, &standing->next_ns, &standing->reset_ns);
        /* Also where a shadow limit is the one the answer speaks of: the enforced one nearest its
         * end. */
        if (out->count > 0 && !out->denied &&
            standing->remaining_units < out->item[out->decisive].remaining_units)
            out->decisive = out->count;
        if (out->denied && (int)i == answer->decisive)
            out->decisive = out->count;
        out->count++;
    }
}

int weir_answer_headers(const struct weir *w, const struct weir_answer *answer, unsigned families,
                        struct weir_header *out, char *buffer, size_t size)
{
    struct wr_standings standings;

    gather(w, answer, &standings);
    return wr_fields_write(&standings, families, out, buffer, size);
}

/* The next plan up under which the limit of |verdict|, which refuses, allows more; -1: none. */
static int better_plan(const struct weir *w, const struct weir_verdict *verdict)
{
    const struct wr_policy_limit *limit = wr_policy_limit(w->policy, verdict->limit);
    int plan = wr_policy_upgrade(w->policy, verdict->plan);

    if (verdict->reason == WEIR_REASON_MISSING)
        return -1;
    while (plan >= 0 && !limit->unlimited[plan] &&
           limit->by[plan].units <= limit->by[verdict->plan].units)
        plan = wr_policy_upgrade(w->policy, (size_t)plan);
    return plan;
}

int weir_answer_problem(const struct weir *w, const struct weir_answer *answer, int status,
                        char *buffer, size_t size)
{
    const struct wr_policy_settings *settings = wr_policy_settings(w->policy);
    struct wr_problem problem = {.status = status,
                                 .reason = (enum weir_reason)answer->reason,
                                 .retry_after_ns = answer->retry_after_ns,
                                 .documentation_url = settings->documentation_url,
                                 .upgrade_url = settings->upgrade_url};

    int to = answer->reason == WEIR_REASON_PLAN ? answer->upgrade_to : -1;

    if (wr_policy_plan_count(w->policy) > 1)
        problem.plan = wr_policy_plan(w->policy, answer->plan);
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        const struct weir_verdict *v = &answer->verdicts[i];
        if (v->outcome == WEIR_DENY && v->shadow == 0 && is_known(w, v) &&
            v->reason != WEIR_REASON_STORE)
            problem.violated[problem.violated_count++] = wr_policy_limit(w->policy, v->limit)->name;
    }
    if (answer->decisive >= 0 && answer->decisive < (int)answer->count &&
        is_known(w, &answer->verdicts[answer->decisive])) {
        const struct weir_verdict *v = &answer->verdicts[answer->decisive];
        problem.limit = wr_policy_limit(w->policy, v->limit)->name;
        problem.quota_units = limit_of(w, v)->units;
        problem.window_ns = limit_of(w, v)->algo == WR_CONCURRENCY ? 0 : limit_of(w, v)->window_ns;
        problem.period = period_of(limit_of(w, v));
        to = better_plan(w, v);
    }
    problem.upgrade_to = to >= 0 ? wr_policy_plan(w->policy, (size_t)to) : NULL;
    return wr_problem_write(&problem, buffer, size);
}

void weir_answer_defaults(const struct weir *w, struct weir_answer_options *out)
{
    const struct wr_policy_settings *settings = wr_policy_settings(w->policy);

    out->status = settings->status;
    out->ban_status = settings->ban_status;
    out->families = settings->header_families;
    out->skip_options = settings->skip_options;
}

int weir_answer_status(const struct weir_answer_options *options, const struct weir_answer *answer)
{
    if (answer->reason == WEIR_REASON_STORE)
        return 503;
    if (answer->reason == WEIR_REASON_PLAN)
        return 403;
    return answer->reason == WEIR_REASON_BANNED ? options->ban_status : options->status;
}
