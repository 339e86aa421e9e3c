/* door_admin_alerts.c - /v1/alerts: what was told, what waits, what was given up; and to send it
 * again. By another thread (http_job.h), from the database. */
#include <string.h>

#include "doors/alert_page.h"
#include "doors/customer_call.h"
#include "doors/door_admin.h"

#define PAGE_ALERTS 1000

struct listing {
    struct wr_page *page;
    int64_t count, most;
    char last[WR_EVENT_TEXT];
    bool more;
};

static bool list_one(void *context, const struct wr_alert *alert)
{
    struct listing *listing = context;

    if (listing->count == listing->most) {
        listing->more = true;
        return false;
    }
    listing->count++;
    memcpy(listing->last, alert->event, sizeof listing->last);
    wr_put_alert(listing->page, alert);
    return true;
}

/* 0, WEIR_ENOENT (no such customer), or an error of the database. */
static int list(struct wr_database *database, const struct customer_call *call,
                struct wr_page *page)
{
    struct listing listing = {.page = page, .most = call->limit > 0 ? call->limit : PAGE_ALERTS};
    struct wr_alert_filter filter = {.state = call->state,
                                     .after = call->after[0] != '\0' ? call->after : NULL};
    struct wr_customer customer;
    int result = 0;

    if (call->name[0] != '\0') {
        result = wr_customer_find(database, call->name, &customer);
        filter.customer = customer.id;
    }
    if (result != 0)
        return result;
    wr_page_open(page, '{');
    wr_page_key(page, "alerts");
    wr_page_open(page, '[');
    result = wr_alerts_each(database, &filter, list_one, &listing);
    wr_page_close(page, ']');
    admin_put_name(page, "next_after", listing.more ? listing.last : NULL);
    wr_page_close(page, '}');
    return result;
}

static void work_get(void *order, struct http_job_answer *answer)
{
    const struct customer_call *call = order;
    struct wr_database *database = customer_call_open(call, false, answer);
    int result;

    if (database == NULL)
        return;
    answer->status = 200;
    result = list(database, call, &answer->page);
    if (result != 0)
        customer_call_fail(answer, database, result);
    wr_database_close(database);
}

static void work_retry(void *order, struct http_job_answer *answer)
{
    const struct customer_call *call = order;
    struct wr_database *database = customer_call_open(call, true, answer);
    int64_t count;

    if (database == NULL)
        return;
    count = wr_alerts_retry(database, call->event[0] != '\0' ? call->event : NULL, call->now_ns);
    answer->status = 200;
    if (count < 0) {
        customer_call_fail(answer, database, (int)count);
    } else if (count == 0 && call->event[0] != '\0') {
        customer_call_refuse(answer, 404, "there is no such event that can be sent", "event");
    } else {
        wr_page_open(&answer->page, '{');
        admin_put_int(&answer->page, "retried", count);
        wr_page_close(&answer->page, '}');
    }
    wr_database_close(database);
}

void admin_alerts_get(struct http_service *service, struct weir_slice peer,
                      const struct wr_http_request *request, struct http_response *response)
{
    static const struct customer_order order = {work_get, false, NULL};
    (void)request;

    admin_customer_job(service, peer, &order, response);
}

void admin_alerts_retry(struct http_service *service, struct weir_slice peer,
                        const struct wr_http_request *request, struct http_response *response)
{
    static const struct customer_order order = {work_retry, false, NULL};
    (void)request;

    admin_customer_job(service, peer, &order, response);
}
