/* accesslog.h - one line of an access log -> one request. No I/O: bytes in, slices out. */
#ifndef WR_WIRE_ACCESSLOG_H
#define WR_WIRE_ACCESSLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

enum wr_log_format {
    WR_LOG_UNKNOWN = 0,
    WR_LOG_COMMON,   /* NCSA common log format */
    WR_LOG_COMBINED, /* common + "referer" "user agent", then optionally "x-forwarded-for" */
    WR_LOG_JSON, /* one object a line: our own form, nginx, Caddy, Traefik, Envoy (also behind a CRI
                    prefix) */
};

/* The format called |name| on a command line ("auto", "common", "combined", "json"). */
bool wr_log_format_named(const char *name, enum wr_log_format *out);

#define WR_LOG_LINE_MAX (1U << 20) /* bytes of a line; longer is bad */
#define WR_LOG_FIELDS_MAX 64       /* header fields that one parser looks for */

/* Slices point into the line or into memory of the parser, until the next call. */
struct wr_log_record {
    int64_t time_ns;          /* since the Unix epoch */
    int64_t duration_ns;      /* that the request took; -1: none logged */
    int64_t cost;             /* 0..WEIR_COST_MAX; -1: none logged */
    struct weir_slice client; /* an address without port or brackets, or a host name */
    struct weir_slice method; /* "" where the request line is none */
    struct weir_slice path;   /* as on the wire, the log's escapes undone; "" as above */
    int status;               /* 0: none logged */
    struct weir_slice field[WR_LOG_FIELDS_MAX]; /* of the names asked for; ptr NULL: not logged */
};

struct wr_log_parser;

/* A parser that finds the header fields called |names| (|count| of them, at most WR_LOG_FIELDS_MAX,
 * letter case ignored). |format| WR_LOG_UNKNOWN: found by itself, line by line.
 *
 * Owns:    |names| are borrowed for the parser's life.
 * Returns: NULL when out of memory or |count| is too large. */
struct wr_log_parser *wr_log_parser_new(enum wr_log_format format, const char *const *names,
                                        size_t count);
void wr_log_parser_free(struct wr_log_parser *parser);

/* Parse one line, without its newline. Returns NULL, or a text that says what is wrong, until
 * the next call; |*column| (from 1) says where. On an error |*out| holds nothing of use. */
const char *wr_log_parse(struct wr_log_parser *parser, const char *line, size_t len,
                         struct wr_log_record *out, size_t *column);

#endif
