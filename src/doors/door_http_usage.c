/* door_http_usage.c - GET /v1/usage: a caller asks, with its own key, how it stands.
 *
 * The caller is known as for a decision: by the identities of customers.by, from the request's own
 * header fields, believed from whom the policy believes them. Nothing is charged. Who is no
 * customer is told so, and nothing else. */
#include <string.h>

#include "doors/door_http.h"
#include "doors/usage_answer.h"
#include "policy/explain.h"

#define MISSING "expected a key that leads to a customer, in the header fields of customers.by"

static void work(void *order, struct http_job_answer *answer)
{
    struct customer_call *call = order;
    struct wr_database *database = customer_call_open(call, false, answer);
    struct wr_customer customer;
    int result = WEIR_ENOENT;

    if (database == NULL)
        return;
    for (unsigned i = 0; i < call->digest_count && result == WEIR_ENOENT; i++)
        result = wr_customer_of_key(database, call->digest[i], &customer);
    answer->status = 200;
    if (result == WEIR_ENOENT)
        customer_call_refuse(answer, 401, MISSING, NULL);
    else if (result == 0)
        result = usage_of_one(database, call, &customer, answer);
    if (result != 0 && result != WEIR_ENOENT)
        customer_call_fail(answer, database, result);
    wr_database_close(database);
}

/* What the caller may be known by. */
static void read_keys(struct http_door *door, struct weir_slice peer,
                      const struct wr_http_request *request, struct customer_call *call)
{
    const struct wr_policy *policy = call->handle->policy;
    const struct wr_policy_customers *customers = wr_policy_settings(policy)->customers;
    struct weir_request asked = {.method = request->method,
                                 .path = http_path(request),
                                 .peer = peer,
                                 .fields = door->fields,
                                 .field_count = door->policy.field_count,
                                 .cost_units = -1,
                                 .plan = -1,
                                 .peek = true};
    struct wr_selection selection;

    http_collect_fields(door, request);
    wr_policy_select(policy, &asked, &selection);
    for (unsigned i = 0; i < customers->by_count; i++) {
        const struct weir_slice value =
            wr_policy_believed(policy, &asked, &selection, customers->identity[i]);
        if (value.len > 0)
            wr_key_digest((struct weir_slice){customers->by[i], strlen(customers->by[i])}, value,
                          call->digest[call->digest_count++]);
    }
}

void http_usage(struct http_service *service, struct weir_slice peer,
                const struct wr_http_request *request, struct http_response *response)
{
    struct http_door *door = http_door_of(service);
    struct customer_call *call;

    if (http_job_answered(&door->jobs, service, response))
        return;
    if (http_refuse_repeated(door, request, response))
        return;
    call = customer_call_new(service, response);
    if (call == NULL)
        return;
    if (!http_fields_room(door, 1)) {
        customer_call_free(call);
        http_problem(service, response, 503, "out of memory", (struct weir_slice){NULL, 0});
        return;
    }
    read_keys(door, peer, request, call);
    http_job_begin(&door->jobs, service, work, call, customer_call_free, response);
}
