/* resp.h - RESP2 and RESP3, the protocol of Redis: commands in, replies out; no I/O and no memory
 * of its own.
 *
 * Source: the RESP specification and redis-server 7.0's texts of protocol errors, which clients
 * show to people. */
#ifndef WR_WIRE_RESP_H
#define WR_WIRE_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define WR_RESP_ARGS_MAX 256U          /* arguments of a command, its name among them */
#define WR_RESP_BULK_MAX (1U << 20)    /* bytes of one argument */
#define WR_RESP_INLINE_MAX 65536U      /* bytes of an inline command */
#define WR_RESP_COMMAND_MAX (2U << 20) /* bytes of a whole command */
/* Of a caller who has not authenticated, as in Redis. */
#define WR_RESP_ARGS_UNKNOWN 10U
#define WR_RESP_BULK_UNKNOWN 16384U

/* ---- commands ------------------------------------------------------------------------------ */

enum wr_resp_step {
    WR_RESP_MORE,    /* no whole command yet */
    WR_RESP_COMMAND, /* |out| is one; of |consumed| bytes */
    WR_RESP_NOTHING, /* an empty line, *0 or *-1: |consumed| bytes without an answer */
    WR_RESP_BAD,     /* answer -ERR |error| and close: what follows cannot be trusted */
};

struct wr_resp_limits {
    unsigned args; /* 1..WR_RESP_ARGS_MAX */
    size_t bulk_bytes;
};

struct wr_resp_command {
    size_t consumed;
    unsigned argc;  /* COMMAND: at least 1 */
    bool is_inline; /* its arguments lie in the scratch space */
    char error[64]; /* BAD: terminated */
};

/* Look at the |len| bytes of input from the start of a command. To be called again with the same
 * bytes and more behind them after MORE.
 *
 * Owns:    |args| has room for limits->args slices; they point into |bytes|, or into |scratch|
 * (room for WR_RESP_INLINE_MAX bytes) when the command is inline. Bounds:  linear in the number of
 * arguments; in the bytes only of an inline command. */
enum wr_resp_step wr_resp_parse(const char *bytes, size_t len, const struct wr_resp_limits *limits,
                                char *scratch, struct weir_slice *args,
                                struct wr_resp_command *out);

/* |text| as a signed 64-bit integer as Rust's str::parse takes it, which redis-cell uses: an
 * optional sign and decimal digits, nothing else. */
bool wr_resp_integer(struct weir_slice text, int64_t *out);

/* ---- replies ------------------------------------------------------------------------------- */

/* Where replies are put together. What does not fit is left out, and |full| says so. */
struct wr_resp_out {
    char *bytes;
    size_t len, size;
    bool resp3;
    bool full;
};

#define WR_RESP_INTEGER_BYTES                                          \
    24 /* the most that an integer, or the head of an aggregate, takes \
        */

void wr_resp_raw(struct wr_resp_out *out, const char *bytes, size_t len);
void wr_resp_simple(struct wr_resp_out *out, const char *text);
void wr_resp_error(struct wr_resp_out *out, const char *text);
/* An error with what a caller sent in it: control characters become blanks, what is not ASCII
 * question marks (some clients insist on UTF-8), and it is cut at |max| bytes. */
void wr_resp_error_begin(struct wr_resp_out *out, const char *text);
void wr_resp_error_bytes(struct wr_resp_out *out, struct weir_slice bytes, size_t max);
void wr_resp_error_end(struct wr_resp_out *out, const char *text);
void wr_resp_int(struct wr_resp_out *out, int64_t value);
void wr_resp_bulk(struct wr_resp_out *out, struct weir_slice bytes);
/* The head of a bulk string whose |len| bytes and CRLF the caller sends himself. */
void wr_resp_bulk_head(struct wr_resp_out *out, size_t len);
void wr_resp_text(struct wr_resp_out *out, const char *text);
void wr_resp_null(struct wr_resp_out *out);
void wr_resp_array(struct wr_resp_out *out, size_t count);
/* |pairs| names with values follow: a map in RESP3, a flat array in RESP2. */
void wr_resp_map(struct wr_resp_out *out, size_t pairs);

#endif
