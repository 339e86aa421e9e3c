/* http1_reply.h - heads of HTTP/1.1 responses, and the problem bodies of requests that are refused
 * as input (what a limit refuses is wire/problem.h's). */
#ifndef WR_WIRE_HTTP1_REPLY_H
#define WR_WIRE_HTTP1_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/weir.h"

/* "Not Found"; "" for what is not in use here. */
const char *wr_http_reason(int status);

/* |unix_s| as RFC 9110 5.6.7 has dates: "Sun, 06 Nov 1994 08:49:37 GMT", terminated. */
#define WR_HTTP_DATE_BYTES 30
void wr_http_date(int64_t unix_s, char out[WR_HTTP_DATE_BYTES]);

/* A response that is being written into |out|, of |size| bytes; what does not fit sets |full|. */
struct wr_http_reply {
    char *out;
    size_t size, len;
    bool full;
};

/* Status line. */
void wr_http_reply_begin(struct wr_http_reply *reply, int status);
/* One field; |value| without CR and LF. */
void wr_http_reply_field(struct wr_http_reply *reply, const char *name, struct weir_slice value);
/* Content-Length, the empty line; "Connection: close" unless |keep_alive|, said even where it is
 * the default only when |say_keep_alive| (HTTP/1.0). */
void wr_http_reply_end(struct wr_http_reply *reply, size_t body_len, bool keep_alive,
                       bool say_keep_alive);

#define WR_HTTP_DETAIL_MAX 600
#define WR_HTTP_PROBLEM_MAX 6144 /* enough for any of these: six bytes for each that is escaped */

/* {"type":"about:blank","title":…,"status":…,"detail":…,"member":…}; without a member where
 * |member| is empty. |detail| is cut behind WR_HTTP_DETAIL_MAX bytes. |out| has
 * WR_HTTP_PROBLEM_MAX. Returns its length. */
size_t wr_http_problem(char *out, int status, const char *detail, struct weir_slice member);

#endif
