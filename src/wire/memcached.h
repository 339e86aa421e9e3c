/* memcached.h - the meta protocol of memcached 1.6: commands out, replies in; no I/O and no memory
 * of its own. Only what counting needs: arithmetic (ma), and values changed if nobody else did (mg,
 * ms with a CAS token).
 *
 * Source: doc/protocol.txt of memcached 1.6, "Meta Commands". */
#ifndef WR_WIRE_MEMCACHED_H
#define WR_WIRE_MEMCACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define WR_MC_KEY_MAX 250U
#define WR_MC_VALUE_MAX 1024U /* of a value that we would have written */

/* ---- commands ------------------------------------------------------------------------------ */

/* Where commands are put together. What does not fit is left out, and |full| says so. */
struct wr_mc_out {
    char *bytes;
    size_t len, size;
    bool full;
};

/* Times to live are seconds, at least 1. Longer than 30 days they must be given as the moment they
 * end, or memcached takes them for 1970: |now_s|, since the Unix epoch, is for that. */
struct wr_mc_ttl {
    int64_t s, now_s;
};

/* The value, and its CAS token. Answered: VALUE, MISS. */
void wr_mc_get(struct wr_mc_out *out, struct weir_slice key);
/* Add |units| to the number at |key|; to 0, with a time to live, where there is none. VALUE: the
 * sum. */
void wr_mc_add(struct wr_mc_out *out, struct weir_slice key, uint64_t units, struct wr_mc_ttl ttl);
/* Take |units| off, not below 0. VALUE, NOT_FOUND. */
void wr_mc_subtract(struct wr_mc_out *out, struct weir_slice key, uint64_t units);
/* Store |value| if the token is still |cas|; 0: if there is nothing. STORED, EXISTS, NOT_STORED,
 * NOT_FOUND. */
void wr_mc_set(struct wr_mc_out *out, struct weir_slice key, struct weir_slice value, uint64_t cas,
               struct wr_mc_ttl ttl);
/* STORED, NOT_FOUND. */
void wr_mc_delete(struct wr_mc_out *out, struct weir_slice key);
/* NOOP: that the server is there, and knows the meta commands. */
void wr_mc_noop(struct wr_mc_out *out);

/* ---- replies ------------------------------------------------------------------------------- */

enum wr_mc_step {
    WR_MC_MORE,       /* no whole reply yet */
    WR_MC_BAD,        /* no reply of this protocol: what follows cannot be trusted */
    WR_MC_STORED,     /* HD */
    WR_MC_VALUE,      /* VA */
    WR_MC_MISS,       /* EN */
    WR_MC_NOT_FOUND,  /* NF */
    WR_MC_NOT_STORED, /* NS */
    WR_MC_EXISTS,     /* EX */
    WR_MC_NOOP,       /* MN */
    WR_MC_REFUSED,    /* ERROR, CLIENT_ERROR, SERVER_ERROR: |value| is the line */
};

struct wr_mc_reply {
    size_t consumed;         /* bytes, but with MORE and BAD */
    struct weir_slice value; /* points into the input */
    uint64_t cas;            /* 0: none was told */
};

/* Look at |len| bytes from the start of a reply. To be called again with the same bytes and more
 * behind them after MORE. Bounds: a reply is at most WR_MC_VALUE_MAX and two lines of 512 bytes. */
enum wr_mc_step wr_mc_parse(const char *bytes, size_t len, struct wr_mc_reply *out);

/* A decimal number of up to 64 bits, with nothing behind it but blanks, which memcached leaves
 * where a number has become shorter. */
bool wr_mc_number(struct weir_slice text, uint64_t *out);

#endif
