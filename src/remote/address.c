/* address.c - copies of addresses. */
#include "remote/address.h"

#include <stdlib.h>
#include <string.h>

void wr_addresses_free(struct wr_policy_address *addresses, size_t count)
{
    for (size_t i = 0; addresses != NULL && i < count; i++) {
        free((void *)(uintptr_t)addresses[i].host);
        free((void *)(uintptr_t)addresses[i].path);
    }
    free(addresses);
}

struct wr_policy_address *wr_addresses_copy(const struct wr_policy_address *from, size_t count)
{
    struct wr_policy_address *to = calloc(count + 1, sizeof *to);

    for (size_t i = 0; to != NULL && i < count; i++) {
        to[i].port = from[i].port;
        to[i].host = from[i].host != NULL ? strdup(from[i].host) : NULL;
        to[i].path = from[i].path != NULL ? strdup(from[i].path) : NULL;
        if ((to[i].host == NULL) != (from[i].host == NULL) ||
            (to[i].path == NULL) != (from[i].path == NULL)) {
            wr_addresses_free(to, count);
            return NULL;
        }
    }
    return to;
}
