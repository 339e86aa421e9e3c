/* customerjson.h - the body of a change to a customer: {"plan":"pro","trial_plan":"gold",
 * "trial_for":"14d","partner":true,"reason":"signed"}. */
#ifndef WR_WIRE_CUSTOMERJSON_H
#define WR_WIRE_CUSTOMERJSON_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/weir.h"

struct wr_customer_body {
    /* ptr NULL: not given. Terminated by nothing. */
    struct weir_slice name, plan, tenant, trial_plan, trial_until, trial_for, reason;
    struct weir_slice identity, value, prefix;
    int64_t anchor;                        /* 0: none (null); -1: not given */
    int8_t partner, suspended, key, ended; /* 0, 1; -1: not given */
    const char *error;                     /* a static text */
    struct weir_slice member;              /* that it is about; may be empty */
};

/* Read |body|, one object, every member at most once; |scratch| has room for as many bytes. Slices
 * point into both. False: see error. */
bool wr_customer_body_read(struct wr_customer_body *out, struct weir_slice body, char *scratch);

#endif
