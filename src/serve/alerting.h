/* alerting.h - what the keeper asks the store of shared quotas (meter/alert.h), asked in a loop's
 * thread, which has the store open; and its alerts, in the log. */
#ifndef WR_SERVE_ALERTING_H
#define WR_SERVE_ALERTING_H

#include <pthread.h>

#include "meter/alert.h"

struct wr_worker;

struct wr_alerting {
    pthread_mutex_t mutex;
    struct wr_worker *worker; /* whose loop asks; NULL: none turns */
};

void wr_alerting_init(struct wr_alerting *alerting);
void wr_alerting_fini(struct wr_alerting *alerting);

/* By |worker| from here on; NULL: the loops end. */
void wr_alerting_by(struct wr_alerting *alerting, struct wr_worker *worker);

/* wr_alert_ask_fn; |context| is a struct wr_alerting. */
void wr_alerting_ask(void *context, struct wr_alert_ask *asks, size_t count);

/* An alert into the log. */
void wr_alerting_log(const struct wr_alert *alert);

#endif
