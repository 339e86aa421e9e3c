/* query.h - the query of a request target, parameter by parameter. */
#ifndef WR_WIRE_QUERY_H
#define WR_WIRE_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/weir.h"

/* A cursor over "name=value&name=value". All but the first three members start as zeros. */
struct wr_query {
    const char *at, *end;
    char *scratch;     /* as long as the query: what is decoded goes there */
    const char *error; /* a static text, where next() was false and the query is not at its end */
};

/* The next parameter, decoded: %XX is a byte, and + a blank, as forms have it. A name without "="
 * has an empty value, and empty ones ("a=1&&b=2") are passed over. False: there is none, or it is
 * not well-formed, see error; then |*name| is what it is about, as it stands. */
bool wr_query_next(struct wr_query *query, struct weir_slice *name, struct weir_slice *value);

#endif
