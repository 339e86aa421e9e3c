/* customer_page.h - customers and what they used as JSON, for the doors and the command line. */
#ifndef WR_DOORS_CUSTOMER_PAGE_H
#define WR_DOORS_CUSTOMER_PAGE_H

#include "doors/page.h"
#include "meter/standing.h"

/* A moment in RFC 3339, of |size| bytes; "-" for 0. Returns |out|. */
const char *wr_moment_words(int64_t ns, char *out, size_t size);
/* |day| since 1970 as 2026-11-30. Returns |out|. */
const char *wr_date_text(int32_t day, char *out, size_t size);
/* 2026-11-30, or with |month| 2026-11: its first day. False: it is none. */
bool wr_date_read(struct weir_slice text, bool month, int32_t *day);
/* The last day of the month that |day| lies in. */
int32_t wr_month_end(int32_t day);
/* "day", "week", "month" of enum wr_per. */
const char *wr_per_text(uint8_t per);
/* The plan whose limits hold for |customer|: its own, or the default one where the policy has no
 * such plan. */
const char *wr_customer_limits_of(const struct wr_policy *policy,
                                  const struct wr_customer *customer, int64_t now_ns);
/* "active", "suspended", "ended". */
const char *wr_customer_state_text(const struct wr_customer *customer);

/* An object each. */
void wr_put_customer(struct wr_page *page, const struct wr_policy *policy,
                     const struct wr_customer *customer, int64_t now_ns);
void wr_put_key(struct wr_page *page, const struct wr_customer_key *key);
void wr_put_audit(struct wr_page *page, const struct wr_audit *audit);
void wr_put_standing(struct wr_page *page, const struct wr_standing *standing);
/* |date|: of the window or day; 0: a sum over several. */
void wr_put_usage(struct wr_page *page, const struct wr_report_line *line, int32_t date);

/* The same as a line of CSV (RFC 4180), and the line of names above all. A field that a spreadsheet
 * would take for a formula gets an apostrophe. */
#define WR_USAGE_CSV_NAMES "customer,tenant,plan_now,quota,per,date,used,over,last_day,closed\r\n"
void wr_put_usage_csv(struct wr_page *page, const struct wr_report_line *line, int32_t date);

#endif
