/* usage_answer.h - /v1/usage of both doors: what customers used, in the answers' words. In another
 * thread than the loop's. */
#ifndef WR_DOORS_USAGE_ANSWER_H
#define WR_DOORS_USAGE_ANSWER_H

#include "doors/customer_call.h"

/* {"customer", "quotas":[…], "days":[…]}: how |customer| stands, and what it used by day since
 * call->first, or in the last 31 days. */
int usage_of_one(struct wr_database *database, struct customer_call *call,
                 const struct wr_customer *customer, struct http_job_answer *answer);

/* {"usage":[…]}, or CSV: sums, windows, days or the largest, as |call| asks; of one customer, or of
 * all (0). */
int usage_of_all(struct wr_database *database, const struct customer_call *call, int64_t customer,
                 struct http_job_answer *answer);

#endif
