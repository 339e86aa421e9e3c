/* customers.h - who the customers are: rows of the database, every change of them with who, when
 * and why, in one transaction with its line of the audit log.
 *
 * Nothing here touches customers.map, which is what decisions read: mirror.h brings it up to the
 * database, in the daemon within `customers.flush`, or at once by wr_keeper_pass.
 *
 * What a change of plan means. Usage goes on counting: the window and what was used in it stay. The
 * new plan's limit holds from the next decision on, so a customer who moves down may be over it at
 * once. Overage that was made stays overage, and is billed as such. */
#ifndef WR_METER_CUSTOMERS_H
#define WR_METER_CUSTOMERS_H

#include "meter/database.h"
#include "store/customers.h"

#define WR_CUSTOMER_NAME_MAX                                             \
    128 /* bytes, without an end: printable UTF-8, no blanks at its ends \
         */
#define WR_CUSTOMER_PLAN_MAX 64
#define WR_CUSTOMER_WHO_MAX 128
#define WR_CUSTOMER_WHY_MAX 512
#define WR_KEY_HINT_MAX 4     /* last bytes of a key, for people to tell their keys apart */
#define WR_KEY_VALUE_MAX 1024 /* bytes of a key */
#define WR_KEY_ID_TEXT 17     /* 16 hexadecimal digits and an end */
#define WR_KEY_TEXT_MAX 128   /* of a generated key, with its end */
#define WR_KEY_PREFIX_MAX 32

/* A change is made by somebody, at a moment, for a reason. */
struct wr_author {
    const char *who; /* "cli:root", "admin:10.0.0.1", "file:customers.yaml", "weir" */
    const char *why; /* may be "" */
    int64_t now_ns;
};

struct wr_customer {
    int64_t id;      /* of its name: the same on every node */
    uint32_t number; /* its cells on this host, from 0 */
    char name[WR_CUSTOMER_NAME_MAX + 1];
    char tenant[WR_CUSTOMER_NAME_MAX + 1]; /* "": none */
    char plan[WR_CUSTOMER_PLAN_MAX + 1];
    char trial_plan[WR_CUSTOMER_PLAN_MAX + 1]; /* holds until trial_until_ns; "": no trial */
    int64_t trial_until_ns;
    uint8_t anchor; /* day of the month its months begin on, 1..31; 0: none of its own */
    bool partner, suspended;
    bool from_file;     /* it stands in the customers' file, and is changed there */
    bool ended;         /* is a customer no more: its keys lead nowhere, its history stays */
    bool wants_upgrade; /* waits for a confirmation */
    int64_t created_ns, ended_ns;
};

struct wr_customer_key {
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES]; /* of wr_customer_digest: never the key */
    int64_t customer;
    char identity[WR_CUSTOMER_PLAN_MAX + 1]; /* api_key, user: as in identity: of the policy */
    char hint[WR_KEY_HINT_MAX + 1];          /* its last bytes; "" where the key is short */
    int64_t created_ns, revoked_ns;          /* 0: it is not */
};

struct wr_audit {
    int64_t id, at_ns, customer;
    char who[WR_CUSTOMER_WHO_MAX + 1];
    char what[32];    /* "create", "plan", "suspend", "key add", … */
    char before[256]; /* "" where there is none */
    char after[256];
    char reason[WR_CUSTOMER_WHY_MAX + 1];
};

/* The identifier of the customer called |name|: the first 63 bits of its SHA-256, so that nodes
 * that share limits agree on it without asking each other. */
int64_t wr_customer_id(const char *name);

/* The digest of a key, as the database and customers.map have it. */
void wr_key_digest(struct weir_slice identity, struct weir_slice value,
                   unsigned char out[WR_CUSTOMER_DIGEST_BYTES]);

/* The name of a key in words: 16 hexadecimal digits of its digest. */
void wr_key_id(const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES], char out[WR_KEY_ID_TEXT]);

/* A new key: |prefix| (at most WR_KEY_PREFIX_MAX of [A-Za-z0-9_-]; may be "") and 256 random bits
 * in base62. 0 or WEIR_EIO (no randomness), WEIR_EINVAL. */
int wr_key_make(const char *prefix, char out[WR_KEY_TEXT_MAX]);

/* ---- changing ----------------------------------------------------------------------------------
 *
 * Each is a transaction of its own, or part of one that the caller has begun. All return 0;
 * WEIR_EINVAL (a value out of its range: wr_database_fault says which); WEIR_ENOENT (no such
 * customer or key); WEIR_EAGAIN (there is one already); WEIR_EFULL (no room for customers is left);
 * or an error of the database. |out| may be NULL, and is written on success only. */

/* Which numbers new customers may have. */
struct wr_customers_place {
    /* The lowest: cells below it have counts of somebody, who need not be in the database any more,
     * if it was lost, or is an older copy. A new customer would begin with them, and be billed for
     * them. */
    uint32_t first;
    /* They are below it: |room| as the policy has it, or what customers.map beside the database or
     * the smallest of the files of usage has, if that is less. */
    uint32_t room;
};
struct wr_customers_place wr_customers_place_for(const struct wr_database *database, uint32_t room);

struct wr_customer_new {
    const char *name, *tenant, *plan; /* tenant may be NULL */
    uint8_t anchor;                   /* 0: none of its own */
    bool partner, suspended;
    const char *trial_plan; /* NULL: none */
    int64_t trial_until_ns;
    uint32_t first, room; /* wr_customers_place_for */
};
int wr_customer_create(struct wr_database *database, const struct wr_customer_new *made,
                       const struct wr_author *author, struct wr_customer *out);

/* What is to be changed: NULL and -1 are left as they are. */
struct wr_customer_change {
    const char *tenant, *plan;
    int anchor, partner, suspended;
    const char *trial_plan; /* "": ends the trial */
    int64_t trial_until_ns;
    int wants_upgrade;
};
#define WR_CUSTOMER_UNCHANGED                                             \
    (struct wr_customer_change)                                           \
    {                                                                     \
        .anchor = -1, .partner = -1, .suspended = -1, .wants_upgrade = -1 \
    }
/* A line of the audit log for each value that is another now; none: nothing happens. */
int wr_customer_change(struct wr_database *database, int64_t id,
                       const struct wr_customer_change *change, const struct wr_author *author,
                       struct wr_customer *out);

/* A customer no more: its keys are revoked. And again one, without keys. */
int wr_customer_end(struct wr_database *database, int64_t id, const struct wr_author *author);
int wr_customer_resume(struct wr_database *database, int64_t id, const struct wr_author *author);

/* A key leads to one customer at most. One that was revoked may be added again, to anybody. */
int wr_customer_add_key(struct wr_database *database, int64_t id, struct weir_slice identity,
                        struct weir_slice value, const struct wr_author *author,
                        struct wr_customer_key *out);
/* The same with its digest alone, and what is known of its end. */
int wr_customer_add_digest(struct wr_database *database, const struct wr_customer_key *key,
                           const struct wr_author *author);
int wr_customer_revoke_key(struct wr_database *database,
                           const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES],
                           const struct wr_author *author);

/* Trials that ended by |author->now_ns| are noted as such; the plan has changed by itself. Returns
 * how many, or an error. */
int wr_customers_end_trials(struct wr_database *database, const struct wr_author *author);

/* ---- reading -----------------------------------------------------------------------------------
 *
 * 0, WEIR_ENOENT, or an error of the database. */

int wr_customer_find(struct wr_database *database, const char *name, struct wr_customer *out);
int wr_customer_get(struct wr_database *database, int64_t id, struct wr_customer *out);
/* Whom a key leads to; WEIR_ENOENT where it was revoked. */
int wr_customer_of_key(struct wr_database *database,
                       const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES],
                       struct wr_customer *out);
/* The key of customer |id| whose wr_key_id begins with |text| (at least 4 digits). WEIR_EINVAL:
 * several do. */
int wr_customer_find_key(struct wr_database *database, int64_t id, const char *text,
                         struct wr_customer_key *out);

/* The plan that holds at |now_ns|: the trial's, or its own. */
const char *wr_customer_plan_at(const struct wr_customer *customer, int64_t now_ns);

/* Each calls |each| until it returns false. */
struct wr_customer_filter {
    const char *after;  /* names beyond this one, in their order; NULL: from the first */
    const char *tenant; /* NULL: any */
    const char *plan;   /* its own; NULL: any */
    bool with_ended;
    int64_t most; /* 0: all */
};
int wr_customers_each(struct wr_database *database, const struct wr_customer_filter *filter,
                      bool (*each)(void *context, const struct wr_customer *customer),
                      void *context);
/* Of one customer, revoked ones too, the oldest first. */
int wr_customer_keys(struct wr_database *database, int64_t id,
                     bool (*each)(void *context, const struct wr_customer_key *key), void *context);
/* Of one customer, or of all (0), those with an id above |after|, the oldest first. */
int wr_audit_each(struct wr_database *database, int64_t customer, int64_t after,
                  bool (*each)(void *context, const struct wr_audit *audit), void *context);
int wr_customers_count(struct wr_database *database, int64_t *customers, int64_t *keys);

/* How many customers have each plan, or a trial of it, by the plans' names. */
int wr_customers_plans(struct wr_database *database,
                       bool (*each)(void *context, const char *plan, int64_t customers),
                       void *context);

/* The plan that holds now, known since: as wr_customer_change with the plan, but only if it still
 * is |from|: two daemons, or two quotas, upgrade once. A plan on trial moves as such, and ends when
 * it would have. WEIR_EAGAIN: it is another. */
int wr_customer_upgrade(struct wr_database *database, int64_t id, const char *from, const char *to,
                        const struct wr_author *author);

#endif
