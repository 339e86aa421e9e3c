/* netset.c - networks as a sorted list.
 *
 * Idea. Two networks are either apart or one holds the other. Sorted by first address, the wider
 * first, a network held by another directly follows it or one that it holds as well: one pass drops
 * them. What is left lies apart, so only the last network that starts at or before an address can
 * hold it. IPv4 lies within ::/64, which does not hold it (but ::/0 does): all of IPv4 comes first,
 * and each of the two is searched by itself.
 *
 * Rejected: a tree of bits (more memory and code for the few networks that policies name). */
#include "policy/netset.h"

#include <stdlib.h>
#include <string.h>

#define FEW 8U /* networks that are tried one by one: a mask and a comparison each */

static int by_start(const void *a, const void *b)
{
    const struct wr_net *x = a, *y = b;
    int order = (int)wr_ip_is_v4(&y->ip) - (int)wr_ip_is_v4(&x->ip);

    if (order == 0)
        order = memcmp(x->ip.bytes, y->ip.bytes, sizeof x->ip.bytes);
    return order != 0 ? order : (int)x->prefix - (int)y->prefix;
}

void wr_netset_make(struct wr_netset *set, struct wr_net *nets, size_t count)
{
    set->nets = nets;
    set->count = set->v4 = 0;
    set->everybody = false;
    if (count == 0)
        return;
    qsort(nets, count, sizeof *nets, by_start);
    for (size_t i = 0; i < count; i++) {
        if (set->count == 0 || !wr_net_contains(&nets[set->count - 1], &nets[i].ip))
            nets[set->count++] = nets[i];
        set->everybody |= nets[i].prefix == 0;
        if (wr_ip_is_v4(&nets[i].ip))
            set->v4 = set->count;
    }
}

bool wr_netset_holds(const struct wr_netset *set, const struct wr_ip *ip)
{
    bool v4 = wr_ip_is_v4(ip);
    size_t low = v4 ? 0 : set->v4,
           high = v4 ? set->v4 : set->count; /* one that holds ip lies here */

    if (set->everybody)
        return true;
    while (high - low > FEW) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(set->nets[middle].ip.bytes, ip->bytes, sizeof ip->bytes) <= 0)
            low = middle;
        else
            high = middle;
    }
    for (; low < high; low++)
        if (wr_net_contains(&set->nets[low], ip))
            return true;
    return false;
}
