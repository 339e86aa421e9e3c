/* door_admin_usage.c - /v1/usage of the admin door: how a customer stands, or lines of what one or
 * all of them used. */
#include <string.h>

#include "doors/door_admin.h"
#include "doors/usage_answer.h"

/* Is something asked that only lines can tell? */
static bool asks_lines(const struct customer_call *call)
{
    return call->name[0] == '\0' || call->by[0] != '\0' || call->quota[0] != '\0' || call->over ||
           call->csv || call->limit > 0;
}

static void work(void *order, struct http_job_answer *answer)
{
    struct customer_call *call = order;
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
        result = usage_of_all(database, call, 0, answer);
    } else {
        result = wr_customer_find(database, call->name, &customer);
        if (result == 0 && asks_lines(call))
            result = usage_of_all(database, call, customer.id, answer);
        else if (result == 0)
            result = usage_of_one(database, call, &customer, answer);
    }
    if (result != 0)
        customer_call_fail(answer, database, result);
    wr_database_close(database);
}

static const char *judge(const struct customer_call *call, struct weir_slice *member)
{
    *member = (struct weir_slice){"tenant", 6};
    if (call->name[0] != '\0' && call->tenant[0] != '\0')
        return "does nothing beside name, which asks for one customer";
    *member = (struct weir_slice){"over", 4};
    if (call->over && call->by[0] != '\0' && strcmp(call->by, "window") != 0)
        return "overage is told by window: expected by=window, or no by";
    return NULL;
}

void admin_usage(struct http_service *service, struct weir_slice peer,
                 const struct wr_http_request *request, struct http_response *response)
{
    static const struct customer_order order = {work, false, judge};
    (void)request;

    admin_customer_job(service, peer, &order, response);
}
