/* netset.h - a set of networks, asked whether it holds an address. */
#ifndef WR_POLICY_NETSET_H
#define WR_POLICY_NETSET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/ipaddr.h"

/* IPv4 first, each sorted by address; no network holds another. All zeros is the empty set. */
struct wr_netset {
    struct wr_net *nets;
    size_t count, v4; /* v4 of them are of IPv4 */
    bool everybody;   /* ::/0 is one of them */
};

/* Make the |count| networks at |nets|, which become the set's, sorted and free of ones held by
 * others. */
void wr_netset_make(struct wr_netset *set, struct wr_net *nets, size_t count);

/* Bounds: a binary search. */
bool wr_netset_holds(const struct wr_netset *set, const struct wr_ip *ip);

#endif
