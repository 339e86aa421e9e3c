/* forwarded.h - which address is the client's, when proxies stand between. */
#ifndef WR_POLICY_FORWARDED_H
#define WR_POLICY_FORWARDED_H

#include <stdbool.h>

#include "base/ipaddr.h"
#include "policy/compiled.h"
#include "weir/weir.h"

/* Walk from |peer| back through |header| (the value of the rule's header field, several lines
 * joined; ptr NULL: absent), from the right, as long as the address at hand is trusted: the first
 * one that is not is the client. An entry that is no address ends the walk at the last good one.
 *
 * Bounds: the last WR_HOPS_MAX entries; linear in |header|. */
struct wr_ip wr_client_find(const struct wr_client_rule *rule, const struct wr_ip *peer,
                            struct weir_slice header);

#endif
