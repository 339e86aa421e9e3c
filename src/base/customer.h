/* customer.h - who a request's customer is, as the store has it and the policy asks for it. */
#ifndef WR_BASE_CUSTOMER_H
#define WR_BASE_CUSTOMER_H

#include <stdint.h>

enum wr_customer_flag {
    WR_CUSTOMER_ACTIVE = 1,        /* otherwise it is as if there were no such customer */
    WR_CUSTOMER_PARTNER = 2,       /* verified: a mark for people */
    WR_CUSTOMER_SUSPENDED = 4,     /* refused as a banned caller is */
    WR_CUSTOMER_WANTS_UPGRADE = 8, /* at the end of a quota that says upgrade; not yet moved */
};

/* A customer at the moment it was looked up. */
struct wr_customer_seen {
    uint64_t id;       /* for its life, and never another's */
    uint32_t number;   /* of its record and its cells, from 0 */
    uint8_t file_plan; /* index among the plan names of the store's file */
    uint8_t anchor;    /* the day of the month its months begin on, 1..31; 0: none of its own */
    uint8_t flags;     /* enum wr_customer_flag */
};

#endif
