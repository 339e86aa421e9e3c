/* query.c - percent-decoding, and nothing more.
 *
 * Invariants: nothing beyond |end| is read; what is decoded is never longer than what it came from,
 * so a scratch as long as the query always has room.
 *
 * Source: RFC 3986 2.1; the blank for + is of application/x-www-form-urlencoded, which is what
 * programs make queries with (curl --data-urlencode, URLSearchParams, urllib). */
#include "wire/query.h"

#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode |at|..|end|; |out| has as much room. False: an escape is none. */
static bool decode(struct wr_query *query, const char *at, const char *end, struct weir_slice *out)
{
    char *to = query->scratch;

    while (at < end) {
        char c = *at++;
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            if (end - at < 2 || hex(at[0]) < 0 || hex(at[1]) < 0)
                return false;
            c = (char)(hex(at[0]) << 4 | hex(at[1]));
            at += 2;
        }
        *to++ = c;
    }
    *out = (struct weir_slice){query->scratch, (size_t)(to - query->scratch)};
    query->scratch = to;
    return true;
}

bool wr_query_next(struct wr_query *query, struct weir_slice *name, struct weir_slice *value)
{
    const char *start, *stop, *equals;

    *name = *value = (struct weir_slice){"", 0};
    while (query->at < query->end && *query->at == '&')
        query->at++;
    if (query->error != NULL || query->at >= query->end)
        return false;
    start = query->at;
    stop = memchr(start, '&', (size_t)(query->end - start));
    stop = stop != NULL ? stop : query->end;
    equals = memchr(start, '=', (size_t)(stop - start));
    query->at = stop;
    if (decode(query, start, equals != NULL ? equals : stop, name) &&
        (equals == NULL || decode(query, equals + 1, stop, value)))
        return true;
    *name = (struct weir_slice){start, (size_t)(stop - start)};
    *value = (struct weir_slice){"", 0};
    query->error = "expected two hexadecimal digits after %";
    return false;
}
