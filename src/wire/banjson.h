/* banjson.h - the body of a ban: {"ip":"192.0.2.0/24","for":"1h","reason":"scraping"}. */
#ifndef WR_WIRE_BANJSON_H
#define WR_WIRE_BANJSON_H

#include <stdbool.h>

#include "weir/weir.h"

struct wr_ban_body {
    struct weir_slice identity, value; /* the one member that is none of the others */
    struct weir_slice lasts, until;    /* "for", "until"; ptr NULL: not given */
    struct weir_slice reason, confirm;
    const char *error;        /* a static text */
    struct weir_slice member; /* that it is about; may be empty */
};

/* Read |body|; |scratch| has room for as many bytes. Slices point into both. False: see error. */
bool wr_ban_body_read(struct wr_ban_body *out, struct weir_slice body, char *scratch);

#endif
