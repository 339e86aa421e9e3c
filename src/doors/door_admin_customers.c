/* door_admin_customers.c - /v1/customers: who the customers are; making and changing them, their
 * keys; /v1/customers/log.
 *
 * What is answered is in the database, and by then in customers.map too, so that the next request
 * is decided by it. Answers are made in another thread (http_job.h): a disk may not answer.
 *
 * Invariant: a key that was made is told in the answer to its making, and nowhere else. */
#include <string.h>

#include "doors/customer_call.h"
#include "doors/customer_page.h"
#include "doors/door_admin.h"
#include "serve/keeping.h"

#define PAGE_CUSTOMERS 1000
#define PASS_MS 2000

static struct wr_author author_of(const struct customer_call *call)
{
    return (struct wr_author){call->who, call->reason, call->now_ns};
}

/* ---- looking --------------------------------------------------------------------------------- */

static void put_customer(struct wr_page *page, const struct customer_call *call,
                         const struct wr_customer *customer)
{
    wr_put_customer(page, call->handle->policy, customer, call->now_ns);
}

struct listing {
    struct wr_page *page;
    const struct customer_call *call;
    int64_t count, most;
    char last[WR_CUSTOMER_NAME_MAX + 1];
    bool more;
};

static bool list_one(void *context, const struct wr_customer *customer)
{
    struct listing *listing = context;

    if (listing->count == listing->most) {
        listing->more = true;
        return false;
    }
    listing->count++;
    memcpy(listing->last, customer->name, sizeof listing->last);
    put_customer(listing->page, listing->call, customer);
    return true;
}

static bool list_key(void *context, const struct wr_customer_key *key)
{
    wr_put_key(context, key);
    return true;
}

static bool list_audit(void *context, const struct wr_audit *audit)
{
    wr_put_audit(context, audit);
    return true;
}

static int list(struct wr_database *database, const struct customer_call *call,
                struct wr_page *page)
{
    struct listing listing = {
        .page = page, .call = call, .most = call->limit > 0 ? call->limit : PAGE_CUSTOMERS};
    const struct wr_customer_filter filter = {
        .after = call->after[0] != '\0' ? call->after : NULL,
        .tenant = call->tenant[0] != '\0' ? call->tenant : NULL,
        .plan = call->plan[0] != '\0' ? call->plan : NULL,
    };
    int result;

    wr_page_open(page, '{');
    wr_page_key(page, "customers");
    wr_page_open(page, '[');
    result = wr_customers_each(database, &filter, list_one, &listing);
    wr_page_close(page, ']');
    admin_put_name(page, "next_after", listing.more ? listing.last : NULL);
    wr_page_close(page, '}');
    return result;
}

static int show(struct wr_database *database, const struct wr_customer *customer,
                const struct customer_call *call, struct wr_page *page)
{
    int result;

    wr_page_open(page, '{');
    wr_page_key(page, "customer");
    put_customer(page, call, customer);
    wr_page_key(page, "keys");
    wr_page_open(page, '[');
    result = wr_customer_keys(database, customer->id, list_key, page);
    wr_page_close(page, ']');
    wr_page_key(page, "changes");
    wr_page_open(page, '[');
    if (result == 0)
        result = wr_audit_each(database, customer->id, 0, list_audit, page);
    wr_page_close(page, ']');
    wr_page_close(page, '}');
    return result;
}

static void work_get(void *order, struct http_job_answer *answer)
{
    const struct customer_call *call = order;
    struct wr_database *database = customer_call_open(call, false, answer);
    struct wr_customer customer;
    int result;

    if (database == NULL)
        return;
    if (!customer_call_known(call, database, answer)) {
        wr_database_close(database);
        return;
    }
    answer->status = 200;
    if (call->name[0] == '\0') {
        result = list(database, call, &answer->page);
    } else {
        result = wr_customer_find(database, call->name, &customer);
        if (result == 0)
            result = show(database, &customer, call, &answer->page);
    }
    if (result != 0)
        customer_call_fail(answer, database, result);
    wr_database_close(database);
}

/* ---- changing -------------------------------------------------------------------------------- */

static const char *identity_of(const struct customer_call *call)
{
    const struct wr_policy_customers *customers =
        wr_policy_settings(call->handle->policy)->customers;

    if (call->identity[0] == '\0')
        return customers->by[0];
    for (unsigned i = 0; i < customers->by_count; i++)
        if (strcmp(customers->by[i], call->identity) == 0)
            return call->identity;
    return NULL;
}

/* Add the key that is given or made; |made|, of WR_KEY_TEXT_MAX, is then to be told. */
static int add_key(struct wr_database *database, const struct customer_call *call, int64_t customer,
                   char *made, struct wr_customer_key *key)
{
    const struct wr_author author = author_of(call);
    const char *identity = identity_of(call);
    struct weir_slice value = {call->value, strlen(call->value)};
    int result;

    made[0] = '\0';
    if (!call->has_value) {
        result = wr_key_make(call->prefix, made);
        if (result != 0)
            return result;
        value = (struct weir_slice){made, strlen(made)};
    }
    return wr_customer_add_key(database, customer, (struct weir_slice){identity, strlen(identity)},
                               value, &author, key);
}

static void tell(struct wr_page *page, const struct customer_call *call,
                 const struct wr_customer *customer, const struct wr_customer_key *key,
                 const char *made)
{
    wr_page_open(page, '{');
    wr_page_key(page, "customer");
    put_customer(page, call, customer);
    if (key != NULL) {
        wr_page_key(page, "key");
        wr_put_key(page, key);
        admin_put_name(page, "secret", made[0] != '\0' ? made : NULL);
    }
    wr_page_close(page, '}');
}

/* Customer and key are made together or not at all. */
static int create(struct wr_database *database, const struct customer_call *call,
                  struct wr_page *page)
{
    const struct wr_policy *policy = call->handle->policy;
    const struct wr_author author = author_of(call);
    const struct wr_customers_place place =
        wr_customers_place_for(database, wr_policy_settings(policy)->customers->room);
    const struct wr_customer_new made = {
        .name = call->name,
        .tenant = call->has_tenant ? call->tenant : NULL,
        .plan =
            call->has_plan ? call->plan : wr_policy_plan(policy, wr_policy_default_plan(policy)),
        .anchor = (uint8_t)(call->anchor > 0 ? call->anchor : 0),
        .partner = call->partner == 1,
        .suspended = call->suspended == 1,
        .trial_plan = call->trial_plan[0] != '\0' ? call->trial_plan : NULL,
        .trial_until_ns = call->trial_until_ns,
        .first = place.first,
        .room = place.room,
    };
    bool with_key = call->make_key == 1 || call->has_value;
    struct wr_customer customer;
    struct wr_customer_key key;
    char secret[WR_KEY_TEXT_MAX] = "";
    int result = wr_database_begin(database);

    if (result != 0)
        return result;
    result = wr_customer_create(database, &made, &author, &customer);
    if (result == 0 && with_key)
        result = add_key(database, call, customer.id, secret, &key);
    if (result == 0)
        result = wr_database_commit(database);
    else
        wr_database_rollback(database);
    if (result == 0)
        tell(page, call, &customer, with_key ? &key : NULL, secret);
    explicit_bzero(secret, sizeof secret);
    return result;
}

static int change(struct wr_database *database, const struct customer_call *call, int64_t id,
                  struct wr_page *page)
{
    const struct wr_author author = author_of(call);
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    struct wr_customer customer;
    int result;

    change.plan = call->has_plan ? call->plan : NULL;
    change.tenant = call->has_tenant ? call->tenant : NULL;
    change.trial_plan = call->has_trial ? call->trial_plan : NULL;
    change.trial_until_ns = call->trial_until_ns;
    change.anchor = call->anchor;
    change.partner = call->partner;
    change.suspended = call->suspended;
    result = wr_database_begin(database);
    if (result != 0)
        return result;
    if (call->ended == 0)
        result = wr_customer_resume(database, id, &author);
    if (result == 0)
        result = wr_customer_change(database, id, &change, &author, &customer);
    if (result == 0)
        result = wr_database_commit(database);
    else
        wr_database_rollback(database);
    if (result == 0)
        tell(page, call, &customer, NULL, "");
    return result;
}

static int end(struct wr_database *database, const struct customer_call *call, int64_t id,
               struct wr_page *page)
{
    const struct wr_author author = author_of(call);
    struct wr_customer customer;
    int result = wr_customer_end(database, id, &author);

    if (result == 0)
        result = wr_customer_get(database, id, &customer);
    if (result == 0)
        tell(page, call, &customer, NULL, "");
    return result;
}

static int add_key_to(struct wr_database *database, const struct customer_call *call, int64_t id,
                      struct wr_page *page)
{
    struct wr_customer customer;
    struct wr_customer_key key;
    char secret[WR_KEY_TEXT_MAX] = "";
    int result = add_key(database, call, id, secret, &key);

    if (result == 0)
        result = wr_customer_get(database, id, &customer);
    if (result == 0)
        tell(page, call, &customer, &key, secret);
    explicit_bzero(secret, sizeof secret);
    return result;
}

static int revoke_key(struct wr_database *database, const struct customer_call *call, int64_t id,
                      struct wr_page *page)
{
    const struct wr_author author = author_of(call);
    struct wr_customer_key key;
    int result = wr_customer_find_key(database, id, call->key_id, &key);

    if (result == 0)
        result = wr_customer_revoke_key(database, key.digest, &author);
    key.revoked_ns = call->now_ns;
    if (result == 0)
        wr_put_key(page, &key);
    return result;
}

typedef int change_fn(struct wr_database *database, const struct customer_call *call, int64_t id,
                      struct wr_page *page);

/* |change| is NULL: a new customer. */
static void work_change(const struct customer_call *call, change_fn *how,
                        struct http_job_answer *answer)
{
    struct wr_database *database = customer_call_open(call, true, answer);
    struct wr_customer customer;
    int result;

    if (database == NULL)
        return;
    answer->status = 200;
    if (how == NULL) {
        result = create(database, call, &answer->page);
    } else {
        result = wr_customer_find(database, call->name, &customer);
        if (result == 0)
            result = how(database, call, customer.id, &answer->page);
    }
    if (result != 0)
        customer_call_fail(answer, database, result);
    wr_database_close(database);
    if (result == 0)
        (void)wr_keeping_pass(call->server, PASS_MS);
}

static void work_create(void *order, struct http_job_answer *answer)
{
    work_change(order, NULL, answer);
}

static void work_set(void *order, struct http_job_answer *answer)
{
    work_change(order, change, answer);
}

static void work_end(void *order, struct http_job_answer *answer)
{
    work_change(order, end, answer);
}

static void work_key_add(void *order, struct http_job_answer *answer)
{
    work_change(order, add_key_to, answer);
}

static void work_key_revoke(void *order, struct http_job_answer *answer)
{
    work_change(order, revoke_key, answer);
}

/* ---- handlers -------------------------------------------------------------------------------- */

/* Is it said who it is about? */
static bool has_name(struct customer_call *call, struct http_service *service,
                     struct http_response *response)
{
    if (call->name[0] != '\0')
        return true;
    http_problem(service, response, 400, "expected name=CUSTOMER", (struct weir_slice){"name", 4});
    return false;
}

/* |body|: the members that it may have; NULL: none is read. |order| asks about one customer. */
static void begin_job(struct http_service *service, struct weir_slice peer, const char *body,
                      const struct customer_order *order, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    struct weir_slice member = {NULL, 0};
    struct customer_call *call;
    const char *wrong = NULL;

    if (http_job_answered(&door->jobs, service, response))
        return;
    call = customer_call_new(service, response);
    if (call == NULL)
        return;
    (void)snprintf(call->who, sizeof call->who, "admin:%.*s", (int)peer.len, peer.ptr);
    if (!customer_call_query(call, service, http_query(&service->request), door->decoded,
                             response) ||
        (body != NULL && !customer_call_body(call, service, body, door->decoded, response)) ||
        (order->of_one && !has_name(call, service, response))) {
        customer_call_free(call);
        return;
    }
    if (order->judge != NULL)
        wrong = order->judge(call, &member);
    if (wrong == NULL && body != NULL && identity_of(call) == NULL) {
        member = (struct weir_slice){"identity", 8};
        wrong = "expected a name of customers.by";
    }
    if (wrong != NULL) {
        customer_call_free(call);
        http_problem(service, response, 400, wrong, member);
        return;
    }
    http_job_begin(&door->jobs, service, order->work, call, customer_call_free, response);
}

void admin_customer_job(struct http_service *service, struct weir_slice peer,
                        const struct customer_order *order, struct http_response *response)
{
    begin_job(service, peer, NULL, order, response);
}

/* A name asks for one customer, the others for a page of them. */
static const char *judge_get(const struct customer_call *call, struct weir_slice *member)
{
    const char *beside = call->after[0] != '\0'    ? "after"
                         : call->plan[0] != '\0'   ? "plan"
                         : call->tenant[0] != '\0' ? "tenant"
                         : call->limit > 0         ? "limit"
                                                   : NULL;

    if (call->name[0] == '\0' || beside == NULL)
        return NULL;
    *member = (struct weir_slice){beside, strlen(beside)};
    return "does nothing beside name, which asks for one customer";
}

static const char *judge_key_id(const struct customer_call *call, struct weir_slice *member)
{
    *member = (struct weir_slice){"id", 2};
    return call->key_id[0] != '\0' ? NULL : "expected id=KEY, as the customer's keys have it";
}

void admin_customers_get(struct http_service *service, struct weir_slice peer,
                         const struct wr_http_request *request, struct http_response *response)
{
    static const struct customer_order order = {work_get, false, judge_get};
    (void)request;

    begin_job(service, peer, NULL, &order, response);
}

void admin_customers_post(struct http_service *service, struct weir_slice peer,
                          const struct wr_http_request *request, struct http_response *response)
{
    static const struct customer_order order = {work_create, false, NULL};
    (void)request;

    begin_job(service, peer,
              "name plan tenant anchor partner suspended trial_plan trial_for trial_until key "
              "identity value prefix reason",
              &order, response);
}

void admin_customers_patch(struct http_service *service, struct weir_slice peer,
                           const struct wr_http_request *request, struct http_response *response)
{
    static const struct customer_order order = {work_set, true, NULL};
    (void)request;

    begin_job(service, peer,
              "name plan tenant anchor partner suspended ended trial_plan trial_for trial_until "
              "reason",
              &order, response);
}

/* An end needs no body, and may have one that says why. */
static const char *why_of(const struct wr_http_request *request)
{
    return request->body.len > 0 ? "name reason" : NULL;
}

void admin_customers_delete(struct http_service *service, struct weir_slice peer,
                            const struct wr_http_request *request, struct http_response *response)
{
    static const struct customer_order order = {work_end, true, NULL};

    begin_job(service, peer, why_of(request), &order, response);
}

void admin_customer_keys_post(struct http_service *service, struct weir_slice peer,
                              const struct wr_http_request *request, struct http_response *response)
{
    static const struct customer_order order = {work_key_add, true, NULL};
    (void)request;

    begin_job(service, peer, "name identity value prefix reason", &order, response);
}

void admin_customer_keys_delete(struct http_service *service, struct weir_slice peer,
                                const struct wr_http_request *request,
                                struct http_response *response)
{
    static const struct customer_order order = {work_key_revoke, true, judge_key_id};

    begin_job(service, peer, why_of(request), &order, response);
}
