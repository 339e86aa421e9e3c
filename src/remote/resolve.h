/* resolve.h - the addresses behind a host's name, one after the other. */
#ifndef WR_REMOTE_RESOLVE_H
#define WR_REMOTE_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "remote/lookup.h"

/* Called once after a start (or several, while one lookup runs), also after a cancel; |error| NULL:
 * there are addresses. Never from within. */
typedef void (*wr_resolved_fn)(void *context, const char *error);

/* All zeros to begin with; in its user's memory until the call came. */
struct wr_resolve {
    struct wr_lookup_waiter waiter;
    struct wr_lookup *lookup; /* that is waited for, or whose addresses these are */
    struct addrinfo *list, *next;
    int error;
    struct sockaddr_storage literal;
    bool has_literal, running, cancelled;
    wr_resolved_fn done;
    void *context;
};

/* Is |host| an address as it stands? Then there is nothing to wait for. */
bool wr_resolve_literal(struct wr_resolve *resolve, const char *host, uint16_t port);

/* Look |host| up; always the same one. While a lookup runs, its answer is waited for. False: out of
 * memory, and |done| is not called. */
bool wr_resolve_start(struct wr_resolve *resolve, uv_loop_t *loop, const char *host, uint16_t port,
                      wr_resolved_fn done, void *context);

/* The next address to try; NULL: that was all. */
const struct sockaddr *wr_resolve_next(struct wr_resolve *resolve);

/* Is there another one? */
bool wr_resolve_more(const struct wr_resolve *resolve);

/* Wait no longer: |done| comes soon. */
void wr_resolve_cancel(struct wr_resolve *resolve);

/* Forget the addresses. A lookup that runs goes on. */
void wr_resolve_free(struct wr_resolve *resolve);

#endif
