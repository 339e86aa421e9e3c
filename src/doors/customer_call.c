/* customer_call.c - reading what is asked, opening the database, saying what is wrong. */
#include "doors/customer_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "doors/customer_page.h"
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
    return call;
}

void customer_call_free(void *order)
{
    struct customer_call *call = order;

    if (call == NULL)
        return;
    wr_handle_unref(call->handle);
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
        return read_month(call, value);
    if (http_is(name, "from"))
        return wr_date_read(value, false, &call->first);
    if (http_is(name, "to"))
        return wr_date_read(value, false, &call->last);
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
            return refuse(service, response, "no such parameter, or not such a value", name);
    if (query.error != NULL)
        return refuse(service, response, query.error, name);
    return call->first <= call->last ||
           refuse(service, response, "expected a day that is not after that of to",
                  (struct weir_slice){"from", 4});
}

static bool read_trial(struct customer_call *call, const struct wr_customer_body *body,
                       const char **wrong, struct weir_slice *member)
{
    int64_t ns;
    size_t at;

    *member = (struct weir_slice){"trial_plan", 10};
    *wrong = "expected trial_for or trial_until beside it, one of them";
    if (body->trial_plan.ptr == NULL)
        return body->trial_for.ptr == NULL && body->trial_until.ptr == NULL;
    call->has_trial = true;
    if (body->trial_plan.len == 0) /* ends it */
        return body->trial_for.ptr == NULL && body->trial_until.ptr == NULL;
    if ((body->trial_for.ptr == NULL) == (body->trial_until.ptr == NULL))
        return false;
    if (body->trial_for.ptr != NULL) {
        *member = (struct weir_slice){"trial_for", 9};
        *wrong = "expected a duration such as 14d";
        if (wr_duration_parse(body->trial_for, &ns, &at) != NULL)
            return false;
        call->trial_until_ns = call->now_ns + ns;
    } else {
        *member = (struct weir_slice){"trial_until", 11};
        *wrong = "expected a moment to come, such as 2026-12-31T18:00:00Z, or a day";
        if (!wr_logtime_until(body->trial_until, &call->trial_until_ns))
            return false;
    }
    return call->trial_until_ns > call->now_ns;
}

static bool is_plan(const struct customer_call *call, const char *name)
{
    const struct wr_policy *policy = call->handle->policy;

    for (size_t i = 0; i < wr_policy_plan_count(policy); i++)
        if (strcmp(wr_policy_plan(policy, i), name) == 0)
            return true;
    return false;
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
    const char *wrong;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *member = (struct weir_slice){texts[i].name, strlen(texts[i].name)};
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
    *member = (struct weir_slice){"plan", 4};
    if (call->has_plan && !is_plan(call, call->plan))
        return "expected a plan of the policy";
    if (!read_trial(call, body, &wrong, member))
        return wrong;
    if (call->trial_plan[0] != '\0' && !is_plan(call, call->trial_plan))
        return "expected a plan of the policy";
    return NULL;
}

bool customer_call_body(struct customer_call *call, struct http_service *service,
                        struct weir_slice text, char *scratch, struct http_response *response)
{
    struct wr_customer_body body;
    struct weir_slice member;
    const char *wrong;

    if (!wr_customer_body_read(&body, text, scratch))
        return refuse(service, response, body.error, body.member);
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
