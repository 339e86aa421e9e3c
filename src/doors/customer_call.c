/* customer_call.c - reading what is asked, opening the database, saying what is wrong. */
#include "doors/customer_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "doors/customer_page.h"
#include "meter/known.h"
#include "policy/rate.h"
#include "serve/keeping.h"
#include "wire/customerjson.h"
#include "wire/logtime.h"
#include "wire/query.h"

static const struct weir_slice nothing = {NULL, 0};

struct customer_call *customer_call_new(struct http_service *service,
                                        struct http_response *response)
{
    struct customer_call *call;
    struct timespec now;

    if (wr_policy_settings(service->loop->handle->policy)->customers == NULL) {
        http_problem(service, response, 404, "the policy has no section customers", nothing);
        return NULL;
    }
    call = calloc(1, sizeof *call);
    if (call == NULL || !wr_keeping_path(service->loop->server, call->path, sizeof call->path)) {
        free(call);
        http_problem(service, response, 503, "the customers are not there", nothing);
        return NULL;
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    call->now_ns = (int64_t)now.tv_sec * WR_NS_PER_S + now.tv_nsec;
    call->server = service->loop->server;
    call->handle = service->loop->handle;
    wr_handle_ref(call->handle);
    call->last = INT32_MAX / 2;
    call->anchor = call->partner = call->suspended = call->make_key = call->state = -1;
    call->ended = -1;
    return call;
}

void customer_call_free(void *order)
{
    struct customer_call *call = order;

    if (call == NULL)
        return;
    wr_handle_unref(call->handle);
    free(call->standing);
    wr_page_free(&call->days);
    explicit_bzero(call->value, sizeof call->value); /* it may be a key */
    free(call);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool refuse(struct http_service *service, struct http_response *response, const char *detail,
                   struct weir_slice member)
{
    http_problem(service, response, 400, detail, member);
    return false;
}

/* False: it is too long, or has a NUL. */
static bool copy(char *out, size_t size, struct weir_slice text)
{
    if (text.len >= size || (text.len > 0 && memchr(text.ptr, '\0', text.len) != NULL))
        return false;
    if (text.len > 0)
        memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return true;
}

static bool read_month(struct customer_call *call, struct weir_slice text)
{
    if (!wr_date_read(text, true, &call->first))
        return false;
    call->last = wr_month_end(call->first);
    return true;
}

static bool read_state(struct customer_call *call, struct weir_slice text)
{
    enum wr_alert_state state;

    if (!wr_alert_state_of(text, &state))
        return false;
    call->state = (int)state;
    return true;
}

static bool read_parameter(struct customer_call *call, struct weir_slice name,
                           struct weir_slice value)
{
    size_t at;

    if (http_is(name, "name"))
        return copy(call->name, sizeof call->name, value);
    if (http_is(name, "after"))
        return copy(call->after, sizeof call->after, value);
    if (http_is(name, "tenant"))
        return copy(call->tenant, sizeof call->tenant, value);
    if (http_is(name, "plan"))
        return copy(call->plan, sizeof call->plan, value);
    if (http_is(name, "id"))
        return copy(call->key_id, sizeof call->key_id, value);
    if (http_is(name, "quota"))
        return copy(call->quota, sizeof call->quota, value);
    if (http_is(name, "event"))
        return copy(call->event, sizeof call->event, value);
    if (http_is(name, "state"))
        return read_state(call, value);
    if (http_is(name, "by"))
        return copy(call->by, sizeof call->by, value) &&
               (http_is(value, "total") || http_is(value, "window") || http_is(value, "day") ||
                http_is(value, "top"));
    if (http_is(name, "limit"))
        return wr_count_parse(value, 10000, &call->limit, &at) == NULL && call->limit > 0;
    if (http_is(name, "month"))
        return call->by_month = true, read_month(call, value);
    if (http_is(name, "from"))
        return call->by_days = true, wr_date_read(value, false, &call->first);
    if (http_is(name, "to"))
        return call->by_days = true, wr_date_read(value, false, &call->last);
    if (http_is(name, "over"))
        return call->over = http_is(value, "1"), call->over || http_is(value, "0");
    if (http_is(name, "format"))
        return call->csv = http_is(value, "csv"), call->csv || http_is(value, "json");
    return false;
}

bool customer_call_query(struct customer_call *call, struct http_service *service,
                         struct weir_slice text, char *scratch, struct http_response *response)
{
    struct wr_query query = {.at = text.ptr, .end = text.ptr + text.len, .scratch = scratch};
    struct weir_slice name, value;

    while (wr_query_next(&query, &name, &value))
        if (!read_parameter(call, name, value))
            return refuse(service, response, "not a value that it can have", name);
    if (call->by_month && call->by_days)
        return refuse(service, response, "expected month, or from and to, found both",
                      (struct weir_slice){"month", 5});
    return call->first <= call->last ||
           refuse(service, response, "expected a day that is not after that of to",
                  (struct weir_slice){"from", 4});
}

static bool is_plan(const struct customer_call *call, struct weir_slice name)
{
    const struct wr_policy *policy = call->handle->policy;

    for (size_t i = 0; i < wr_policy_plan_count(policy); i++)
        if (http_is(name, wr_policy_plan(policy, i)))
            return true;
    return false;
}

static struct weir_slice text_of(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

/* NULL, or what is wrong with |*member|: which of the three are there. */
static const char *judge_trial(const struct customer_call *call,
                               const struct wr_customer_body *body, struct weir_slice *member)
{
    bool has_for = body->trial_for.ptr != NULL, has_until = body->trial_until.ptr != NULL;

    *member = text_of(has_until ? "trial_until" : "trial_for");
    if (body->trial_plan.ptr == NULL)
        return has_for || has_until ? "expected trial_plan beside it, found none" : NULL;
    if (body->trial_plan.len == 0)
        return has_for || has_until ? "an empty trial_plan ends the trial, found when it is to end"
                                    : NULL;
    if (has_for && has_until)
        return "expected trial_for or trial_until, found both";
    *member = text_of("trial_plan");
    if (!is_plan(call, body->trial_plan))
        return "expected a plan of the policy";
    return has_for || has_until ? NULL : "expected trial_for or trial_until beside it";
}

/* The same, and its end. */
static const char *read_trial(struct customer_call *call, const struct wr_customer_body *body,
                              struct weir_slice *member)
{
    static const char *const moment =
        "expected a moment to come, such as 2026-12-31T18:00:00Z, or a day";
    const char *wrong = judge_trial(call, body, member);
    int64_t ns;
    size_t at;

    call->has_trial = body->trial_plan.ptr != NULL;
    if (wrong != NULL || !call->has_trial || body->trial_plan.len == 0)
        return wrong;
    *member = text_of(body->trial_for.ptr != NULL ? "trial_for" : "trial_until");
    if (body->trial_for.ptr != NULL) {
        if (wr_duration_parse(body->trial_for, &ns, &at) != NULL || ns <= 0)
            return "expected a duration such as 14d";
        call->trial_until_ns = call->now_ns + ns;
        return NULL;
    }
    return wr_logtime_until(body->trial_until, &call->trial_until_ns) &&
                   call->trial_until_ns > call->now_ns
               ? NULL
               : moment;
}

/* Is |name| a word of |list|? */
static bool is_in(const char *list, const char *name)
{
    size_t len = strlen(name), word;

    for (; *list != '\0'; list += word, list += strspn(list, " ")) {
        word = strcspn(list, " ");
        if (word == len && memcmp(list, name, len) == 0)
            return true;
    }
    return false;
}

/* Are there members beside |takes|? */
static const char *judge_members(const struct wr_customer_body *body, const char *takes,
                                 struct weir_slice *member)
{
    const struct {
        const char *name;
        bool given;
    } all[] = {
        {"name", body->name.ptr != NULL},
        {"plan", body->plan.ptr != NULL},
        {"tenant", body->tenant.ptr != NULL},
        {"trial_plan", body->trial_plan.ptr != NULL},
        {"trial_for", body->trial_for.ptr != NULL},
        {"trial_until", body->trial_until.ptr != NULL},
        {"anchor", body->anchor >= 0},
        {"partner", body->partner >= 0},
        {"suspended", body->suspended >= 0},
        {"ended", body->ended >= 0},
        {"key", body->key >= 0},
        {"identity", body->identity.ptr != NULL},
        {"value", body->value.ptr != NULL},
        {"prefix", body->prefix.ptr != NULL},
        {"reason", body->reason.ptr != NULL},
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        *member = text_of(all[i].name);
        if (all[i].given && !is_in(takes, all[i].name))
            return is_in("key identity value prefix", all[i].name)
                       ? "not taken here: POST /v1/customers/keys adds a key"
                       : "not taken here";
    }
    return NULL;
}

/* Do the members about a key go together? */
static const char *judge_key(const struct wr_customer_body *body, const char *takes,
                             struct weir_slice *member)
{
    bool given = body->value.ptr != NULL, asked = body->key == 1 || !is_in(takes, "key");

    *member = text_of("key");
    if (given && body->key == 1)
        return "expected key or value, found both: it is made, or it is your own";
    *member = text_of("prefix");
    if (body->prefix.ptr != NULL && (given || !asked))
        return "a prefix is of a key that is made here, and none is";
    *member = text_of("identity");
    return body->identity.ptr != NULL && !given && !asked ? "expected key or value beside it"
                                                          : NULL;
}

static const char *judge_body(const struct customer_call *call, const struct wr_customer_body *body,
                              const char *takes, struct weir_slice *member)
{
    const char *wrong = judge_members(body, takes, member);

    if (wrong == NULL)
        wrong = judge_key(body, takes, member);
    if (wrong != NULL)
        return wrong;
    *member = text_of("name");
    if (call->name[0] != '\0' && body->name.ptr != NULL && !http_is(body->name, call->name))
        return "another name than that of the query; a customer's name stays";
    *member = text_of("ended");
    return body->ended == 1 ? "expected false: DELETE ends a customer" : NULL;
}

/* NULL, or what is wrong with |*member|. */
static const char *take_body(struct customer_call *call, const struct wr_customer_body *body,
                             struct weir_slice *member)
{
    const struct {
        const char *name;
        char *to;
        size_t size;
        struct weir_slice text;
    } texts[] = {
        {"name", call->name, sizeof call->name, body->name},
        {"plan", call->plan, sizeof call->plan, body->plan},
        {"tenant", call->tenant, sizeof call->tenant, body->tenant},
        {"trial_plan", call->trial_plan, sizeof call->trial_plan, body->trial_plan},
        {"reason", call->reason, sizeof call->reason, body->reason},
        {"identity", call->identity, sizeof call->identity, body->identity},
        {"value", call->value, sizeof call->value, body->value},
        {"prefix", call->prefix, sizeof call->prefix, body->prefix},
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *member = text_of(texts[i].name);
        if (texts[i].text.ptr != NULL && !copy(texts[i].to, texts[i].size, texts[i].text))
            return "too long";
    }
    call->has_plan = body->plan.ptr != NULL;
    call->has_tenant = body->tenant.ptr != NULL;
    call->has_value = body->value.ptr != NULL;
    call->anchor = (int)body->anchor;
    call->partner = (int)body->partner;
    call->suspended = (int)body->suspended;
    call->make_key = (int)body->key;
    call->ended = (int)body->ended;
    *member = text_of("plan");
    if (call->has_plan && !is_plan(call, body->plan))
        return "expected a plan of the policy";
    return read_trial(call, body, member);
}

bool customer_call_body(struct customer_call *call, struct http_service *service, const char *takes,
                        char *scratch, struct http_response *response)
{
    struct wr_customer_body body;
    struct weir_slice member;
    const char *wrong;

    if (!wr_customer_body_read(&body, service->request.body, scratch))
        return refuse(service, response, body.error, body.member);
    wrong = judge_body(call, &body, takes, &member);
    if (wrong == NULL)
        wrong = take_body(call, &body, &member);
    return wrong == NULL || refuse(service, response, wrong, member);
}

/* ---- in another thread ----------------------------------------------------------------------- */

void customer_call_refuse(struct http_job_answer *answer, int status, const char *detail,
                          const char *member)
{
    answer->status = status;
    answer->member = member;
    (void)snprintf(answer->detail, sizeof answer->detail, "%s", detail);
}

struct wr_database *customer_call_open(const struct customer_call *call, bool write,
                                       struct http_job_answer *answer)
{
    const struct wr_database_options options = {.path = call->path, .read_only = !write};
    struct wr_database *database;
    struct wr_fault fault;

    if (wr_database_open(&database, &options, &fault) != 0)
        customer_call_refuse(answer, 503, fault.text, NULL);
    return database;
}

bool customer_call_known(const struct customer_call *call, struct wr_database *database,
                         struct http_job_answer *answer)
{
    const struct wr_policy *policy = call->handle->policy;
    int quota = 1, plan = 1, tenant = 1;

    if (call->quota[0] != '\0')
        quota = wr_there_is_quota(database, policy, call->quota);
    if (call->plan[0] != '\0')
        plan = wr_there_is_plan(database, policy, call->plan);
    if (call->tenant[0] != '\0')
        tenant = wr_there_is_tenant(database, call->tenant);
    if (quota < 0 || plan < 0 || tenant < 0)
        customer_call_fail(answer, database, quota < 0 ? quota : plan < 0 ? plan : tenant);
    else if (quota == 0)
        customer_call_refuse(answer, 404, "there is no such quota by customer", "quota");
    else if (plan == 0)
        customer_call_refuse(answer, 404, "there is no such plan", "plan");
    else if (tenant == 0)
        customer_call_refuse(answer, 404, "there is no customer of such a tenant", "tenant");
    return quota == 1 && plan == 1 && tenant == 1;
}

void customer_call_fail(struct http_job_answer *answer, const struct wr_database *database,
                        int result)
{
    const char *why = wr_database_fault(database)->text;

    if (result == WEIR_ENOENT)
        customer_call_refuse(answer, 404, "there is no such customer or key", NULL);
    else if (result == WEIR_EAGAIN)
        customer_call_refuse(answer, 409, why[0] != '\0' ? why : "there is one already", NULL);
    else if (result == WEIR_EINVAL)
        customer_call_refuse(answer, 400, why, NULL);
    else if (result == WEIR_EFULL)
        customer_call_refuse(answer, 507, why, NULL);
    else
        customer_call_refuse(answer, 503, why, NULL);
}
