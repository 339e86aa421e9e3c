/* usage.c - a file of usage: opened, and what the ledger does with it. Counting is in usage_cell.c.
 *
 * The ledger learns what has changed from a bit a cell, clears it and reads the cell; if it cannot
 * write then, it sets the bit again. A cell has absolute counts, so what is written twice is
 * written right.
 *
 * A kill of any process loses nothing, as the pages of a shared mapping are the kernel's. A power
 * loss may lose what lay in them, wholly or in part, and cannot be told from the file: so it says
 * in which boot of the machine it was last brought up to the ledger. Nor can an older copy that
 * somebody puts back: so it says how far the ledger was. */
#include "store/usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "store/usage_file.h"

/* ---- the file ------------------------------------------------------------------------------ */

struct geometry {
    uint64_t dirty_at, known_at, cells_at, size_bytes;
};

static struct geometry geometry_of(uint32_t room)
{
    uint64_t bits = wr_mapped_pages(((uint64_t)room + 63) / 64 * 8);
    struct geometry g = {.dirty_at = WR_MAPPED_HEADER_BYTES};

    g.known_at = g.dirty_at + bits;
    g.cells_at = g.known_at + bits;
    g.size_bytes = g.cells_at + wr_mapped_pages((uint64_t)room * sizeof(struct wr_usage_cell));
    return g;
}

static uint64_t size_of(uint32_t room)
{
    return geometry_of(room).size_bytes;
}

static bool fill(struct wr_mapped_header *header, const void *context)
{
    const struct wr_usage_options *options = context;
    struct wr_usage_header *h = (struct wr_usage_header *)(void *)header;
    size_t len = strnlen(options->name, sizeof h->name);

    memcpy(h->name, options->name, len);
    h->per = options->per;
    return true;
}

/* The name in the header as text; one that can be no file's is none. */
static void read_name(const struct wr_usage_header *h, char out[WR_USAGE_NAME_BYTES + 1])
{
    memcpy(out, h->name, WR_USAGE_NAME_BYTES);
    out[WR_USAGE_NAME_BYTES] = '\0';
    for (const char *at = out; *at != '\0'; at++)
        if (*at <= ' ' || *at > '~' || *at == '/') {
            memcpy(out, "?", 2);
            return;
        }
}

/* Is there a file of usage by that name beside the one at |path|? */
static bool is_there(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    char beside[4096];
    int len = snprintf(beside, sizeof beside, "%.*s%s" WR_USAGE_SUFFIX,
                       slash != NULL ? (int)(slash + 1 - path) : 0, path, name);

    return len > 0 && (size_t)len < sizeof beside && access(beside, F_OK) == 0;
}

#define AWAY "stop weir and move it out of the directory: it is made anew, with what the ledger has"

/* What is counted belongs to the quota that it was counted for: not to one whose file somebody gave
 * this one's name. */
static int check_name(const struct wr_usage_header *h, const struct wr_usage_options *options,
                      struct wr_diag *diag)
{
    char name[WR_USAGE_NAME_BYTES + 1];

    if (strncmp(h->name, options->name, sizeof h->name) == 0)
        return 0;
    read_name(h, name);
    if (strcmp(name, "?") == 0 || name[0] == '\0')
        wr_diag_add(diag, WR_ERROR, 0, 0, "has a damaged name in its header; " AWAY);
    else if (is_there(options->path, name))
        wr_diag_add(diag, WR_ERROR, 0, 0,
                    "has what was counted of the quota \"%s\", and the name of the file of "
                    "\"%s\"; there is a %s" WR_USAGE_SUFFIX
                    " too, which stays as it is: this one is a copy, or damaged; " AWAY,
                    name, options->name, name);
    else
        wr_diag_add(
            diag, WR_ERROR, 0, 0,
            "has what was counted of the quota \"%s\", and the name of the file of \"%s\"; stop "
            "weir and give it its own name again (%s" WR_USAGE_SUFFIX
            "); if there never was such a quota, its header is damaged: " AWAY,
            name, options->name, name);
    return WEIR_EFORMAT;
}

static int check(const struct wr_mapped_header *header, const void *context, struct wr_diag *diag)
{
    const struct wr_usage_options *options = context;
    const struct wr_usage_header *h = (const struct wr_usage_header *)(const void *)header;
    int rc = check_name(h, options, diag);

    if (rc != 0)
        return rc;
    if (h->per != options->per && options->per != WR_USAGE_PER_ANY) {
        wr_diag_add(
            diag, WR_ERROR, 0, 0,
            "was counted in other windows (day, week, month) than the policy says now; give "
            "the quota another name, or stop weir and remove this file");
        return WEIR_EFORMAT;
    }
    if (options->room > header->room)
        wr_diag_add(diag, WR_WARNING, 0, 0,
                    "has cells for %lu customers, %lu are wanted: used as it is; to change that, "
                    "stop weir, remove it, start weir: it is made anew from the ledger",
                    (unsigned long)header->room, (unsigned long)options->room);
    return 0;
}

static const struct wr_mapped_kind kind = {
    .what = "a file of usage",
    .magic = WR_USAGE_MAGIC,
    .version = WR_USAGE_VERSION,
    .layout = sizeof(struct wr_usage_cell) | (uint64_t)WR_USAGE_WINDOWS << 12 |
              (uint64_t)WR_USAGE_UNIT_BITS << 24,
    .room_max = WR_USAGE_ROOM_LIMIT,
    .size_bytes = size_of,
    .fill = fill,
    .check = check,
};

int wr_usage_open(struct wr_usage **out, const struct wr_usage_options *options,
                  struct wr_diag *diag)
{
    struct wr_usage *usage = calloc(1, sizeof *usage);
    struct geometry g;
    unsigned char *base;
    int rc;

    *out = NULL;
    if (usage == NULL)
        return WEIR_ENOMEM;
    rc = wr_mapped_open(&usage->mapped, &kind, options->path, options->room, options->must_exist,
                        options, diag);
    if (rc != 0) {
        free(usage);
        return rc;
    }
    base = (unsigned char *)usage->mapped.header;
    usage->room = usage->mapped.room;
    g = geometry_of(usage->room);
    usage->header = (struct wr_usage_header *)(void *)base;
    usage->dirty = (uint64_t *)(void *)(base + g.dirty_at);
    usage->known = (uint64_t *)(void *)(base + g.known_at);
    usage->cells = (struct wr_usage_cell *)(void *)(base + g.cells_at);
    *out = usage;
    return 0;
}

void wr_usage_close(struct wr_usage *usage)
{
    if (usage == NULL)
        return;
    wr_mapped_close(&usage->mapped);
    free(usage);
}

uint32_t wr_usage_room(const struct wr_usage *usage)
{
    return usage->room;
}

/* The file at |path|, to be closed, if it is one of usage; -1. */
static int open_to_look(const char *path, uint32_t *room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct wr_mapped_header header;

    *room = 0;
    if (fd >= 0 && pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header &&
        memcmp(header.magic, WR_USAGE_MAGIC, sizeof header.magic) == 0 &&
        header.room <= WR_USAGE_ROOM_LIMIT) {
        *room = header.room;
        return fd;
    }
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

uint32_t wr_usage_room_at(const char *path)
{
    uint32_t room;
    int fd = open_to_look(path, &room);

    if (fd >= 0)
        (void)close(fd);
    return room;
}

uint32_t wr_usage_end_at(const char *path)
{
    uint64_t known[512];
    uint32_t room, end = 0;
    int fd = open_to_look(path, &room);
    struct geometry g = geometry_of(room);

    for (uint32_t from = 0; fd >= 0 && from < room; from += 64 * 512) {
        ssize_t n = pread(fd, known, sizeof known, (off_t)(g.known_at + from / 8));
        for (uint32_t i = 0; n > 0 && i < (size_t)n / sizeof known[0]; i++)
            if (known[i] != 0)
                end = from + 64 * i + 64 - (uint32_t)__builtin_clzll(known[i]);
    }
    if (fd >= 0)
        (void)close(fd);
    return end < room ? end : room;
}

uint8_t wr_usage_per(const struct wr_usage *usage)
{
    return (uint8_t)usage->header->per;
}

uint64_t wr_usage_bytes(const struct wr_usage *usage)
{
    return usage->mapped.size_bytes;
}

enum wr_mapped_named wr_usage_named(const struct wr_usage *usage, const char *path)
{
    return wr_mapped_named(&usage->mapped, path);
}

uint64_t wr_usage_lost_units(const struct wr_usage *usage)
{
    return WR_LOAD(&usage->header->lost_units);
}

uint64_t wr_usage_batch(const struct wr_usage *usage)
{
    return WR_LOAD(&usage->header->batch);
}

void wr_usage_set_batch(struct wr_usage *usage, uint64_t batch)
{
    WR_STORE(&usage->header->batch, batch);
}

void wr_usage_set_flushed(struct wr_usage *usage, int32_t day)
{
    WR_STORE(&usage->header->flushed_day, (uint64_t)wr_max_i64(0, day));
}

/* ---- the ledger ---------------------------------------------------------------------------- */

#define READ_TRIES 100

/* One window as it was at some moment; false: none. */
static bool read_window(const struct wr_slot *pair, struct wr_usage_window *out)
{
    uint64_t used = WR_LOAD(&pair->word), over = 0;

    for (int i = 0; i < READ_TRIES; i++) {
        uint64_t again;
        over = WR_LOAD(&pair->state);
        again = WR_LOAD(&pair->word);
        if (again == used)
            break;
        used = again;
    }
    *out = (struct wr_usage_window){.day = (int32_t)(used >> WR_USAGE_UNIT_BITS),
                                    .units = used & WR_USAGE_UNITS_MAX,
                                    .over = wr_min_u64(over, used & WR_USAGE_UNITS_MAX)};
    return used != 0;
}

/* Put |window| among the |count| that are there, in order. Two of one day, which only clocks that
 * stepped about can make, are one. */
static unsigned insert(struct wr_usage_window out[], unsigned count,
                       const struct wr_usage_window *window)
{
    unsigned at = count;

    while (at > 0 && out[at - 1].day > window->day)
        at--;
    if (at > 0 && out[at - 1].day == window->day) {
        out[at - 1].units += window->units;
        out[at - 1].over += window->over;
        return count;
    }
    memmove(&out[at + 1], &out[at], (count - at) * sizeof *out);
    out[at] = *window;
    return count + 1;
}

unsigned wr_usage_read(const struct wr_usage *usage, uint32_t number,
                       struct wr_usage_window out[WR_USAGE_WINDOWS])
{
    struct wr_usage_window window;
    unsigned count = 0;

    for (unsigned i = 0; i < WR_USAGE_WINDOWS && number < usage->room; i++)
        if (read_window(&usage->cells[number].window[i], &window))
            count = insert(out, count, &window);
    return count;
}

bool wr_usage_dirty_next(struct wr_usage *usage, uint32_t *at, uint32_t *number)
{
    return wr_mapped_next_bit(usage->dirty, usage->room, true, at, number);
}

void wr_usage_mark(struct wr_usage *usage, uint32_t number)
{
    if (number < usage->room)
        wr_mapped_set_bit(usage->dirty, number);
}

bool wr_usage_is_dirty(const struct wr_usage *usage, uint32_t number)
{
    return number < usage->room && wr_mapped_bit(usage->dirty, number);
}

/* Who was killed in between has left it odd. */
void wr_usage_taking_begin(struct wr_usage *usage)
{
    uint64_t was = WR_LOAD(&usage->header->taking);

    __atomic_store_n(&usage->header->taking, was | 1, __ATOMIC_SEQ_CST);
}

void wr_usage_taking_end(struct wr_usage *usage)
{
    uint64_t was = WR_LOAD(&usage->header->taking);

    __atomic_store_n(&usage->header->taking, (was | 1) + 1, __ATOMIC_SEQ_CST);
}

uint64_t wr_usage_taking(const struct wr_usage *usage)
{
    return __atomic_load_n(&usage->header->taking, __ATOMIC_SEQ_CST);
}

bool wr_usage_known_next(const struct wr_usage *usage, uint32_t *at, uint32_t *number)
{
    return wr_mapped_next_bit(usage->known, usage->room, false, at, number);
}

/* Days that a window may begin before the file was made: what the ledger has put back into a new
 * one, months as well. And after today: clocks are set back. */
#define DAYS_BEFORE 400
#define DAYS_AHEAD 32
#define DAYS_UNKNOWN 3653

bool wr_usage_can_begin(const struct wr_usage *usage, int32_t day, int32_t today)
{
    int64_t made = usage->mapped.header->created_ns / WR_NS_PER_DAY;

    if (made > today) /* so it says, or so the clock does: one of them is wrong */
        made = today - DAYS_UNKNOWN;
    return day <= today + DAYS_AHEAD && day >= made - DAYS_BEFORE;
}

void wr_usage_raise(struct wr_usage *usage, uint32_t number, const struct wr_usage_window *window,
                    int32_t today)
{
    uint64_t units = wr_min_u64(window->units, WR_USAGE_UNITS_MAX);
    struct wr_usage_view view;
    uint64_t used, over;

    while (wr_usage_find(usage, number, window->day, &view)) {
        int32_t given_way = (int32_t)(view.was_used >> WR_USAGE_UNIT_BITS);
        if (view.used == 0 && view.was_used != 0 && given_way > window->day &&
            wr_usage_can_begin(usage, given_way, today))
            return;
        used = wr_max_u64(view.used & WR_USAGE_UNITS_MAX, units);
        over = wr_max_u64(view.over, window->over);
        used |= ((uint64_t)window->day & WR_USAGE_DAY_MASK) << WR_USAGE_UNIT_BITS;
        if ((used == view.used && over == view.over) ||
            wr_usage_put(usage, number, &view, used, over))
            return;
    }
}

/* ---- the boot ------------------------------------------------------------------------------ */

/* The kernel's name for this boot; empty where it cannot be read. */
static void read_boot(char boot[WR_USAGE_BOOT_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    memset(boot, 0, WR_USAGE_BOOT_BYTES);
    if (fd < 0)
        return;
    if (read(fd, boot, 36) != 36)
        memset(boot, 0, WR_USAGE_BOOT_BYTES);
    (void)close(fd);
}

bool wr_usage_is_restored(const struct wr_usage *usage)
{
    char boot[WR_USAGE_BOOT_BYTES];

    read_boot(boot);
    return boot[0] != '\0' && memcmp(usage->header->restored_boot, boot, sizeof boot) == 0;
}

bool wr_usage_is_new(const struct wr_usage *usage)
{
    return usage->header->restored_boot[0] == '\0' && wr_usage_batch(usage) == 0;
}

void wr_usage_set_restored(struct wr_usage *usage)
{
    char boot[WR_USAGE_BOOT_BYTES];

    read_boot(boot);
    memcpy(usage->header->restored_boot, boot, sizeof boot);
}
