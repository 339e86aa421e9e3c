/* redis_reply.h - what an error of Redis asks of us. Pure. */
#ifndef WR_REMOTE_REDIS_REPLY_H
#define WR_REMOTE_REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backend.h"

#define WR_REDIS_HOST_MAX 256 /* bytes of a host's name, with its terminator */

enum wr_redis_error {
    WR_REDIS_OTHER,    /* none of these: a bug of ours, or of theirs */
    WR_REDIS_NOSCRIPT, /* load the script, then again */
    WR_REDIS_READONLY, /* this is a replica now: find the primary */
    WR_REDIS_BUSY,     /* it cannot at present */
    WR_REDIS_DENIED,   /* it refuses us */
    WR_REDIS_MOVED,    /* the slot is elsewhere for good */
    WR_REDIS_ASK,      /* the slot is on its way: there, this once */
    WR_REDIS_TRYAGAIN, /* the keys are on both sides of a migration */
    WR_REDIS_CLUSTERDOWN,
};

enum wr_redis_error wr_redis_error_of(const char *text, size_t len);

/* The trouble that a caller is told. */
enum wr_remote_trouble wr_redis_trouble_of(enum wr_redis_error error);

/* "MOVED 3999 10.0.0.1:6381": false if it is not that. An empty host means the one that said it:
 * |host| is then "". An IPv6 address stands there without brackets. */
bool wr_redis_redirection(const char *text, size_t len, uint16_t *slot,
                          char host[WR_REDIS_HOST_MAX], uint16_t *port);

#endif
