/* alert.h - thresholds of quotas: who has reached which, told once per customer, quota, window and
 * percent.
 *
 * A row of the table `alert` is made in the transaction that writes the usage which reached the
 * threshold, so that a kill leaves both or neither. What is then done with it (the log, the
 * webhook) is webhook.h's, and the row says how far that is.
 *
 * Of a shared quota this host's usage is only a part. Its flush leaves a row in `alert_watch`
 * instead; whoever can reach the store (wr_alert_ask_fn) is asked for the whole, and each threshold
 * that it reaches is claimed there, so that of all nodes one tells it. */
#ifndef WR_METER_ALERT_H
#define WR_METER_ALERT_H

#include "meter/customers.h"
#include "policy/quota.h"

#define WR_EVENT_BYTES 16
#define WR_EVENT_TEXT 33 /* in hexadecimal digits, with an end */
#define WR_ALERT_ERROR_MAX 200

/* ---- what is told ------------------------------------------------------------------------------
 */

/* Of one quota, by the policy. */
struct wr_alert_rule {
    uint8_t percent[WR_QUOTA_ALERTS_MAX]; /* ascending */
    uint8_t count;                        /* 0: nothing is told */
    bool shared;                          /* the whole is at the store */
    int64_t limit[WR_POLICY_PLANS_MAX];   /* units, by plan; -1: none */
};

/* A customer's use of a quota in a window. */
struct wr_alert_mark {
    int64_t customer, quota; /* the quota's row, and */
    const char *quota_name;
    const char *plan;  /* its name, */
    int64_t limit;     /* and what it includes */
    uint8_t per;       /* enum wr_per */
    bool hooked;       /* there is a webhook: to be sent */
    int32_t window;    /* its first civil day, */
    int64_t starts_ns; /* when it begins, */
    int64_t ends_ns;   /* and ends */
    uint64_t used;
    int64_t now_ns;
};

/* Is |percent| of |limit| reached? Never of a limit of 0. */
bool wr_alert_reached(uint64_t used, int64_t limit, unsigned percent);

/* The name of the event, the same on every node: of customer, quota, window and percent. */
void wr_alert_event(const struct wr_alert_mark *mark, unsigned percent,
                    unsigned char out[WR_EVENT_BYTES]);

/* Within the transaction that writes |mark|: a row for each threshold that is reached and was not
 * before; of a shared quota, the wish to know the whole. 0 or an error of the database. */
int wr_alert_judge(struct wr_database *database, const struct wr_alert_rule *rule,
                   const struct wr_alert_mark *mark);

/* ---- rows --------------------------------------------------------------------------------------
 */

enum wr_alert_state {
    WR_ALERT_CLAIMING,  /* reached over all nodes; one of them is to tell it */
    WR_ALERT_WAITING,   /* to be sent */
    WR_ALERT_SENT,      /* answered 2xx */
    WR_ALERT_DEAD,      /* given up: somebody is to look at it */
    WR_ALERT_ELSEWHERE, /* another node tells it */
    WR_ALERT_TOLD,      /* in log and metric; there is no webhook */
    WR_ALERT_REFUSED,   /* of upgrades: answered 4xx */
    WR_ALERT_STATES
};
/* "claiming", "waiting", "sent", "dead", "elsewhere", "told", "refused". */
const char *wr_alert_state_name(enum wr_alert_state state);
bool wr_alert_state_of(struct weir_slice name, enum wr_alert_state *out);

enum wr_alert_kind {
    WR_ALERT_QUOTA,   /* a threshold was reached */
    WR_ALERT_UPGRADE, /* somebody is asked whether a customer may move to the next plan */
};

struct wr_alert {
    enum wr_alert_kind kind;
    int64_t id; /* of its row; of an upgrade the customer's */
    char event[WR_EVENT_TEXT];
    int64_t customer;
    char name[WR_CUSTOMER_NAME_MAX + 1];
    char tenant[WR_CUSTOMER_NAME_MAX + 1]; /* "": none */
    char plan[WR_CUSTOMER_PLAN_MAX + 1];   /* then; of an upgrade the one it leaves, */
    char after[WR_CUSTOMER_PLAN_MAX + 1];  /* and the one it is to have; "" otherwise */
    /* Of thresholds; zeros of upgrades: */
    char quota[65], zone[65];
    uint8_t per, percent;
    int32_t window;
    uint64_t used;
    int64_t limit, starts_ns;
    int64_t ends_ns; /* of an upgrade: when the trial ends that |plan| is on; 0: it is on none */
    /* Of all: */
    int64_t at_ns; /* when it was seen */
    enum wr_alert_state state;
    unsigned tries;                     /* to send it, that failed */
    int64_t next_ns;                    /* when it is tried next */
    int64_t since_ns;                   /* when sending was begun */
    int64_t sent_ns;                    /* 0: it was not */
    char error[WR_ALERT_ERROR_MAX + 1]; /* of the last try; "": none */
};
typedef bool wr_alert_fn(void *context, const struct wr_alert *alert);

/* The newest first. Calls |each| until it returns false. 0 or an error of the database. */
struct wr_alert_filter {
    int64_t customer;  /* 0: any */
    int state;         /* -1: any */
    const char *after; /* the event of the last one seen; NULL: from the newest */
    int64_t most;      /* 0: all */
};
int wr_alerts_each(struct wr_database *database, const struct wr_alert_filter *filter,
                   wr_alert_fn *each, void *context);

/* Send |event| (NULL: all that were given up) as if for the first time. Those that wait are tried
 * at once; what another node tells, what there was no webhook for, and questions that were answered
 * stay. Returns how many, or an error of the database. */
int64_t wr_alerts_retry(struct wr_database *database, const char *event, int64_t now_ns);

struct wr_alert_numbers {
    uint64_t waiting, dead; /* upgrades too */
};
int wr_alerts_count(struct wr_database *database, struct wr_alert_numbers *out);

/* ---- for whoever sends them (webhook.h) --------------------------------------------------------
 */

/* Those due at |now_ns|, at most |most|: fresh ones before those that failed. Returns how many, or
 * an error. */
int wr_alerts_due(struct wr_database *database, enum wr_alert_kind kind, int64_t now_ns,
                  struct wr_alert *out, int most);

/* A try has ended, |alert| says how: state, tries, next_ns, sent_ns, error. 0 or an error. */
int wr_alert_note(struct wr_database *database, const struct wr_alert *alert);

/* Those that the log does not have yet; then they have. */
int wr_alerts_unsaid(struct wr_database *database, struct wr_alert *out, int most);
int wr_alert_said(struct wr_database *database, int64_t id);

/* ---- over nodes --------------------------------------------------------------------------------
 */

/* What the store is asked. */
enum wr_alert_answer {
    WR_ALERT_GONE, /* it did not answer: ask again */
    WR_ALERT_NONE, /* there is none, or no such shared quota: this host is all there is */
    WR_ALERT_DONE
};
struct wr_alert_ask {
    bool claim; /* else a look */
    bool mine;  /* a claim, answered */
    enum wr_alert_answer answer;
    /* A look: what was used of |quota| under |plan|. */
    int64_t customer;
    uint64_t used; /* answered */
    char quota[65];
    char plan[WR_CUSTOMER_PLAN_MAX + 1];
    /* A claim: who is the first to take |event|? */
    unsigned char event[WR_EVENT_BYTES];
    uint32_t who;      /* this node's name in this claim: WR_CLAIM_LOW .. 2 * WR_CLAIM_LOW - 2 */
    int64_t window_ns; /* of a fixed window that holds all moments somebody may claim it at */
};
#define WR_CLAIM_LOW (UINT32_C(1) << 28)

/* Fill in the answers. Waits, a few seconds at most. Any thread. */
typedef void wr_alert_ask_fn(void *context, struct wr_alert_ask *asks, size_t count);

/* Ask for what is due, at most a batch, and put the answers into the rows. |node|: the name of
 * this one's rows. Returns 0: nothing is left that is due; 1: there may be more; or an error. */
int wr_alerts_settle(struct wr_database *database, bool hooked, int64_t now_ns,
                     wr_alert_ask_fn *ask, void *context);

#endif
