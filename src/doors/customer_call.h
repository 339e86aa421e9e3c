/* customer_call.h - what is asked of the customers' database, taken out of a request so that
 * another thread can do it. */
#ifndef WR_DOORS_CUSTOMER_CALL_H
#define WR_DOORS_CUSTOMER_CALL_H

#include "doors/http_job.h"
#include "meter/alert.h"
#include "meter/report.h"
#include "meter/standing.h"
#include "policy/customers.h"

#define CALL_WHO_MAX 100

struct customer_call {
    struct wr_handle *handle; /* the policy of that moment */
    struct wr_server *server;
    char path[4200]; /* of the database */
    int64_t now_ns;
    char who[CALL_WHO_MAX]; /* "admin:127.0.0.1" */
    /* of the query */
    char name[WR_CUSTOMER_NAME_MAX + 1], after[WR_CUSTOMER_NAME_MAX + 1];
    char tenant[WR_CUSTOMER_NAME_MAX + 1], plan[WR_CUSTOMER_PLAN_MAX + 1];
    char key_id[WR_KEY_ID_TEXT], quota[WR_CUSTOMER_PLAN_MAX + 1], by[16];
    char event[WR_EVENT_TEXT];
    int state; /* enum wr_alert_state; -1: not said */
    int64_t limit;
    int32_t first, last; /* days; first 0: not said */
    bool over, csv, by_month, by_days;
    /* of the body */
    char trial_plan[WR_CUSTOMER_PLAN_MAX + 1], reason[WR_CUSTOMER_WHY_MAX + 1];
    char identity[WR_CUSTOMER_PLAN_MAX + 1], value[WR_KEY_VALUE_MAX + 1];
    char prefix[WR_KEY_PREFIX_MAX + 1];
    bool has_plan, has_tenant, has_trial, has_value;
    int64_t trial_until_ns;
    int anchor, partner, suspended, make_key, ended; /* -1: not said */
    /* of a caller who asks for himself: digests of what he may be known by */
    unsigned char digest[WR_CUSTOMERS_BY_MAX][WR_SHA256_BYTES];
    unsigned digest_count;
    /* of the answer, until the store has been asked (store_count.h) */
    int64_t customer;
    struct wr_standing *standing;
    size_t standing_count;
    struct wr_page days;
};

/* A call under the loop's policy; NULL: no memory, or no customers, and |response| says so. */
struct customer_call *customer_call_new(struct http_service *service,
                                        struct http_response *response);
void customer_call_free(void *call);

/* Read |query| and the request's body into |call|. False: |response| says what is wrong. |scratch|
 * has room for the longer of both. */
bool customer_call_query(struct customer_call *call, struct http_service *service,
                         struct weir_slice query, char *scratch, struct http_response *response);
/* |takes|: the members that it may have, between blanks. */
bool customer_call_body(struct customer_call *call, struct http_service *service, const char *takes,
                        char *scratch, struct http_response *response);

/* In another thread: the database, or NULL and |answer| says why. */
struct wr_database *customer_call_open(const struct customer_call *call, bool write,
                                       struct http_job_answer *answer);
/* Is there a quota, a plan, a tenant by the names in the query? False: |answer| says which not. */
bool customer_call_known(const struct customer_call *call, struct wr_database *database,
                         struct http_job_answer *answer);
/* An error of it. */
void customer_call_fail(struct http_job_answer *answer, const struct wr_database *database,
                        int result);
void customer_call_refuse(struct http_job_answer *answer, int status, const char *detail,
                          const char *member);

#endif
