/* door_admin_keys.c - /v1/keys: what one key has of one limit, and forgetting what it has used.
 *
 * A key is named by the limit's own words, `by=PART:VALUE` for each part of it, so that it is the
 * key of the requests that come with those values; or by `key=VALUE`, as programs do that name
 * their keys themselves (WEIR.CHECK, weir_check). */
#include <string.h>

#include "doors/door_admin.h"
#include "lib/handle.h"
#include "policy/quota.h"
#include "serve/broker.h"
#include "serve/log.h"
#include "wire/query.h"

static const struct weir_slice nothing = {NULL, 0};

struct asked {
    struct weir_slice limit_name, plan_name, plain;
    struct weir_slice by[WEIR_KEY_PARTS_MAX];
    unsigned by_count;
    unsigned limit, plan;
    struct wr_named_key key;
};

static bool refuse(struct admin_door *door, struct http_response *response, const char *detail,
                   struct weir_slice member)
{
    http_problem(&door->service, response, 400, detail, member);
    return false;
}

static struct weir_slice text_of(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

/* ---- what is asked -------------------------------------------------------------------------- */

/* NULL, or what is wrong. Which there are, and that all but by come once, is checked before
 * (http_query.c). */
static const char *take_parameter(struct asked *asked, struct weir_slice name,
                                  struct weir_slice value)
{
    struct weir_slice *once = http_is(name, "limit")  ? &asked->limit_name
                              : http_is(name, "plan") ? &asked->plan_name
                              : http_is(name, "key")  ? &asked->plain
                                                      : NULL;

    if (once != NULL) {
        *once = value;
        return NULL;
    }
    if (asked->by_count == WEIR_KEY_PARTS_MAX)
        return "given more often than a key can have parts";
    asked->by[asked->by_count++] = value;
    return NULL;
}

static bool read_query(struct admin_door *door, const struct wr_http_request *request,
                       struct asked *asked, struct http_response *response)
{
    struct weir_slice text = http_query(request), name, value;
    struct wr_query query = {.at = text.ptr, .end = text.ptr + text.len, .scratch = door->decoded};

    while (wr_query_next(&query, &name, &value)) {
        const char *wrong = take_parameter(asked, name, value);
        if (wrong != NULL)
            return refuse(door, response, wrong, name);
    }
    if (query.error != NULL)
        return refuse(door, response, query.error, name);
    if (asked->limit_name.len == 0)
        return refuse(door, response, "expected limit=NAME", text_of("limit"));
    return true;
}

/* 404, with the names that there are. */
static bool unknown(struct admin_door *door, struct http_response *response, const char *member,
                    size_t count, const char *(*name_of)(const struct wr_policy *, size_t))
{
    struct wr_page *page = &door->page;

    wr_page_open(page, '{');
    admin_put_name(page, "type", "about:blank");
    admin_put_name(page, "title", "Not Found");
    admin_put_int(page, "status", 404);
    admin_put_name(page, "detail", "the policy in force has none of this name; see known");
    admin_put_name(page, "member", member);
    wr_page_key(page, "known");
    wr_page_open(page, '[');
    for (size_t i = 0; i < count; i++)
        wr_page_name(page, name_of(door->service.loop->handle->policy, i));
    wr_page_close(page, ']');
    wr_page_close(page, '}');
    admin_page(door, response, 404, "application/problem+json");
    return false;
}

static const char *limit_name(const struct wr_policy *policy, size_t index)
{
    return wr_policy_limit(policy, index)->name;
}

static bool find_limit(struct admin_door *door, struct asked *asked, struct http_response *response)
{
    const struct wr_policy *policy = door->service.loop->handle->policy;
    size_t count = wr_policy_limit_count(policy);

    asked->limit = 0;
    while (asked->limit < count && !http_is(asked->limit_name, limit_name(policy, asked->limit)))
        asked->limit++;
    return asked->limit < count || unknown(door, response, "limit", count, limit_name);
}

static bool find_plan(struct admin_door *door, struct asked *asked, struct http_response *response)
{
    const struct wr_handle *handle = door->service.loop->handle;
    int plan = asked->plan_name.ptr == NULL ? (int)wr_policy_default_plan(handle->policy)
                                            : weir_plan_find(handle->weir, asked->plan_name);

    asked->plan = plan >= 0 ? (unsigned)plan : 0;
    return plan >= 0 ||
           unknown(door, response, "plan", wr_policy_plan_count(handle->policy), wr_policy_plan);
}

static bool read_parts(struct admin_door *door, struct asked *asked, struct http_response *response)
{
    const struct wr_policy *policy = door->service.loop->handle->policy;
    const char *lacks;

    for (unsigned i = 0; i < asked->by_count; i++) {
        struct weir_slice by = asked->by[i];
        const char *colon = memchr(by.ptr, ':', by.len), *wrong;
        struct weir_slice name = {by.ptr, colon != NULL ? (size_t)(colon - by.ptr) : by.len};
        if (colon == NULL)
            return refuse(door, response, "expected by=PART:VALUE", text_of("by"));
        wrong = wr_named_key_give(policy, &asked->key, name,
                                  (struct weir_slice){colon + 1, by.len - name.len - 1});
        if (wrong != NULL)
            return refuse(door, response, wrong, name);
    }
    lacks = wr_named_key_lacks(policy, &asked->key);
    return lacks == NULL ||
           refuse(door, response, "expected by=PART:VALUE for this part of the limit's key too",
                  text_of(lacks));
}

static bool is_billed(const struct admin_door *door, const struct asked *asked)
{
    const struct wr_policy_quota *quota =
        wr_policy_limit(door->service.loop->handle->policy, asked->limit)->quota;

    return quota != NULL && quota->exact;
}

/* A quota that is billed counts customers, and no key that a program names. */
static bool read_plain(struct admin_door *door, struct asked *asked, struct http_response *response)
{
    if (is_billed(door, asked))
        return refuse(
            door, response,
            "this quota is billed, and counts customers alone: by=customer:ID, with an id "
            "of /v1/customers",
            text_of("key"));
    if (asked->by_count > 0)
        return refuse(door, response, "expected by or key, found both", text_of("key"));
    wr_named_key_plain(&asked->key, asked->plain);
    return true;
}

/* Which key of which limit? False: it is answered. */
static bool read_asked(struct admin_door *door, const struct wr_http_request *request,
                       struct asked *asked, struct http_response *response)
{
    memset(asked, 0, sizeof *asked);
    if (!read_query(door, request, asked, response) || !find_limit(door, asked, response) ||
        !find_plan(door, asked, response))
        return false;
    wr_named_key_begin(&asked->key, asked->limit);
    return asked->plain.ptr == NULL ? read_parts(door, asked, response)
                                    : read_plain(door, asked, response);
}

/* ---- answers -------------------------------------------------------------------------------- */

static void put_asked(struct admin_door *door, const struct asked *asked)
{
    const struct wr_policy *policy = door->service.loop->handle->policy;

    wr_page_open(&door->page, '{');
    admin_put_name(&door->page, "limit", limit_name(policy, asked->limit));
    admin_put_key(&door->page, policy, &asked->key.selected);
}

static void put_state(struct admin_door *door, const struct weir_verdict *verdict, int64_t now)
{
    struct wr_page *page = &door->page;
    int64_t next_ns, reset_ns;

    weir_verdict_times(door->service.loop->handle->weir, verdict, now, &next_ns, &reset_ns);
    admin_put_int(page, "capacity", verdict->capacity_units);
    admin_put_int(page, "remaining", verdict->remaining_units);
    admin_put_int(page, "used", verdict->capacity_units - verdict->remaining_units);
    admin_put_ms(page, "next_ms", next_ns);
    admin_put_ms(page, "reset_ms", reset_ns);
}

void admin_key_get(struct http_service *service, struct weir_slice peer,
                   const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    const struct wr_handle *handle = service->loop->handle;
    int64_t now = wr_loop_now(service->loop);
    struct weir_answer answer;
    struct weir_verdict verdict;
    struct asked asked;
    bool limited;

    (void)peer;
    if (http_job_answered(&door->jobs, service, response) ||
        !read_asked(door, request, &asked, response))
        return;
    if (is_billed(door, &asked)) {
        admin_billed_get(service, &asked.key, asked.plan_name.ptr != NULL ? (int)asked.plan : -1,
                         response);
        return;
    }
    if (wr_asks_shares_limit(service->loop, asked.limit)) {
        if (!wr_asks_one(service->asks, &asked.key.selected, asked.plan, 0, &answer)) {
            response->waits = true;
            return;
        }
        verdict = answer.verdicts[0];
        limited = verdict.capacity_units != INT64_MAX;
    } else {
        limited =
            wr_engine_peek(handle->weir->engine, &asked.key.selected, asked.plan, now, &verdict);
    }
    put_asked(door, &asked);
    admin_put_name(&door->page, "plan",
                   door->policy.has_plans ? wr_policy_plan(handle->policy, asked.plan) : NULL);
    admin_put_bool(&door->page, "unlimited", !limited);
    if (limited)
        put_state(door, &verdict, now);
    wr_page_close(&door->page, '}');
    admin_page(door, response, 200, "application/json");
}

void admin_key_delete(struct http_service *service, struct weir_slice peer,
                      const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    const struct wr_handle *handle = service->loop->handle;
    struct asked asked;
    int result;

    (void)peer;
    if (!read_asked(door, request, &asked, response))
        return;
    if (is_billed(door, &asked)) {
        http_problem(service, response, 409,
                     "what is counted of this quota is billed, and is not forgotten: see "
                     "/v1/usage?name=CUSTOMER; what should not count is settled with less",
                     text_of("limit"));
        return;
    }
    result = wr_broker_forget(service->loop, &asked.key.selected);
    if (result == WEIR_EBUSY) {
        http_problem(service, response, 503, "a stopped process holds this key; try again",
                     nothing);
        http_add_field(response, "Retry-After", (struct weir_slice){"1", 1});
        return;
    }
    wr_log(WR_LOG_INFO, "key reset", wr_log_text("limit", limit_name(handle->policy, asked.limit)),
           wr_log_number("found", result == 0));
    put_asked(door, &asked);
    admin_put_bool(&door->page, "reset", result == 0);
    wr_page_close(&door->page, '}');
    admin_page(door, response, 200, "application/json");
}
