/* weir.c - the public API: checks arguments, opens and closes; everything else is below. */
#include "weir/weir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/units.h"
#include "engine/shared.h"
#include "lib/ask_link.h"
#include "lib/handle.h"

static int open_arena(struct weir *w, const struct weir_options *options, struct wr_diag *diag)
{
    const struct wr_policy_settings *settings = wr_policy_settings(w->policy);
    struct wr_arena_options arena = {.path = settings->arena_path,
                                     .size_bytes = settings->arena_bytes,
                                     .node_share = settings->arena_log_percent,
                                     .judge = wr_engine_judge};

    if (options != NULL && options->arena_path != NULL)
        arena.path = options->arena_path;
    else if (options != NULL && arena.path == NULL)
        arena.path = options->arena_default;
    if (options != NULL && options->arena_bytes != 0)
        arena.size_bytes = options->arena_bytes;
    diag->file = arena.path != NULL && arena.path[0] != '\0' ? arena.path : "(anonymous arena)";
    return wr_arena_open(&w->arena, &arena, diag);
}

static bool same_path(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Is the arena that |w|'s policy speaks of the one that |before| has open? */
static bool same_arena(const struct weir *w, const struct weir *before)
{
    return before != NULL && same_path(wr_policy_settings(w->policy)->arena_path,
                                       wr_policy_settings(before->policy)->arena_path);
}

/* As with an arena that is there already, another size is no reason to refuse a policy. */
static void share_arena(struct weir *w, const struct weir *before, struct wr_diag *diag)
{
    if (wr_policy_settings(w->policy)->arena_bytes !=
        wr_policy_settings(before->policy)->arena_bytes)
        wr_diag_add(diag, WR_WARNING, 0, 0,
                    "arena: the one in use goes on with its size; another takes a restart");
    w->arena = before->arena;
    wr_arena_share(w->arena);
}

/* Who has an arena of his own that nobody else sees tries a policy out: nobody is billed. */
static bool is_throwaway(const struct weir_options *options)
{
    return options != NULL && options->arena_path != NULL && options->arena_path[0] == '\0';
}

static int open_all(struct weir *w, const struct weir_options *options, const struct weir *before,
                    struct wr_diag diags[3])
{
    struct wr_diag *diag = &diags[0], *arena_diag = &diags[1], *customers_diag = &diags[2];
    int result = wr_policy_load(&w->policy, diag->file, diag);

    if (result != 0)
        return result;
    if (same_arena(w, before))
        share_arena(w, before, diag);
    else
        result = open_arena(w, options, arena_diag);
    if (result != 0)
        return result;
    result = wr_engine_new(&w->engine, w->policy, w->arena);
    w->fingerprint = wr_weir_fingerprint(w->policy);
    if (result == 0 && options != NULL && (options->flags & WEIR_OPEN_LOCAL) != 0)
        wr_engine_keep_local(w->engine);
    if (result == WEIR_EFULL)
        wr_diag_add(arena_diag, WR_ERROR, 0, 0,
                    "its table of %u classes does not hold the limits of this policy beside those "
                    "in force: of other processes on it, and of the policy before this one (see "
                    "Bounds in docs/policy.md)",
                    wr_arena_class_room(w->arena));
    if (result == 0 && is_throwaway(options) && (options->flags & WEIR_OPEN_LOCAL) != 0)
        result = wr_engine_suppose_customers(w->engine, customers_diag);
    if (result == 0 && !is_throwaway(options))
        result = wr_engine_open_customers(w->engine, customers_diag);
    return result;
}

/* Is an argument out of its range? Says which in |errors|. */
static bool refused_argument(const char *policy_path, const struct weir_options *options,
                             char *errors, size_t errors_size)
{
    const char *text = NULL;

    if (policy_path == NULL)
        text = "policy_path: expected a path, found NULL";
    else if (options != NULL && (options->flags & ~WEIR_OPEN_LOCAL) != 0)
        text = "options.flags: expected 0 or WEIR_OPEN_LOCAL";
    else if (options != NULL && options->arena_bytes != 0 &&
             (options->arena_bytes < WR_ARENA_BYTES_MIN ||
              options->arena_bytes > WR_ARENA_BYTES_MAX))
        text = "options.arena_bytes: expected 0, or 1 MiB to 1 TiB";
    if (text != NULL && errors_size > 0)
        (void)snprintf(errors, errors_size, "weir_open: error: %s\n", text);
    return text != NULL;
}

static void format_diags(const struct wr_diag diags[3], char *errors, size_t size)
{
    size_t used = 0;

    for (unsigned i = 0; i < 3 && used < size; i++)
        used += wr_diag_format(&diags[i], errors + used, size - used);
}

int wr_weir_open(struct weir **out, const char *policy_path, const struct weir_options *options,
                 const struct weir *before, char *errors, size_t errors_size)
{
    struct weir *w = calloc(1, sizeof *w);
    struct wr_diag *diags = calloc(3, sizeof *diags); /* too large for a small stack */
    int result = WEIR_ENOMEM;

    *out = NULL;
    if (errors_size > 0)
        errors[0] = '\0';
    if (refused_argument(policy_path, options, errors, errors_size)) {
        result = WEIR_EINVAL;
    } else if (w != NULL && diags != NULL) {
        wr_diag_init(&diags[0], policy_path);
        wr_diag_init(&diags[1], "arena");
        wr_diag_init(&diags[2], "customers");
        result = open_all(w, options, before, diags);
        format_diags(diags, errors, errors_size);
    }
    free(diags);
    if (result != 0) {
        weir_close(w);
        return result;
    }
    *out = w;
    return 0;
}

int weir_open(struct weir **out, const char *policy_path, const struct weir_options *options,
              char *errors, size_t errors_size)
{
    return wr_weir_open(out, policy_path, options, NULL, errors, errors_size);
}

int weir_after_fork(struct weir *w)
{
    return wr_arena_after_fork(w->arena);
}

void weir_close(struct weir *w)
{
    if (w == NULL)
        return;
    wr_ask_links_close(w);
    wr_engine_free(w->engine);
    wr_arena_close(w->arena);
    wr_policy_free(w->policy);
    free(w);
}

int64_t weir_now(const struct weir *w)
{
    return wr_arena_now(w->arena);
}

/* ---- names ------------------------------------------------------------------------------- */

int weir_limit_find(const struct weir *w, const char *name)
{
    for (size_t i = 0; i < wr_policy_limit_count(w->policy); i++) {
        if (strcmp(wr_policy_limit(w->policy, i)->name, name) == 0)
            return (int)i;
    }
    return WEIR_ENOENT;
}

size_t weir_limit_count(const struct weir *w)
{
    return wr_policy_limit_count(w->policy);
}

const char *weir_limit_name(const struct weir *w, unsigned limit)
{
    if (limit >= wr_policy_limit_count(w->policy))
        return NULL;
    return wr_policy_limit(w->policy, limit)->name;
}

const char *weir_plan_name(const struct weir *w, unsigned plan)
{
    return plan < wr_policy_plan_count(w->policy) ? wr_policy_plan(w->policy, plan) : NULL;
}

int weir_plan_find(const struct weir *w, struct weir_slice name)
{
    for (size_t i = 0; i < wr_policy_plan_count(w->policy); i++) {
        const char *plan = wr_policy_plan(w->policy, i);
        if (strlen(plan) == name.len && memcmp(plan, name.ptr, name.len) == 0)
            return (int)i;
    }
    return WEIR_ENOENT;
}

size_t weir_field_count(const struct weir *w)
{
    return wr_policy_field_count(w->policy);
}

const char *weir_field_name(const struct weir *w, size_t field)
{
    enum weir_field_kind kind;
    return field < wr_policy_field_count(w->policy) ? wr_policy_field(w->policy, field, &kind)
                                                    : NULL;
}

enum weir_field_kind weir_field_kind(const struct weir *w, size_t field)
{
    enum weir_field_kind kind = WEIR_FIELD_HEADER;
    if (field < wr_policy_field_count(w->policy))
        (void)wr_policy_field(w->policy, field, &kind);
    return kind;
}

bool weir_field_is_list(const struct weir *w, size_t field)
{
    return wr_policy_is_list(w->policy, field);
}

bool weir_field_only_given(const struct weir *w, size_t field)
{
    return wr_policy_only_given(w->policy, field);
}

/* ---- deciding ---------------------------------------------------------------------------- */

/* Later moments are no times but mistakes: one of them, charged, would lock a key until then. */
static bool is_moment(int64_t now)
{
    return now >= 0 && now <= WR_TIME_MAX_NS;
}

static bool is_cost(int64_t cost)
{
    return cost >= 0 && cost <= WEIR_COST_MAX;
}

int weir_check(struct weir *w, unsigned limit, struct weir_slice key, int64_t cost, int64_t now,
               struct weir_verdict *out)
{
    if (limit >= wr_policy_limit_count(w->policy) || !is_cost(cost) ||
        (!is_moment(now) && now != WEIR_NOW)) {
        *out = (struct weir_verdict){0};
        return WEIR_EINVAL;
    }
    wr_engine_check(w->engine, limit, key, cost, now, out);
    return 0;
}

int weir_check_batch(struct weir *w, const struct weir_charge *charges, size_t n, int64_t now,
                     struct weir_verdict *out)
{
    size_t limits = wr_policy_limit_count(w->policy);
    bool timely = is_moment(now) || now == WEIR_NOW;

    for (size_t i = 0; i < n; i++) {
        if (charges[i].limit >= limits || !is_cost(charges[i].cost_units) || !timely) {
            memset(out, 0, n * sizeof *out);
            return WEIR_EINVAL;
        }
    }
    wr_engine_check_batch(w->engine, charges, n, now, out);
    return 0;
}

bool wr_weir_is_request(const struct weir *w, const struct weir_request *request, int64_t now)
{
    return is_moment(now) && (request->cost_units == -1 || is_cost(request->cost_units)) &&
           request->plan >= -1 && request->plan < (int)wr_policy_plan_count(w->policy) &&
           request->field_count == wr_policy_field_count(w->policy);
}

int weir_decide(struct weir *w, const struct weir_request *request, int64_t now,
                struct weir_answer *answer)
{
    if (!wr_weir_is_request(w, request, now)) {
        memset(answer, 0, sizeof *answer);
        return WEIR_EINVAL;
    }
    wr_engine_decide(w->engine, request, now, answer);
    return 0;
}

int weir_decide_alone(struct weir *w, const struct weir_request *request, int64_t now,
                      struct weir_answer *answer)
{
    if (!wr_weir_is_request(w, request, now)) {
        memset(answer, 0, sizeof *answer);
        return WEIR_EINVAL;
    }
    wr_engine_decide_alone(w->engine, request, now, answer);
    return 0;
}

int weir_decide_batch(struct weir *w, const struct weir_request *requests, size_t n, int64_t now,
                      struct weir_answer *answers)
{
    for (size_t i = 0; i < n; i++) {
        if (!wr_weir_is_request(w, &requests[i], now)) {
            memset(answers, 0, n * sizeof *answers);
            return WEIR_EINVAL;
        }
    }
    wr_engine_decide_batch(w->engine, requests, n, now, answers);
    return 0;
}

int weir_reserve(struct weir *w, const struct weir_request *request, int64_t ttl_ns, int64_t now,
                 struct weir_answer *answer)
{
    int64_t expires;

    if (ttl_ns <= 0 || request->peek || __builtin_add_overflow(now, ttl_ns, &expires) ||
        !wr_weir_is_request(w, request, now)) {
        memset(answer, 0, sizeof *answer);
        return WEIR_EINVAL;
    }
    wr_engine_decide_reserve(w->engine, request, now, answer);
    if (answer->outcome != WEIR_DENY && answer->outcome != WEIR_ASK)
        answer->expires_ns = expires;
    return 0;
}

int weir_settle(struct weir *w, struct weir_answer *answer, int64_t cost, int64_t now)
{
    if (!is_cost(cost) || !is_moment(now))
        return WEIR_EINVAL;
    return wr_engine_settle(w->engine, answer, cost, now);
}

void weir_release(struct weir *w, struct weir_answer *answer, int64_t now)
{
    if ((answer->flags & WR_ANSWER_ASKED) != 0) {
        wr_ask_release(w, answer);
        return;
    }
    wr_engine_release(w->engine, answer, now);
}

int weir_finish(struct weir *w, struct weir_answer *answer, int status, int64_t now)
{
    if (status < 100 || status > 599 || !is_moment(now))
        return WEIR_EINVAL;
    if ((answer->flags & WR_ANSWER_ASKED) == 0)
        wr_engine_ended(w->engine, answer, status, now);
    return 0;
}

bool weir_awaits_status(const struct weir *w, const struct weir_answer *answer)
{
    return (answer->flags & WR_ANSWER_ASKED) == 0 && wr_engine_awaits_status(w->engine, answer);
}

bool weir_holds(const struct weir *w, const struct weir_answer *answer)
{
    if ((answer->flags & WR_ANSWER_ASKED) != 0)
        return wr_asked_holds(answer);
    return wr_engine_holds(w->engine, answer);
}

void weir_verdict_times(const struct weir *w, const struct weir_verdict *verdict, int64_t now,
                        int64_t *next_ns, int64_t *reset_ns)
{
    wr_engine_times(w->engine, verdict, now, next_ns, reset_ns);
}

/* "192.0.2.7", or the network "2001:db8:1:2::/64". */
static size_t format_client(const struct weir *w, const struct wr_selection *selection, char *out,
                            size_t size)
{
    unsigned prefix = wr_policy_ipv6_prefix(w->policy);
    size_t len = wr_ip_format(&selection->masked[0], out);

    if (!wr_ip_is_v4(&selection->masked[0]) && prefix < 128)
        len += (size_t)snprintf(out + len, size - len, "/%u", prefix);
    return len;
}

size_t weir_client(const struct weir *w, const struct weir_request *request, char *out, size_t size)
{
    struct wr_selection selection;
    char text[WR_IP_TEXT_MAX + sizeof "/128"];
    struct weir_slice client = {text, 0};

    wr_policy_select(w->policy, request, &selection);
    if (selection.client_is_host)
        client = selection.client_host;
    else
        client.len = format_client(w, &selection, text, sizeof text);
    if (size > 0) {
        size_t kept = client.len < size ? client.len : size - 1;
        if (kept > 0)
            memcpy(out, client.ptr, kept);
        out[kept] = '\0';
    }
    return client.len;
}
