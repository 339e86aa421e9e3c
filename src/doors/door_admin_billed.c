/* door_admin_billed.c - /v1/keys of a quota that is billed: what a customer has used of it.
 *
 * The problem. Such a quota is in no slot: its count lies in a cell by the customer's number, which
 * its id does not lead to without the database; and what plan he has is known there too.
 *
 * Idea. The ledger is brought up to the cells and asked, in another thread. Where the disk is in
 * trouble, the answer is what the ledger had before it. Where nodes share the quota, the store is
 * asked then, for what all of them used.
 *
 * Nothing of it is ever forgotten here: it is on a bill. */
#include <stdlib.h>

#include "base/arith.h"
#include "doors/customer_call.h"
#include "doors/door_admin.h"
#include "doors/store_count.h"
#include "meter/standing.h"
#include "serve/keeping.h"

#define PASS_MS 2000

struct billed {
    struct customer_call *call; /* of its members the policy, the database and the moment */
    struct wr_named_key key;
    int plan; /* -1: the customer's */
};

static void forget(void *order)
{
    struct billed *billed = order;

    customer_call_free(billed->call);
    free(billed);
}

static void put(struct wr_page *page, const struct billed *billed,
                const struct wr_standing *standing)
{
    const struct wr_policy *policy = billed->call->handle->policy;
    int64_t left_ns = wr_max_i64(0, standing->end_ns - billed->call->now_ns);
    bool unlimited = standing->limit < 0;

    wr_page_open(page, '{');
    admin_put_name(page, "limit", standing->quota);
    admin_put_key(page, policy, &billed->key.selected);
    admin_put_name(page, "plan",
                   wr_policy_plan_count(policy) > 1 ? wr_policy_plan(policy, (size_t)billed->plan)
                                                    : NULL);
    admin_put_bool(page, "unlimited", unlimited);
    if (!unlimited) {
        admin_put_int(page, "capacity", standing->limit);
        if (!standing->shared || standing->all)
            admin_put_int(page, "remaining", standing->remaining);
    }
    admin_put_int(page, "used", (int64_t)standing->used);
    if (!unlimited) {
        admin_put_ms(page, "next_ms", (int64_t)standing->used < standing->most ? 0 : left_ns);
        admin_put_ms(page, "reset_ms", standing->used > 0 ? left_ns : 0);
    }
    admin_put_name(page, "scope", standing->all ? "all" : "node");
    wr_page_close(page, '}');
}

static bool finish(void *order, struct http_service *service, struct http_job_answer *answer)
{
    const struct billed *billed = order;

    if (!store_count_ask(billed->call, service))
        return false;
    put(&answer->page, billed, &billed->call->standing[0]);
    return true;
}

static void work(void *order, struct http_job_answer *answer)
{
    struct billed *billed = order;
    const struct wr_policy *policy = billed->call->handle->policy;
    struct wr_database *database;
    struct wr_customer customer;
    struct wr_standing standing;
    int result;

    (void)wr_keeping_pass(billed->call->server, PASS_MS);
    database = customer_call_open(billed->call, false, answer);
    if (database == NULL)
        return;
    result = wr_customer_get(database, (int64_t)billed->key.customer[0], &customer);
    if (result == 0) {
        billed->call->customer = customer.id;
        if (billed->plan < 0)
            billed->plan = (int)wr_standing_plan(policy, &customer, billed->call->now_ns);
        result = wr_standing_of(database, wr_policy_limit(policy, billed->key.selected.limit),
                                (unsigned)billed->plan, &customer, billed->call->now_ns, &standing);
    }
    answer->status = 200;
    answer->finish = finish;
    if (result != 0)
        customer_call_fail(answer, database, result);
    else if (!store_count_add(billed->call, &standing))
        customer_call_refuse(answer, 503, "out of memory", NULL);
    wr_database_close(database);
}

void admin_billed_get(struct http_service *service, const struct wr_named_key *key, int plan,
                      struct http_response *response)
{
    struct customer_call *call = customer_call_new(service, response);
    struct billed *billed = call != NULL ? calloc(1, sizeof *billed) : NULL;

    if (billed == NULL) {
        customer_call_free(call);
        if (call != NULL)
            http_problem(service, response, 503, "out of memory", (struct weir_slice){NULL, 0});
        return;
    }
    billed->call = call;
    billed->key = *key;
    billed->key.selected.part[0].bytes.ptr = (const char *)&billed->key.customer[0];
    billed->plan = plan;
    http_job_begin(&admin_door_of(service)->jobs, service, work, billed, forget, response);
}
