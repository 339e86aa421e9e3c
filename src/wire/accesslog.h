/* accesslog.h - one line of an access log -> one request. No I/O: bytes in, slices out. */
#ifndef WR_WIRE_ACCESSLOG_H
#define WR_WIRE_ACCESSLOG_H

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

#define WR_LOG_LINE_MAX (1U << 20) /* bytes of a line; longer is bad */
#define WR_LOG_HEADERS_MAX 32

struct wr_log_header {
    struct weir_slice name, value;
};

/* Slices point into the line or into the parser's scratch memory, until the next call. */
struct wr_log_record {
    int64_t time_ns; /* since the Unix epoch */
    struct weir_slice client;
    struct weir_slice method;
    struct weir_slice path;
    int status;     /* 0: none logged */
    int64_t cost;   /* -1: none logged */
    size_t headers; /* X-Forwarded-For, Referer, User-Agent, and whatever a JSON line carries */
    struct wr_log_header header[WR_LOG_HEADERS_MAX];
};

struct wr_log_parser;

/* |format| WR_LOG_UNKNOWN: found by itself, line by line. NULL when out of memory. */
struct wr_log_parser *wr_log_parser_new(enum wr_log_format format);
void wr_log_parser_free(struct wr_log_parser *parser);

/* Parse one line, without its newline. Returns NULL, or a static text that says what is wrong;
 * |*column| (from 1) says where. */
const char *wr_log_parse(struct wr_log_parser *parser, const char *line, size_t len,
                         struct wr_log_record *out, size_t *column);

#endif
