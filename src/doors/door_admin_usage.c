/* door_admin_usage.c - /v1/usage of the admin door: any customer, or all of them. */
#include "doors/door_admin.h"
#include "doors/usage_answer.h"

static void work(void *order, struct http_job_answer *answer)
{
    const struct customer_call *call = order;
    struct wr_database *database = customer_call_open(call, false, answer);
    struct wr_customer customer;
    int result;

    if (database == NULL)
        return;
    answer->status = 200;
    if (call->name[0] == '\0') {
        result = usage_of_all(database, call, answer);
    } else {
        result = wr_customer_find(database, call->name, &customer);
        if (result == 0)
            result = usage_of_one(database, call, &customer, &answer->page);
    }
    if (result != 0)
        customer_call_fail(answer, database, result);
    wr_database_close(database);
}

void admin_usage(struct http_service *service, struct weir_slice peer,
                 const struct wr_http_request *request, struct http_response *response)
{
    admin_customer_job(service, peer, request, false, work, response);
}
