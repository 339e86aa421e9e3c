/* http1.h - requests of HTTP/1.1, bytes in, slices out; no I/O and no memory of its own.
 *
 * Strict where leniency is how requests are smuggled past a proxy: lines end in CRLF; a field name
 * is a token with the colon behind it; one Content-Length or one "chunked", never both; one Host.
 * Whatever two parsers could read differently is refused.
 *
 * Source: RFC 9112 (messages), RFC 9110 (fields, methods). */
#ifndef WR_WIRE_HTTP1_H
#define WR_WIRE_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define WR_HTTP_HEAD_MAX 16384U       /* bytes of request line and fields: then 431 */
#define WR_HTTP_TARGET_MAX 8192U      /* bytes of the request line: then 414 */
#define WR_HTTP_FIELDS_MAX 100U       /* field lines: then 431 */
#define WR_HTTP_BODY_MAX (256U << 10) /* bytes of a body: then 413 */
/* What chunks may need besides their data: sizes, extensions, trailers. */
#define WR_HTTP_CHUNKING_MAX 16384U
/* The most of one request that is ever waited for. */
#define WR_HTTP_INPUT_MAX (WR_HTTP_HEAD_MAX + WR_HTTP_BODY_MAX + WR_HTTP_CHUNKING_MAX)

struct wr_http_field {
    struct weir_slice name, value; /* value: without blanks around it */
};

struct wr_http_request {
    struct weir_slice method;
    struct weir_slice
        target; /* from the path on; "*" stays; an absolute form loses its authority */
    struct weir_slice body;
    bool keep_alive;
    bool http10;
    unsigned field_count;
    struct wr_http_field field[WR_HTTP_FIELDS_MAX];
};

enum wr_http_step {
    WR_HTTP_MORE,     /* the request is not whole yet */
    WR_HTTP_CONTINUE, /* as MORE, and the caller waits for "100 Continue": told once a request */
    WR_HTTP_DONE,     /* |out| is a whole request of |consumed| bytes */
    WR_HTTP_BAD,      /* refuse it with |status| and close: what follows cannot be trusted */
};

/* What is known of the request at the start of the input. All zeros before the first byte and after
 * each request. */
struct wr_http_parser {
    size_t scanned;   /* input before this was looked through */
    size_t line;      /* where the line at hand begins */
    size_t head;      /* bytes of the head; 0: not whole yet */
    size_t body;      /* bytes of the body, decoded; of chunks: so far */
    uint8_t framing;  /* private: how the body is delimited */
    uint8_t trailers; /* the last chunk has been seen */
    bool continued;
    size_t consumed;   /* DONE */
    int status;        /* BAD */
    const char *error; /* BAD: a static text */
};

/* Look at the |len| bytes of input from the start of the request at hand. To be called again with
 * the same bytes and more behind them after MORE. |scratch| has room for WR_HTTP_BODY_MAX bytes;
 * chunked bodies are put together there. Slices of |out| point into |bytes| or |scratch|.
 *
 * Bounds: linear in what is new, and twice in the head; |out| is defined after DONE only. */
enum wr_http_step wr_http_parse(struct wr_http_parser *parser, const char *bytes, size_t len,
                                char *scratch, struct wr_http_request *out);

/* Is |name| the lower-case |lower| (terminated), whatever its case? */
bool wr_http_name_is(struct weir_slice name, const char *lower);

/* The first field called |lower|, or NULL. */
const struct wr_http_field *wr_http_find(const struct wr_http_request *request, const char *lower);

#endif
