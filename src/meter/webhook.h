/* webhook.h - the thread that tells what alert.h has noted: to the log, at the store of shared
 * quotas, and by HTTP POST; and that asks whether a customer may move to the next plan.
 *
 * It works by the rows of the database alone, so that whatever ends it, the next one goes on. Slow
 * or broken receivers hold up nothing else: neither decisions, nor the ledger, nor each other. */
#ifndef WR_METER_WEBHOOK_H
#define WR_METER_WEBHOOK_H

#include "base/diag.h"
#include "meter/keeper.h"
#include "policy/customers.h"

#define WR_WEBHOOK_KINDS 2 /* enum wr_alert_kind */

/* ---- where to ----------------------------------------------------------------------------------
 */

struct wr_webhook_end {
    char *url; /* NULL: nowhere */
    char *secret, *ca_file;
    int64_t timeout_ns, give_up_ns;
};
struct wr_webhook_ends {
    struct wr_webhook_end end[WR_WEBHOOK_KINDS]; /* by enum wr_alert_kind */
};

/* As |customers| has it, secrets read from their files. 0, WEIR_EPOLICY (|diag|), WEIR_ENOMEM. */
int wr_webhook_ends_new(struct wr_webhook_ends **out, const struct wr_policy_customers *customers,
                        struct wr_diag *diag);
void wr_webhook_ends_free(struct wr_webhook_ends *ends);

/* ---- what is sent ------------------------------------------------------------------------------
 */

#define WR_WEBHOOK_BODY_MAX 4096
#define WR_WEBHOOK_SIGNATURE_MAX 128

/* The JSON of |alert| into |out|; its length. */
size_t wr_webhook_body(char out[WR_WEBHOOK_BODY_MAX], const struct wr_alert *alert);

/* The value of Weir-Signature: "t=1700000000,v1=…", the HMAC-SHA256 under |secret| of what t says,
 * a dot, and the body, in hexadecimal digits. */
void wr_webhook_sign(char out[WR_WEBHOOK_SIGNATURE_MAX], const char *secret, int64_t now_ns,
                     struct weir_slice body);

/* How long to wait after |tries| that failed: twice as long each time, up to a quarter of an hour,
 * and of that a part by |random|, from half to all. */
int64_t wr_webhook_backoff_ns(unsigned tries, uint32_t random);

/* ---- the thread --------------------------------------------------------------------------------
 */

struct wr_webhook;
struct wr_webhook_options {
    const char *path;                       /* of the database */
    const struct wr_keeper_options *keeper; /* say, told, ask, context, now_ns; copied */
    void (*moved)(void *of, bool upgraded); /* a customer has changed */
    void *of;
};
/* |*out| does nothing until it is told to go. 0 or WEIR_ENOMEM. */
int wr_webhook_start(struct wr_webhook **out, const struct wr_webhook_options *options);

/* Where to from now on: the thread's. */
void wr_webhook_take(struct wr_webhook *hook, struct wr_webhook_ends *ends);

/* This process keeps the ledger, and there may be something to tell. */
void wr_webhook_go(struct wr_webhook *hook);

/* Let go of the database, and do not open it until it is resumed: its file is to be renamed, and
 * whoever closes one that was would take the log of the next away. Waits for what the thread is at,
 * a few seconds at most. */
void wr_webhook_pause(struct wr_webhook *hook);
void wr_webhook_resume(struct wr_webhook *hook);

/* Wait a moment for what is being sent, then end. NULL does nothing. */
void wr_webhook_stop(struct wr_webhook *hook);

void wr_webhook_state(struct wr_webhook *hook, struct wr_webhook_state *out);

#endif
