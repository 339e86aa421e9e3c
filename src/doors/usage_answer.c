/* usage_answer.c - see usage_answer.h. */
#include "doors/usage_answer.h"

#include <string.h>

#include "base/units.h"
#include "doors/customer_page.h"
#include "doors/store_count.h"

#define DAYS 31
#define TOP 10
#define LINES_MAX 10000 /* of an answer */

struct telling {
    struct wr_page *page;
    bool by_window, by_day, csv;
};

static int32_t date_of(const struct telling *telling, const struct wr_report_line *line)
{
    return telling->by_day ? line->day : telling->by_window ? line->window : 0;
}

static bool put_line(void *context, const struct wr_report_line *line)
{
    const struct telling *telling = context;

    if (telling->csv)
        wr_put_usage_csv(telling->page, line, date_of(telling, line));
    else
        wr_put_usage(telling->page, line, date_of(telling, line));
    return !telling->page->full;
}

struct collecting {
    struct customer_call *call;
    bool full;
};

static bool collect(void *context, const struct wr_standing *standing)
{
    struct collecting *collecting = context;

    collecting->full = !store_count_add(collecting->call, standing);
    return !collecting->full;
}

/* The rest of the page, when the store has said what all nodes used. */
static bool finish(void *order, struct http_service *service, struct http_job_answer *answer)
{
    struct customer_call *call = order;
    struct wr_page *page = &answer->page;

    if (!store_count_ask(call, service))
        return false;
    wr_page_key(page, "quotas");
    wr_page_open(page, '[');
    for (size_t i = 0; i < call->standing_count; i++)
        wr_put_standing(page, &call->standing[i]);
    wr_page_close(page, ']');
    wr_page_key(page, "days");
    wr_page_put_slice(page, wr_page_text(&call->days));
    wr_page_close(page, '}');
    page->full = page->full || call->days.full;
    return true;
}

int usage_of_one(struct wr_database *database, struct customer_call *call,
                 const struct wr_customer *customer, struct http_job_answer *answer)
{
    const struct telling telling = {.page = &call->days, .by_day = true};
    struct collecting collecting = {.call = call};
    struct wr_page *page = &answer->page;
    int32_t today = (int32_t)(call->now_ns / WR_NS_PER_DAY);
    const struct wr_report_filter days = {.customer = customer->id,
                                          .first = call->first != 0 ? call->first : today - DAYS,
                                          .last = call->last,
                                          .now_ns = call->now_ns,
                                          .most = LINES_MAX};
    int result;

    call->customer = customer->id;
    answer->finish = finish;
    wr_page_open(page, '{');
    wr_page_key(page, "customer");
    wr_page_name(page, customer->name);
    wr_page_key(page, "plan");
    wr_page_name(page, wr_customer_plan_at(customer, call->now_ns));
    wr_page_key(page, "limits_of");
    wr_page_name(page, wr_customer_limits_of(call->handle->policy, customer, call->now_ns));
    result = wr_standing_each(database, call->handle->policy, customer, call->now_ns, collect,
                              &collecting);
    wr_page_open(&call->days, '[');
    if (result == 0)
        result = wr_report_days(database, &days, put_line, (void *)(uintptr_t)&telling);
    wr_page_close(&call->days, ']');
    page->full = page->full || collecting.full;
    return result;
}

int usage_of_all(struct wr_database *database, const struct customer_call *call, int64_t customer,
                 struct http_job_answer *answer)
{
    struct telling telling = {.page = &answer->page,
                              .by_window = strcmp(call->by, "window") == 0 || call->over,
                              .by_day = strcmp(call->by, "day") == 0,
                              .csv = call->csv};
    bool top = strcmp(call->by, "top") == 0;
    const struct wr_report_filter filter = {
        .customer = customer,
        .quota = call->quota[0] != '\0' ? call->quota : NULL,
        .tenant = call->tenant[0] != '\0' ? call->tenant : NULL,
        .first = call->first,
        .last = call->last,
        .over_only = call->over,
        .now_ns = call->now_ns,
        .most = call->limit > 0 ? call->limit
                : top           ? TOP
                                : LINES_MAX,
    };
    int result;

    if (call->csv) {
        answer->type = "text/csv; charset=utf-8";
        wr_page_put(&answer->page, WR_USAGE_CSV_NAMES);
    } else {
        wr_page_open(&answer->page, '{');
        wr_page_key(&answer->page, "usage");
        wr_page_open(&answer->page, '[');
    }
    if (telling.by_day)
        result = wr_report_days(database, &filter, put_line, &telling);
    else if (telling.by_window)
        result = wr_report_windows(database, &filter, put_line, &telling);
    else if (top)
        result = wr_report_top(database, &filter, put_line, &telling);
    else
        result = wr_report_totals(database, &filter, put_line, &telling);
    if (!call->csv) {
        wr_page_close(&answer->page, ']');
        wr_page_close(&answer->page, '}');
    }
    return result;
}
