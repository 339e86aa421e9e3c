/* customer_page.c - see customer_page.h. What is not there is null. */
#include "doors/customer_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "algo/civil.h"
#include "wire/logtime.h"

const char *wr_moment_words(int64_t ns, char *out, size_t size)
{
    char text[WR_LOGTIME_TEXT_MAX] = "-";

    if (ns != 0)
        (void)wr_logtime_format(ns, text);
    (void)snprintf(out, size, "%s", text);
    return out;
}

const char *wr_date_text(int32_t day, char *out, size_t size)
{
    unsigned month, of_month;
    int year;

    wr_civil_date(day, &year, &month, &of_month);
    (void)snprintf(out, size, "%04d-%02u-%02u", year, month, of_month);
    return out;
}

/* |n| digits, and nothing else. */
static bool read_digits(const char *at, size_t n, unsigned *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        *out = *out * 10 + (unsigned)(at[i] - '0');
    }
    return true;
}

bool wr_date_read(struct weir_slice text, bool month, int32_t *day)
{
    unsigned y, m, d = 1, again_month, again_day;
    int year;

    if (text.len != (month ? 7 : 10) || text.ptr[4] != '-' || !read_digits(text.ptr, 4, &y) ||
        !read_digits(text.ptr + 5, 2, &m))
        return false;
    if (!month && (text.ptr[7] != '-' || !read_digits(text.ptr + 8, 2, &d)))
        return false;
    if (y < 1970 || m < 1 || m > 12 || d < 1 || d > 31)
        return false;
    *day = wr_civil_day_of((int)y, m, d);
    wr_civil_date(*day, &year, &again_month, &again_day);
    return again_month == m && again_day == d;
}

int32_t wr_month_end(int32_t day)
{
    unsigned month, of_month;
    int year;

    wr_civil_date(day, &year, &month, &of_month);
    return wr_civil_day_of(month == 12 ? year + 1 : year, month % 12 + 1, 1) - 1;
}

const char *wr_per_text(uint8_t per)
{
    static const char *const names[] = {"", "day", "week", "month"};

    return per <= WR_PER_MONTH ? names[per] : "";
}

const char *wr_customer_limits_of(const struct wr_policy *policy,
                                  const struct wr_customer *customer, int64_t now_ns)
{
    return wr_policy_plan(policy, wr_standing_plan(policy, customer, now_ns));
}

const char *wr_customer_state_text(const struct wr_customer *customer)
{
    return customer->ended ? "ended" : customer->suspended ? "suspended" : "active";
}

static void put_text(struct wr_page *page, const char *name, const char *text)
{
    wr_page_key(page, name);
    wr_page_name(page, text[0] == '\0' || strcmp(text, "-") == 0 ? NULL : text);
}

static void put_moment(struct wr_page *page, const char *name, int64_t ns)
{
    char text[WR_LOGTIME_TEXT_MAX];

    put_text(page, name, wr_moment_words(ns, text, sizeof text));
}

/* A string: a number of 63 bits is another one where numbers are doubles. */
static void put_id(struct wr_page *page, int64_t id)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRId64, id);
    put_text(page, "id", text);
}

void wr_put_customer(struct wr_page *page, const struct wr_policy *policy,
                     const struct wr_customer *customer, int64_t now_ns)
{
    wr_page_open(page, '{');
    put_id(page, customer->id);
    put_text(page, "name", customer->name);
    put_text(page, "tenant", customer->tenant);
    put_text(page, "plan", customer->plan);
    put_text(page, "plan_now", wr_customer_plan_at(customer, now_ns));
    put_text(page, "limits_of", wr_customer_limits_of(policy, customer, now_ns));
    put_text(page, "trial_plan", customer->trial_plan);
    put_moment(page, "trial_until", customer->trial_until_ns);
    wr_page_key(page, "anchor");
    if (customer->anchor != 0)
        wr_page_uint(page, customer->anchor);
    else
        wr_page_null(page); /* as each quota says */
    wr_page_key(page, "partner");
    wr_page_bool(page, customer->partner);
    put_text(page, "state", wr_customer_state_text(customer));
    wr_page_key(page, "wants_upgrade");
    wr_page_bool(page, customer->wants_upgrade);
    wr_page_key(page, "from_file");
    wr_page_bool(page, customer->from_file);
    put_moment(page, "created", customer->created_ns);
    put_moment(page, "ended", customer->ended_ns);
    wr_page_close(page, '}');
}

void wr_put_key(struct wr_page *page, const struct wr_customer_key *key)
{
    char id[WR_KEY_ID_TEXT];

    wr_key_id(key->digest, id);
    wr_page_open(page, '{');
    put_text(page, "id", id);
    put_text(page, "identity", key->identity);
    put_text(page, "hint", key->hint);
    put_moment(page, "created", key->created_ns);
    put_moment(page, "revoked", key->revoked_ns);
    wr_page_close(page, '}');
}

void wr_put_audit(struct wr_page *page, const struct wr_audit *audit)
{
    wr_page_open(page, '{');
    wr_page_key(page, "id");
    wr_page_int(page, audit->id);
    put_moment(page, "at", audit->at_ns);
    put_text(page, "who", audit->who);
    put_text(page, "what", audit->what);
    put_text(page, "before", audit->before);
    put_text(page, "after", audit->after);
    put_text(page, "reason", audit->reason);
    wr_page_close(page, '}');
}

void wr_put_standing(struct wr_page *page, const struct wr_standing *standing)
{
    static const char *const outcomes[] = {"deny", "overage", "upgrade"};
    char date[16];

    wr_page_open(page, '{');
    put_text(page, "quota", standing->quota);
    put_text(page, "per", wr_per_text(standing->per));
    put_text(page, "zone", standing->zone);
    put_text(page, "window", wr_date_text(standing->window, date, sizeof date));
    put_moment(page, "began", standing->start_ns);
    put_moment(page, "resets_at", standing->end_ns);
    wr_page_key(page, "used");
    wr_page_uint(page, standing->used);
    wr_page_key(page, "over");
    wr_page_uint(page, standing->over);
    wr_page_key(page, "limit");
    if (standing->limit >= 0)
        wr_page_int(page, standing->limit);
    else
        wr_page_null(page);
    wr_page_key(page, "remaining");
    if (standing->limit >= 0 && (!standing->shared || standing->all))
        wr_page_int(page, standing->remaining);
    else
        wr_page_null(page);
    put_text(page, "on_exceed", standing->limit >= 0 ? outcomes[standing->on_exceed] : "");
    wr_page_key(page, "shared");
    wr_page_bool(page, standing->shared);
    put_text(page, "scope", standing->all ? "all" : "node");
    wr_page_close(page, '}');
}

void wr_put_usage(struct wr_page *page, const struct wr_report_line *line, int32_t date)
{
    char text[16] = "";

    if (date != 0)
        (void)wr_date_text(date, text, sizeof text);
    wr_page_open(page, '{');
    put_text(page, "customer", line->name);
    put_text(page, "tenant", line->tenant);
    put_text(page, "plan_now", line->plan);
    put_text(page, "quota", line->quota.name);
    put_text(page, "per", wr_per_text(line->quota.per));
    put_text(page, "date", text);
    wr_page_key(page, "used");
    wr_page_uint(page, line->used);
    wr_page_key(page, "over");
    if (line->over_known)
        wr_page_uint(page, line->over);
    else
        wr_page_null(page);
    put_text(page, "last_day", wr_date_text(line->last, text, sizeof text));
    wr_page_key(page, "closed");
    wr_page_bool(page, line->closed);
    wr_page_close(page, '}');
}

static void put_field(struct wr_page *page, const char *text)
{
    bool quoted = strpbrk(text, "\",\r\n") != NULL;

    if (quoted)
        wr_page_put(page, "\"");
    if (text[0] != '\0' && strchr("=+-@\t\r", text[0]) != NULL)
        wr_page_put(page, "'");
    for (; *text != '\0'; text++) {
        if (*text == '"')
            wr_page_put(page, "\"");
        wr_page_put_slice(page, (struct weir_slice){text, 1});
    }
    wr_page_put(page, quoted ? "\"," : ",");
}

void wr_put_usage_csv(struct wr_page *page, const struct wr_report_line *line, int32_t date)
{
    char text[16] = "";

    if (date != 0)
        (void)wr_date_text(date, text, sizeof text);
    put_field(page, line->name);
    put_field(page, line->tenant);
    put_field(page, line->plan);
    put_field(page, line->quota.name);
    put_field(page, wr_per_text(line->quota.per));
    put_field(page, text);
    wr_page_put_uint(page, line->used);
    wr_page_put(page, ",");
    if (line->over_known)
        wr_page_put_uint(page, line->over);
    wr_page_put(page, ",");
    put_field(page, wr_date_text(line->last, text, sizeof text));
    wr_page_put(page, line->closed ? "yes\r\n" : "no\r\n");
}
