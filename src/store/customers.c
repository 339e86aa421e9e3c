/* customers.c - the file of customers: opened, and its records and plans.
 *
 * Problem. Every decision of every process asks who the caller is and which plan he has; the daemon
 * changes that at any moment, may be killed in the middle of it, and must not hold anybody up.
 *
 * Idea. A record's words that mean something together, plan and until when, are a pair that changes
 * by one compare-and-swap; the rest is written while the record says that there is no customer. So
 * nobody ever sees half a change, and there is nothing to mend. How keys lead to records is in
 * customer_keys.c and customer_find.c.
 *
 * Invariants.
 *   1. A record with ACTIVE is complete: its id was written before, and is not written while it has
 *      the flag.
 *   2. The sequence of a record goes up with each change, so that a reader who finds the same word
 *      before and after has read one state.
 *   3. A plan's name is complete before plan_count says that it is there, and never changes.
 *   4. Whoever wants to be upgraded has the flag, and his bit is set from before until it is read.
 *
 * Rejected: a lock per record (a kill leaves it held); a copy of the whole for each change (100 MB
 * for one new key). */
#include "store/customers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "store/crash_point.h"
#include "store/customers_file.h"

/* ---- the file ------------------------------------------------------------------------------ */

struct geometry {
    uint64_t plans_at, epochs_at, wants_at, records_at, keys_at, cache_at, hints_at, size_bytes;
};

static uint32_t lines_of(uint32_t room)
{
    return (room + WR_ROOM_PER_LINE - 1) / WR_ROOM_PER_LINE;
}

static uint32_t hints_of(uint32_t room)
{
    return (room + WR_ROOM_PER_HINTS - 1) / WR_ROOM_PER_HINTS;
}

static struct geometry geometry_of(uint32_t room)
{
    struct geometry g = {.plans_at = WR_MAPPED_HEADER_BYTES};

    g.epochs_at = g.plans_at + (uint64_t)WR_CUSTOMER_PLANS * WR_CUSTOMER_PLAN_BYTES;
    g.wants_at = g.epochs_at + WR_CUSTOMER_EPOCHS * sizeof(uint32_t);
    g.records_at = g.wants_at + wr_mapped_pages(((uint64_t)room + 63) / 64 * 8);
    g.keys_at = g.records_at + wr_mapped_pages((uint64_t)room * sizeof(struct wr_customer_cell));
    g.cache_at =
        g.keys_at + wr_mapped_pages((uint64_t)room * WR_KEYS_PER_ROOM * sizeof(struct wr_key_cell));
    g.hints_at =
        g.cache_at + wr_mapped_pages((uint64_t)lines_of(room) * sizeof(struct wr_cache_line));
    g.size_bytes = g.hints_at + wr_mapped_pages((uint64_t)hints_of(room) * sizeof(struct wr_hints));
    return g;
}

static uint64_t size_of(uint32_t room)
{
    return geometry_of(room).size_bytes;
}

static bool fill(struct wr_mapped_header *header, const void *context)
{
    struct wr_customers_header *h = (struct wr_customers_header *)(void *)header;

    (void)context;
    return getrandom(h->secret, sizeof h->secret, 0) == (ssize_t)sizeof h->secret;
}

static int check(const struct wr_mapped_header *header, const void *context, struct wr_diag *diag)
{
    const struct wr_customers_options *options = context;

    if (options->room != 0 && options->room != header->room)
        wr_diag_add(diag, WR_WARNING, 0, 0,
                    "has room for %lu customers, %lu are wanted: used as it is; to change that, "
                    "stop weir, remove it and the files of usage beside it, start weir",
                    (unsigned long)header->room, (unsigned long)options->room);
    return 0;
}

static const struct wr_mapped_kind kind = {
    .what = "a file of customers",
    .magic = WR_CUSTOMERS_MAGIC,
    .version = WR_CUSTOMERS_VERSION,
    .layout = sizeof(struct wr_customer_cell) | sizeof(struct wr_key_cell) << 12 |
              sizeof(struct wr_cache_line) << 24 | (uint64_t)WR_KEYS_PER_ROOM << 36 |
              (uint64_t)WR_CUSTOMER_EPOCHS << 40 | (uint64_t)WR_HINTS << 56,
    .room_max = WR_CUSTOMERS_ROOM_LIMIT,
    .size_bytes = size_of,
    .fill = fill,
    .check = check,
};

static void find_parts(struct wr_customers *map)
{
    unsigned char *base = (unsigned char *)map->mapped.header;
    struct geometry g = geometry_of(map->mapped.room);

    map->room = map->mapped.room;
    map->key_count = map->room * WR_KEYS_PER_ROOM;
    map->header = (struct wr_customers_header *)(void *)base;
    map->plans = (char(*)[WR_CUSTOMER_PLAN_BYTES])(void *)(base + g.plans_at);
    map->epochs = (uint32_t *)(void *)(base + g.epochs_at);
    map->wants = (uint64_t *)(void *)(base + g.wants_at);
    map->records = (struct wr_customer_cell *)(void *)(base + g.records_at);
    map->keys = (struct wr_key_cell *)(void *)(base + g.keys_at);
    map->cache = (struct wr_cache_line *)(void *)(base + g.cache_at);
    map->hints = (struct wr_hints *)(void *)(base + g.hints_at);
    map->line_count = lines_of(map->room);
    map->hints_count = hints_of(map->room);
    map->hint_shift = map->room > 1 ? 32U - (unsigned)__builtin_clz(map->room - 1) : 0;
    memcpy(map->secret, map->header->secret, sizeof map->secret);
}

/* The lock of the one that changes the file, dropped by the kernel when it dies. A writer that was
 * killed may have changed a key and not said so to the cache. */
static int become_writer(struct wr_customers *map, struct wr_diag *diag)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

    if (fcntl(map->mapped.fd, F_OFD_SETLK, &lock) != 0) {
        bool held = errno == EAGAIN || errno == EACCES;
        wr_diag_add(diag, WR_ERROR, 0, 0,
                    held ? "another process changes it: is a second weir "
                           "serve running with it?"
                         : "cannot be locked");
        return held ? WEIR_EBUSY : WEIR_EIO;
    }
    map->writer = true;
    for (uint64_t i = 0; i < WR_CUSTOMER_EPOCHS; i++)
        wr_customers_void(map, 2 * i);
    return 0;
}

int wr_customers_open(struct wr_customers **out, const struct wr_customers_options *options,
                      struct wr_diag *diag)
{
    struct wr_customers *map = calloc(1, sizeof *map);
    int rc;

    *out = NULL;
    if (map == NULL)
        return WEIR_ENOMEM;
    rc = wr_mapped_open(&map->mapped, &kind, options->path, options->room, options->must_exist,
                        options, diag);
    if (rc == 0) {
        find_parts(map);
        if (options->writer)
            rc = become_writer(map, diag);
    }
    if (rc == 0)
        *out = map;
    else
        wr_customers_close(map);
    return rc;
}

void wr_customers_close(struct wr_customers *map)
{
    if (map == NULL)
        return;
    wr_mapped_close(&map->mapped);
    free(map);
}

uint32_t wr_customers_room(const struct wr_customers *map)
{
    return map->room;
}

uint64_t wr_customers_bytes(const struct wr_customers *map)
{
    return map->mapped.size_bytes;
}

enum wr_mapped_named wr_customers_named(const struct wr_customers *map, const char *path)
{
    return wr_mapped_named(&map->mapped, path);
}

/* ---- records ------------------------------------------------------------------------------- */

#define READ_TRIES 100 /* a writer would have to change one record so often meanwhile */

static uint8_t byte_of(uint64_t word, unsigned index)
{
    return (uint8_t)(word >> (8 * index));
}

static bool is_sane(const struct wr_customer_record *record)
{
    return record->plan < WR_CUSTOMER_PLANS && record->plan_after < WR_CUSTOMER_PLANS &&
           record->anchor <= 31;
}

bool wr_customers_get(const struct wr_customers *map, uint32_t number,
                      struct wr_customer_record *out)
{
    const struct wr_customer_cell *cell = &map->records[number];

    for (int i = 0; i < READ_TRIES && number < map->room; i++) {
        uint64_t word = WR_LOAD(&cell->pair.word);
        *out = (struct wr_customer_record){.id = WR_LOAD(&cell->id),
                                           .plan = byte_of(word, 0),
                                           .plan_after = byte_of(word, 1),
                                           .anchor = byte_of(word, 2),
                                           .flags = byte_of(word, 3),
                                           .until_ns = (int64_t)WR_LOAD(&cell->pair.state)};
        if (WR_LOAD(&cell->pair.word) != word)
            continue;
        if ((out->flags & WR_CUSTOMER_ACTIVE) == 0 || !is_sane(out))
            break;
        return true;
    }
    *out = (struct wr_customer_record){0};
    return false;
}

/* The word that follows |word| and says |record|. */
static uint64_t next_word(uint64_t word, const struct wr_customer_record *record, uint8_t flags)
{
    uint64_t sequence = (word >> 32) + 1;

    return sequence << 32 | (uint64_t)flags << 24 | (uint64_t)record->anchor << 16 |
           (uint64_t)record->plan_after << 8 | record->plan;
}

/* Change the pair of |cell|; others may set WANTS_UPGRADE meanwhile, which |keep| keeps. */
static void change(struct wr_customer_cell *cell, const struct wr_customer_record *record,
                   uint8_t flags, uint8_t keep)
{
    uint64_t word, until;

    do {
        word = WR_LOAD(&cell->pair.word);
        until = WR_LOAD(&cell->pair.state);
    } while (!wr_cas16(&cell->pair, word, until,
                       next_word(word, record, (uint8_t)(flags | (byte_of(word, 3) & keep))),
                       (uint64_t)record->until_ns));
}

int wr_customers_set(struct wr_customers *map, uint32_t number,
                     const struct wr_customer_record *record, bool met)
{
    struct wr_customer_cell *cell = &map->records[number];
    uint8_t keep = met ? 0 : WR_CUSTOMER_WANTS_UPGRADE;

    if (!map->writer || number >= map->room || !is_sane(record))
        return WEIR_EINVAL;
    if ((record->flags & WR_CUSTOMER_ACTIVE) == 0 || WR_LOAD(&cell->id) != record->id) {
        change(cell, record, 0, 0);
        WR_CRASH_POINT("customer: inactive");
        WR_STORE(&cell->id, record->id);
        WR_CRASH_POINT("customer: id written");
    }
    if ((record->flags & WR_CUSTOMER_ACTIVE) != 0)
        change(cell, record, record->flags, keep);
    WR_CRASH_POINT("customer: changed");
    return 0;
}

void wr_customers_want(struct wr_customers *map, uint32_t number, uint8_t plan, int64_t now_ns)
{
    struct wr_customer_cell *cell = &map->records[number];
    uint64_t word, until;

    if (number >= map->room)
        return;
    wr_mapped_set_bit(map->wants, number);
    do {
        word = WR_LOAD(&cell->pair.word);
        until = WR_LOAD(&cell->pair.state);
        if ((byte_of(word, 3) & WR_CUSTOMER_WANTS_UPGRADE) != 0)
            break;
        if ((byte_of(word, 3) & WR_CUSTOMER_ACTIVE) == 0 ||
            byte_of(word, now_ns < (int64_t)until ? 0 : 1) != plan)
            return;
    } while (!wr_cas16(&cell->pair, word, until,
                       (word | (uint64_t)WR_CUSTOMER_WANTS_UPGRADE << 24) + (UINT64_C(1) << 32),
                       until));
    wr_mapped_set_bit(map->wants, number);
}

bool wr_customers_wanting_next(struct wr_customers *map, uint32_t *at, uint32_t *number)
{
    struct wr_customer_record record;

    *number = 0;
    while (map->writer && wr_mapped_next_bit(map->wants, map->room, true, at, number))
        if (wr_customers_get(map, *number, &record) &&
            (record.flags & WR_CUSTOMER_WANTS_UPGRADE) != 0)
            return true;
    return false;
}

/* ---- plans --------------------------------------------------------------------------------- */

unsigned wr_customers_plan_count(const struct wr_customers *map)
{
    return (unsigned)wr_min_u64(WR_LOAD(&map->header->plan_count), WR_CUSTOMER_PLANS);
}

bool wr_customers_plan_name(const struct wr_customers *map, unsigned index,
                            char out[WR_CUSTOMER_PLAN_BYTES + 1])
{
    memset(out, 0, WR_CUSTOMER_PLAN_BYTES + 1);
    if (index >= wr_customers_plan_count(map))
        return false;
    memcpy(out, map->plans[index], WR_CUSTOMER_PLAN_BYTES);
    return out[0] != '\0';
}

int wr_customers_plan(struct wr_customers *map, const char *name)
{
    unsigned count = wr_customers_plan_count(map);
    size_t len = strlen(name);

    if (len == 0 || len > WR_CUSTOMER_PLAN_BYTES)
        return WEIR_EINVAL;
    for (unsigned i = 0; i < count; i++) {
        char known[WR_CUSTOMER_PLAN_BYTES + 1];
        if (wr_customers_plan_name(map, i, known) && strcmp(known, name) == 0)
            return (int)i;
    }
    if (!map->writer)
        return WEIR_EINVAL;
    if (count == WR_CUSTOMER_PLANS)
        return WEIR_EFULL;
    memset(map->plans[count], 0, WR_CUSTOMER_PLAN_BYTES);
    WR_CRASH_POINT("plan: half a name");
    memcpy(map->plans[count], name, len);
    WR_CRASH_POINT("plan: written");
    WR_STORE(&map->header->plan_count, (uint64_t)count + 1);
    return (int)count;
}

uint64_t wr_customers_mark(const struct wr_customers *map)
{
    return WR_LOAD(&map->header->mark);
}

int wr_customers_set_mark(struct wr_customers *map, uint64_t mark)
{
    if (!map->writer)
        return WEIR_EINVAL;
    WR_STORE(&map->header->mark, mark);
    return 0;
}
