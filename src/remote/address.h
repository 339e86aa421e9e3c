/* address.h - the addresses of a store's servers, kept by a backend beyond the policy's life. */
#ifndef WR_REMOTE_ADDRESS_H
#define WR_REMOTE_ADDRESS_H

#include "policy/policy.h"

/* A copy of |count| addresses (without their texts for people), to be freed. NULL: out of memory.
 */
struct wr_policy_address *wr_addresses_copy(const struct wr_policy_address *from, size_t count);
/* NULL is allowed. */
void wr_addresses_free(struct wr_policy_address *addresses, size_t count);

#endif
