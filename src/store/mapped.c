/* mapped.c - opening the mapped files beside the arena.
 *
 * A file is believed only as far as its header proves: it must be of this kind and build, its size
 * must follow from its room, and the file must be as long as it says (a shorter one would be SIGBUS
 * at the first touch behind its end). Nothing else is read when it is opened, so that takes as long
 * for a million customers as for one. What lies behind the header is checked where it is used.
 *
 * Written to disk before it gets its name: after a power loss there is no file, or a whole one. */
#include "store/mapped.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/whole.h"

#define REMEDY "; stop weir, remove it, start weir: it is made anew from the database"

struct making {
    const struct wr_mapped_kind *kind;
    uint32_t room;
    const void *context;
};

static int fill(int fd, const void *context, struct wr_diag *diag)
{
    const struct making *making = context;
    const struct wr_mapped_kind *kind = making->kind;
    static_assert(WR_MAPPED_HEADER_BYTES % 8 == 0, "");
    _Alignas(64) unsigned char page[WR_MAPPED_HEADER_BYTES] = {0};
    struct wr_mapped_header *header = (struct wr_mapped_header *)(void *)page;
    int rc;

    memcpy(header->magic, kind->magic, sizeof header->magic);
    header->byte_order = WR_BYTE_ORDER_MARK;
    header->version = kind->version;
    header->layout = kind->layout;
    header->cas = WR_CAS_PAIR;
    header->room = making->room;
    header->size_bytes = kind->size_bytes(making->room);
    header->created_ns = wr_max_i64(0, wr_clock_wall().ns);
    rc = wr_whole_reserve(fd, header->size_bytes, diag);
    if (rc != 0)
        return rc;
    if (!kind->fill(header, making->context) ||
        pwrite(fd, page, sizeof page, 0) != (ssize_t)sizeof page || fsync(fd) != 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "the header cannot be written: %s", strerror(errno));
        return WEIR_EIO;
    }
    return 0;
}

static int misfit(struct wr_diag *diag, const char *what, uint64_t found, uint64_t expected)
{
    wr_diag_add(diag, WR_ERROR, 0, 0, "its %s is %llu, this build expects %llu" REMEDY, what,
                (unsigned long long)found, (unsigned long long)expected);
    return WEIR_EFORMAT;
}

static int check_build(const struct wr_mapped_header *h, const struct wr_mapped_kind *kind,
                       struct wr_diag *diag)
{
    if (memcmp(h->magic, kind->magic, sizeof h->magic) != 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "is not %s" REMEDY, kind->what);
        return WEIR_EFORMAT;
    }
    if (h->byte_order != WR_BYTE_ORDER_MARK)
        return misfit(diag, "byte order mark", h->byte_order, WR_BYTE_ORDER_MARK);
    if (h->version != kind->version)
        return misfit(diag, "version", h->version, kind->version);
    if (h->layout != kind->layout)
        return misfit(diag, "layout", h->layout, kind->layout);
    if (h->cas != WR_CAS_PAIR)
        return misfit(diag, "way to change pairs", h->cas, WR_CAS_PAIR);
    return 0;
}

static int check_sizes(const struct wr_mapped_header *h, const struct wr_mapped_kind *kind,
                       uint64_t file_bytes, struct wr_diag *diag)
{
    if (h->room == 0 || h->room > kind->room_max || h->size_bytes != kind->size_bytes(h->room)) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "its header is damaged: impossible sizes" REMEDY);
        return WEIR_ECORRUPT;
    }
    if (h->size_bytes != file_bytes) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "is %llu bytes long, its header says %llu: %s" REMEDY,
                    (unsigned long long)file_bytes, (unsigned long long)h->size_bytes,
                    file_bytes < h->size_bytes ? "it was truncated" : "it was appended to");
        return WEIR_ECORRUPT;
    }
    return 0;
}

static int check_file(const struct wr_mapped *mapped, const struct wr_mapped_kind *kind,
                      struct wr_mapped_header *page, const void *context, struct wr_diag *diag)
{
    struct stat st;
    ssize_t got = pread(mapped->fd, page, WR_MAPPED_HEADER_BYTES, 0);
    int rc;

    if (got < 0 || fstat(mapped->fd, &st) != 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "cannot be read: %s", strerror(errno));
        return WEIR_EIO;
    }
    if (got < WR_MAPPED_HEADER_BYTES) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "is not %s: only %lld bytes long" REMEDY, kind->what,
                    (long long)st.st_size);
        return WEIR_EFORMAT;
    }
    rc = check_build(page, kind, diag);
    if (rc == 0)
        rc = check_sizes(page, kind, (uint64_t)st.st_size, diag);
    if (rc == 0)
        rc = kind->check(page, context, diag);
    return rc;
}

static int map_file(struct wr_mapped *mapped, const struct wr_mapped_header *page,
                    struct wr_diag *diag)
{
    void *base = mmap(NULL, page->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapped->fd, 0);

    if (base == MAP_FAILED) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "cannot be mapped: %s", strerror(errno));
        return WEIR_EIO;
    }
    (void)madvise(base, page->size_bytes, MADV_HUGEPAGE); /* a wish */
    mapped->header = (struct wr_mapped_header *)base;
    mapped->size_bytes = page->size_bytes;
    mapped->room = page->room;
    return 0;
}

int wr_mapped_open(struct wr_mapped *out, const struct wr_mapped_kind *kind, const char *path,
                   uint32_t room, bool must_exist, const void *context, struct wr_diag *diag)
{
    struct making making = {kind, room, context};
    const struct wr_whole whole = {.path = path,
                                   .what = kind->what,
                                   .must_exist = must_exist || room == 0,
                                   .fill = fill,
                                   .context = &making};
    _Alignas(64) unsigned char page[WR_MAPPED_HEADER_BYTES];
    struct wr_mapped_header *header = (struct wr_mapped_header *)(void *)page;
    int rc;

    *out = (struct wr_mapped){.fd = -1};
    if (room > kind->room_max) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "a room for %lu customers is not in 1..%lu",
                    (unsigned long)room, (unsigned long)kind->room_max);
        return WEIR_EINVAL;
    }
    rc = wr_whole_open(&whole, &out->fd, diag);
    if (rc == 0)
        rc = check_file(out, kind, header, context, diag);
    if (rc == 0)
        rc = map_file(out, header, diag);
    if (rc != 0)
        wr_mapped_close(out);
    return rc;
}

void wr_mapped_close(struct wr_mapped *mapped)
{
    if (mapped->header != NULL)
        (void)munmap(mapped->header, mapped->size_bytes);
    if (mapped->fd >= 0)
        (void)close(mapped->fd);
    *mapped = (struct wr_mapped){.fd = -1};
}

enum wr_mapped_named wr_mapped_named(const struct wr_mapped *mapped, const char *path)
{
    struct stat mine, there;

    if (stat(path, &there) != 0)
        return errno == ENOENT ? WR_MAPPED_NOTHING : WR_MAPPED_ITSELF;
    if (fstat(mapped->fd, &mine) != 0)
        return WR_MAPPED_ITSELF;
    return mine.st_dev == there.st_dev && mine.st_ino == there.st_ino ? WR_MAPPED_ITSELF
                                                                      : WR_MAPPED_ANOTHER;
}

bool wr_mapped_next_bit(uint64_t *bits, uint32_t room, bool take, uint32_t *at, uint32_t *number)
{
    *number = 0;
    while (*at < room) {
        uint64_t *word = &bits[*at / 64];
        uint64_t rest = __atomic_load_n(word, __ATOMIC_RELAXED) >> (*at % 64);
        uint32_t found;

        if (rest == 0) {
            *at = (*at / 64 + 1) * 64;
            continue;
        }
        found = *at + (uint32_t)__builtin_ctzll(rest);
        if (found >= room)
            break;
        if (take)
            (void)__sync_fetch_and_and(word, ~(UINT64_C(1) << (found % 64)));
        *at = found + 1;
        *number = found;
        return true;
    }
    *at = room;
    return false;
}
