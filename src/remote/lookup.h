/* lookup.h - names that are being looked up, by all loops of the process. */
#ifndef WR_REMOTE_LOOKUP_H
#define WR_REMOTE_LOOKUP_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct wr_lookup;

/* Who waits for one: |async| is sent when there may be an answer. */
struct wr_lookup_waiter {
    struct wr_lookup_waiter *next; /* private */
    uv_async_t async;              /* initialised by its owner, who closes it after leaving */
};

/* Wait for the addresses of |host|: the lookup that runs, or a new one. NULL: out of memory. */
struct wr_lookup *wr_lookup_join(struct wr_lookup_waiter *waiter, const char *host, uint16_t port);

/* Has it ended? Then |waiter| waits no longer. |*error|: of getaddrinfo, 0: |*list| is there until
 * wr_lookup_drop. */
bool wr_lookup_take(struct wr_lookup *lookup, struct wr_lookup_waiter *waiter, int *error,
                    struct addrinfo **list);

/* Wait no longer: the answer may be somebody else's, soon. */
void wr_lookup_leave(struct wr_lookup *lookup, struct wr_lookup_waiter *waiter);

void wr_lookup_drop(struct wr_lookup *lookup);

#endif
