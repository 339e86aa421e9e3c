/* door_admin.h - what the files of the admin door share: door_admin.c (the door, its paths, its
 * key) and one file for each thing that it tells. */
#ifndef WR_DOORS_DOOR_ADMIN_H
#define WR_DOORS_DOOR_ADMIN_H

#include "doors/http_job.h"
#include "doors/http_policy.h"
#include "doors/http_service.h"
#include "doors/page.h"
#include "engine/explain.h"
#include "wire/exposition.h"

/* One listening socket, on the first loop. All but the service's connections is scratch memory for
 * the request at hand. */
struct admin_door {
    struct http_service service; /* first */
    bool is_unix;
    struct wr_page page;          /* the answer's body; empty when a handler is called */
    struct wr_exposition metrics; /* of /metrics, kept for its memory */
    uint64_t scrapes;
    struct http_policy policy;   /* in force */
    char *decoded;               /* WR_HTTP_BODY_MAX: strings of JSON, parameters */
    struct weir_request request; /* to be explained; its fields: */
    struct weir_slice fields[WR_POLICY_FIELDS_MAX];
    struct wr_explanation explanation;
    struct http_jobs jobs; /* of customers and usage */
};

static inline struct admin_door *admin_door_of(struct http_service *service)
{
    return (struct admin_door *)service;
}

http_handler admin_limits, admin_explain, admin_key_get, admin_key_delete;

/* door_admin_envoy.c; admin_put_envoy: what of it is in force, as a member. */
http_handler admin_explain_envoy, admin_key_envoy_get, admin_key_envoy_delete;
void admin_put_envoy(struct wr_page *page, const struct wr_policy *policy);

/* Answer |status| with the door's page as body, or 503 where memory did not last. */
void admin_page(struct admin_door *door, struct http_response *response, int status,
                const char *type);

http_handler admin_bans_get, admin_bans_post, admin_bans_delete; /* door_admin_bans.c */

/* What is asked of the customers' database: |work| is given a struct customer_call. */
struct customer_call;
struct customer_order {
    http_work *work;
    bool of_one; /* a name has to be said */
    /* NULL, or what is wrong with |*member|: parameters that do not go together. May be NULL. */
    const char *(*judge)(const struct customer_call *call, struct weir_slice *member);
};
/* Read the query, and have it done. */
void admin_customer_job(struct http_service *service, struct weir_slice peer,
                        const struct customer_order *order, struct http_response *response);

/* door_admin_customers.c, door_admin_usage.c */
http_handler admin_customers_get, admin_customers_post, admin_customers_patch,
    admin_customers_delete, admin_customer_keys_post, admin_customer_keys_delete, admin_usage;

http_handler admin_alerts_get, admin_alerts_retry; /* door_admin_alerts.c */

/* GET /v1/keys of a quota that is billed, door_admin_billed.c: |key| is a customer's; |plan| -1: as
 * it is his. http_job_answered was asked before. */
void admin_billed_get(struct http_service *service, const struct wr_named_key *key, int plan,
                      struct http_response *response);

http_handler admin_metrics; /* door_admin_metrics.c */

/* ---- members of a page: door_admin_words.c --------------------------------------------------- */

/* "key_ms":ns in ms, rounded up; null where |ns| < 0. */
void admin_put_ms(struct wr_page *page, const char *key, int64_t ns);
void admin_put_int(struct wr_page *page, const char *key, int64_t value);
void admin_put_bool(struct wr_page *page, const char *key, bool value);
void admin_put_name(struct wr_page *page, const char *key, const char *text); /* NULL: null */

/* "id":… of a customer: a string, as readers of JSON keep 53 bits of a number. */
void admin_put_id(struct wr_page *page, uint64_t id);

/* "value":… of something that an operator may see. */
void admin_put_clear(struct wr_page *page, struct weir_slice value);

/* The members for the value of the identity called |identity|: "value" of a user, and for anything
 * else, which may be a secret, its beginning as "masked" and its length as "bytes". */
void admin_put_value(struct wr_page *page, const char *identity, struct weir_slice value);

/* "key":[…], part by part. */
void admin_put_key(struct wr_page *page, const struct wr_policy *policy,
                   const struct wr_selected *selected);

#endif
