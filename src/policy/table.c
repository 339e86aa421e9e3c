/* table.c - an open-addressed hash table that only grows.
 *
 * Invariants:
 *   1. room is a power of two and at least twice count, so every probe meets a free entry.
 *   2. hash 0 marks a free entry; a hash that comes out 0 is stored as 1.
 *   3. The bytes looked up are a caller's: the hash is keyed, so that nobody can aim collisions. */
#include "policy/table.h"

#include <string.h>

#define ROOM_FIRST 16U

static uint64_t hash_of(const struct wr_table *table, uint32_t tag, struct weir_slice text)
{
    struct wr_sip sip = wr_sip_init(table->secret);
    uint64_t hash;

    wr_sip_block(&sip, tag);
    wr_sip_part(&sip, 0, text.ptr, text.len);
    hash = wr_sip_finish(sip);
    return hash != 0 ? hash : 1;
}

static bool is_equal(const struct wr_table_entry *entry, uint64_t hash, uint32_t tag,
                     struct weir_slice text)
{
    return entry->hash == hash && entry->tag == tag && entry->text.len == text.len &&
           (text.len == 0 || memcmp(entry->text.ptr, text.ptr, text.len) == 0);
}

/* The entry of |text|, or the free one where it belongs. mask > 0. */
static struct wr_table_entry *probe(const struct wr_table *table, uint64_t hash, uint32_t tag,
                                    struct weir_slice text)
{
    size_t at = (size_t)hash & table->mask;

    while (table->entries[at].hash != 0 && !is_equal(&table->entries[at], hash, tag, text))
        at = (at + 1) & table->mask;
    return &table->entries[at];
}

static bool grow(struct wr_table *table, struct wr_region *region)
{
    struct wr_table larger = *table;
    size_t room = table->mask == 0 ? ROOM_FIRST : (table->mask + 1) * 2;

    larger.entries = wr_region_take(region, room, sizeof *larger.entries);
    if (larger.entries == NULL)
        return false;
    larger.mask = room - 1;
    for (size_t i = 0; table->mask > 0 && i <= table->mask; i++) {
        const struct wr_table_entry *entry = &table->entries[i];
        if (entry->hash != 0)
            *probe(&larger, entry->hash, entry->tag, entry->text) = *entry;
    }
    *table = larger;
    return true;
}

struct wr_table_entry *wr_table_add(struct wr_table *table, struct wr_region *region, uint32_t tag,
                                    struct weir_slice text, uint32_t value, bool *added)
{
    uint64_t hash = hash_of(table, tag, text);
    struct wr_table_entry *entry;

    *added = false;
    if ((table->count + 1) * 2 > table->mask && !grow(table, region))
        return NULL;
    entry = probe(table, hash, tag, text);
    if (entry->hash != 0)
        return entry;
    *entry = (struct wr_table_entry){.hash = hash, .text = text, .tag = tag, .value = value};
    table->count++;
    *added = true;
    return entry;
}

const struct wr_table_entry *wr_table_find(const struct wr_table *table, uint32_t tag,
                                           struct weir_slice text)
{
    const struct wr_table_entry *entry;

    if (table->count == 0)
        return NULL;
    entry = probe(table, hash_of(table, tag, text), tag, text);
    return entry->hash != 0 ? entry : NULL;
}
