/* customers.h - the section `customers` of a policy. */
#ifndef WR_POLICY_CUSTOMERS_H
#define WR_POLICY_CUSTOMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

#define WR_CUSTOMERS_BY_MAX 8
#define WR_CUSTOMERS_ROOM_MAX 16777216

/* Where something is told by HTTP POST. */
struct wr_policy_webhook {
    const char *url;                  /* NULL: nowhere */
    const char *secret, *secret_file; /* it is signed with; at most one */
    const char *ca_file;              /* certificates it is to be trusted by; NULL: the system's */
    int64_t timeout_ns;               /* of one try */
    int64_t give_up_ns;               /* since the first try */
    struct wr_place at, secret_file_at, ca_file_at;
};

/* The section `customers`. */
struct wr_policy_customers {
    const char *directory; /* as seen from where the policy was opened, as all files of it */
    struct wr_place directory_at;
    bool directory_written;                /* otherwise it is <arena.path>.customers */
    uint8_t by_count;                      /* 1.. */
    uint8_t identity[WR_CUSTOMERS_BY_MAX]; /* identities that lead to a customer, in the order of
                                              `by`: indexes of wr_policy_identity (explain.h) */
    const char *by[WR_CUSTOMERS_BY_MAX];   /* their names */
    uint32_t room;                         /* customers there may be */
    int64_t flush_ns;                      /* the ledger is at most so far behind */
    int64_t keep_ns;                       /* windows are kept since they ended; 0: for ever */
    const char *file;                      /* the customers as a file; NULL: none */
    struct wr_place at, file_at;
    struct wr_policy_webhook webhook, confirm_upgrade;
};

#endif
