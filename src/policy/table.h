/* table.h - byte strings -> small numbers: which plan an API key has, which caller is banned. Keyed
 * by SipHash, because the strings looked up come from callers. */
#ifndef WR_POLICY_TABLE_H
#define WR_POLICY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"
#include "policy/region.h"
#include "weir/weir.h"

struct wr_table_entry {
    uint64_t hash;
    struct weir_slice text; /* borrowed */
    uint32_t tag;           /* tells tables in one table apart; part of the key */
    uint32_t value;
};

/* Open addressing, at most half full. All zeros with a key is an empty table. */
struct wr_table {
    struct wr_sip_key secret;
    struct wr_table_entry *entries; /* hash 0: free */
    size_t mask;                    /* room - 1; 0: no room yet */
    size_t count;
};

/* Add |text| under |tag|; the text must outlive the table. Returns the entry, new or old, with
 * |*added| saying which; NULL when out of memory. */
struct wr_table_entry *wr_table_add(struct wr_table *table, struct wr_region *region, uint32_t tag,
                                    struct weir_slice text, uint32_t value, bool *added);

/* NULL: not there. Pure; one hash of |text|. */
const struct wr_table_entry *wr_table_find(const struct wr_table *table, uint32_t tag,
                                           struct weir_slice text);

#endif
