/* alert_page.c - an alert as JSON: what was posted, and how far that is. */
#include "doors/alert_page.h"

#include "doors/customer_page.h"
#include "wire/logtime.h"

static void put_name(struct wr_page *page, const char *key, const char *text)
{
    wr_page_key(page, key);
    wr_page_name(page, text[0] != '\0' ? text : NULL);
}

static void put_int(struct wr_page *page, const char *key, int64_t value)
{
    wr_page_key(page, key);
    wr_page_int(page, value);
}

/* null for 0. */
static void put_moment(struct wr_page *page, const char *key, int64_t moment_ns)
{
    char text[WR_LOGTIME_TEXT_MAX];

    wr_page_key(page, key);
    wr_page_name(page, moment_ns != 0 ? wr_moment_words(moment_ns, text, sizeof text) : NULL);
}

static void put_quota(struct wr_page *page, const struct wr_alert *alert)
{
    char date[16];

    put_name(page, "quota", alert->quota);
    put_int(page, "percent", alert->percent);
    put_int(page, "used", (int64_t)alert->used);
    put_int(page, "limit", alert->limit);
    wr_page_key(page, "window");
    wr_page_open(page, '{');
    put_name(page, "first_day", wr_date_text(alert->window, date, sizeof date));
    put_name(page, "per", wr_per_text(alert->per));
    put_name(page, "zone", alert->zone);
    put_moment(page, "start", alert->starts_ns);
    put_moment(page, "end", alert->ends_ns);
    wr_page_close(page, '}');
}

void wr_put_alert(struct wr_page *page, const struct wr_alert *alert)
{
    bool upgrade = alert->kind == WR_ALERT_UPGRADE;

    wr_page_open(page, '{');
    put_name(page, "event", alert->event);
    put_name(page, "type", upgrade ? "upgrade" : "quota");
    put_moment(page, "time", alert->at_ns);
    put_name(page, "customer", alert->name);
    put_name(page, "plan", alert->plan);
    if (upgrade)
        put_name(page, "upgrade_to", alert->after);
    else
        put_quota(page, alert);
    put_name(page, "state", wr_alert_state_name(alert->state));
    put_int(page, "failed_tries", alert->tries);
    put_name(page, "error", alert->error);
    put_moment(page, "next_try", alert->state == WR_ALERT_WAITING ? alert->next_ns : 0);
    put_moment(page, "sent", alert->sent_ns);
    wr_page_close(page, '}');
}
