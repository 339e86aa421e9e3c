/* ring_names.h - the addresses that the nodes' name was last found to have: one list for all loops
 * of the process, so that none counts alone while another one knows the others. */
#ifndef WR_REMOTE_RING_NAMES_H
#define WR_REMOTE_RING_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "remote/redis_reply.h"

#define WR_RING_NAMES_MAX 64

struct wr_ring_names;

struct wr_ring_name_list {
    unsigned count;
    char host[WR_RING_NAMES_MAX][WR_REDIS_HOST_MAX];
};

/* NULL: no memory. */
struct wr_ring_names *wr_ring_names_new(void);
void wr_ring_names_free(struct wr_ring_names *names);

/* |name| has the addresses of |list|. */
void wr_ring_names_set(struct wr_ring_names *names, const char *name,
                       const struct wr_ring_name_list *list);

/* What |name| has, unless that is what was read with |*version|, 0 to begin with. Returns whether
 * there is something new. */
bool wr_ring_names_read(struct wr_ring_names *names, const char *name, uint64_t *version,
                        struct wr_ring_name_list *out);

/* Would it? */
bool wr_ring_names_is_new(struct wr_ring_names *names, const char *name, uint64_t version);

#endif
