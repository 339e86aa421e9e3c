/* arena.c - opening an arena, its time, its counters.
 *
 * A file is believed only as far as its header proves: magic, byte order, version, sizes, way of
 * compare-and-swap must be this build's, the counts must follow from the size, and the file must be
 * as long as it says (a shorter one would be SIGBUS at the first touch behind its end). What is in
 * slots, heads and nodes is checked where it is used.
 *
 * Time. CLOCK_MONOTONIC and CLOCK_BOOTTIME start anew at each boot, CLOCK_REALTIME steps when
 * somebody sets it. The arena's clock is CLOCK_BOOTTIME plus an offset, chosen so that it shows the
 * wall clock's time when the arena is first opened in a boot, but never a time before the last one
 * it is known to have shown: a step back would lock keys out, and one too far ahead would forgive
 * them. The offset stays for the whole boot. Civil days are not for that clock to say: whoever
 * renews the record says how far the machine's clock is ahead of it then, and who counts by civil
 * days adds that (wr_arena_wall_ahead_ns).
 *
 * The first opener, alone inside the gate, sets the offset and gives back what kills have leaked.
 * A file cut shorter while it is mapped is SIGBUS for all its users; that is not caught. */
#include "store/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "store/ban.h"
#include "store/claim.h"
#include "store/class.h"
#include "store/file.h"
#include "store/list.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; glibc 2.36 has it behind a newer header */
#endif

#define RECORD_EVERY_NS WR_NS_PER_S /* how far a crash can set the arena's clock back at a boot */

#define TOGETHER_NS (2 * WR_NS_PER_S) /* clocks apart by less are not worth telling apart */
#define HALTED_NS (100 * WR_NS_PER_MS)

/* ---- the header ---------------------------------------------------------------------------- */

static int misfit(struct wr_diag *diag, const char *what, uint64_t found, uint64_t expected)
{
    wr_diag_add(diag, WR_ERROR, 0, 0, "its %s is %llu, this build expects %llu", what,
                (unsigned long long)found, (unsigned long long)expected);
    return WEIR_EFORMAT;
}

/* Was the arena made by a build that can share it with this one? */
static int check_build(const struct wr_header *h, struct wr_diag *diag)
{
    if (memcmp(h->magic, WR_ARENA_MAGIC, sizeof h->magic) != 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "is not a weir arena");
        return WEIR_EFORMAT;
    }
    if (h->byte_order == __builtin_bswap32(WR_BYTE_ORDER_MARK)) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "was made by a machine of the other byte order");
        return WEIR_EFORMAT;
    }
    if (h->byte_order != WR_BYTE_ORDER_MARK)
        return misfit(diag, "byte order mark", h->byte_order, WR_BYTE_ORDER_MARK);
    if (h->version != WR_ARENA_VERSION)
        return misfit(diag, "version", h->version, WR_ARENA_VERSION);
    if (h->layout != wr_layout_word())
        return misfit(diag, "layout", h->layout, wr_layout_word());
    if (h->cas != WR_CAS_PAIR)
        return misfit(diag, "way to change slots", h->cas, WR_CAS_PAIR);
    return 0;
}

static int damaged(struct wr_diag *diag, const char *what)
{
    wr_diag_add(diag, WR_ERROR, 0, 0, "its header is damaged: %s", what);
    return WEIR_ECORRUPT;
}

static int check_sizes(const struct wr_header *h, uint64_t file_bytes, struct wr_geometry *g,
                       struct wr_diag *diag)
{
    if (h->size_bytes < WR_ARENA_BYTES_MIN || h->size_bytes > WR_ARENA_BYTES_MAX ||
        h->node_share > 90)
        return damaged(diag, "impossible sizes");
    if (h->size_bytes != file_bytes) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "is %llu bytes long, its header says %llu: %s",
                    (unsigned long long)file_bytes, (unsigned long long)h->size_bytes,
                    file_bytes < h->size_bytes ? "it was truncated" : "it was appended to");
        return WEIR_ECORRUPT;
    }
    *g = wr_geometry_of(h->size_bytes, h->node_share);
    if (h->class_count != g->class_count || h->bucket_count != g->bucket_count ||
        h->head_count != g->head_count || h->node_count != g->node_count ||
        h->ban_count != g->ban_count)
        return damaged(diag, "its counts do not follow from its size");
    if (h->recorded_ns < 0 || h->recorded_ns > WR_TIME_MAX_NS || h->created_ns < 0 ||
        h->created_ns > WR_TIME_MAX_NS)
        return damaged(diag, "impossible times");
    return 0;
}

static int check_wanted(const struct wr_header *h, const struct wr_arena_options *options,
                        struct wr_diag *diag)
{
    if (options->size_bytes != 0 && options->size_bytes != h->size_bytes) {
        wr_diag_add(diag, WR_WARNING, 0, 0,
                    "is %llu bytes, %llu are wanted: used as it is; to change its size, remove it "
                    "while nobody uses it",
                    (unsigned long long)h->size_bytes, (unsigned long long)options->size_bytes);
    }
    if (options->node_share > 0 && h->node_share == 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0,
                    "was made without room for lists of stamps, which are wanted; remove it while "
                    "nobody uses it");
        return WEIR_EFORMAT;
    }
    return 0;
}

/* Read and check the header of the file |fd|. */
static int check_file(int fd, const struct wr_arena_options *options, struct wr_geometry *g,
                      struct wr_diag *diag)
{
    struct wr_header header;
    struct stat st;
    ssize_t got = pread(fd, &header, sizeof header, 0);
    int rc;

    if (got < 0 || fstat(fd, &st) != 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "cannot be read: %s", strerror(errno));
        return WEIR_EIO;
    }
    if (got < (ssize_t)sizeof header) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "is not a weir arena: only %lld bytes long",
                    (long long)st.st_size);
        return WEIR_EFORMAT;
    }
    rc = check_build(&header, diag);
    if (rc == 0)
        rc = check_sizes(&header, (uint64_t)st.st_size, g, diag);
    if (rc == 0)
        rc = check_wanted(&header, options, diag);
    return rc;
}

/* ---- mapping ------------------------------------------------------------------------------- */

static int map_file(struct wr_arena *arena, const struct wr_geometry *g, struct wr_diag *diag)
{
    int protection = arena->read_only ? PROT_READ : PROT_READ | PROT_WRITE;
    unsigned char *base =
        (unsigned char *)mmap(NULL, g->size_bytes, protection, MAP_SHARED, arena->fd, 0);

    if (base == MAP_FAILED) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "cannot be mapped: %s", strerror(errno));
        return WEIR_EIO;
    }
    /* Both are wishes: 2 MiB pages save a fifth of a miss, pages touched now spare the first
     * decision on each 2 us. */
    (void)madvise(base, g->size_bytes, MADV_HUGEPAGE);
    if (!arena->read_only)
        (void)madvise(base, g->size_bytes, MADV_POPULATE_WRITE);
    arena->size_bytes = g->size_bytes;
    arena->header = (struct wr_header *)(void *)base;
    arena->claims = (struct wr_claim *)(void *)(base + WR_HEADER_BYTES);
    arena->classes = (struct wr_class_entry *)(void *)(base + WR_CLASSES_OFFSET);
    arena->class_count = (uint32_t)g->class_count;
    arena->buckets = (struct wr_bucket *)(void *)(base + g->buckets_at);
    arena->bucket_count = g->bucket_count;
    arena->heads = (struct wr_log_head *)(void *)(base + g->heads_at);
    arena->head_count = (uint32_t)g->head_count;
    arena->ban_cells = (struct wr_slot *)(void *)(base + g->cells_at);
    arena->ban_records = (struct wr_ban_record *)(void *)(base + g->records_at);
    arena->ban_count = (uint32_t)g->ban_count;
    arena->nodes = (struct wr_node *)(void *)(base + g->nodes_at);
    arena->node_count = (uint32_t)g->node_count;
    memcpy(arena->secret, arena->header->secret, sizeof arena->secret);
    return 0;
}

static int map_process(struct wr_arena *arena)
{
    void *page = mmap(NULL, sizeof(struct wr_process), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return WEIR_ENOMEM;
    (void)madvise(page, sizeof(struct wr_process), MADV_WIPEONFORK);
    arena->process = (struct wr_process *)page;
    return 0;
}

/* ---- time ---------------------------------------------------------------------------------- */

/* The kernel's name for this boot; empty where it cannot be read (then only the clock tells). */
static void read_boot_id(char id[WR_BOOT_ID_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    memset(id, 0, WR_BOOT_ID_BYTES);
    if (fd < 0)
        return;
    if (read(fd, id, 36) != 36)
        memset(id, 0, WR_BOOT_ID_BYTES);
    (void)close(fd);
}

static bool same_boot(const struct wr_header *h, const char id[WR_BOOT_ID_BYTES], int64_t mono_ns)
{
    int64_t now_ns;

    if (memcmp(h->boot_id, id, WR_BOOT_ID_BYTES) != 0)
        return false;
    now_ns = wr_add_sat_i64(mono_ns, WR_LOAD(&h->offset_ns));
    return now_ns <= WR_TIME_MAX_NS &&
           now_ns + WR_CLOCK_NOISE_NS >= WR_LOAD(&h->recorded_ns); /* others record meanwhile */
}

/* Find or make the offset. |alone|: nobody else has the arena open, so it may be changed. */
static int set_time(struct wr_arena *arena, bool alone, struct wr_diag *diag)
{
    struct wr_header *h = arena->header;
    int64_t mono_ns = wr_clock_mono().ns;
    char id[WR_BOOT_ID_BYTES];
    int64_t now_ns;

    read_boot_id(id);
    if (same_boot(h, id, mono_ns)) {
        arena->offset_ns = WR_LOAD(&h->offset_ns);
        return 0;
    }
    now_ns = wr_max_i64(wr_clock_wall().ns, WR_LOAD(&h->recorded_ns));
    arena->offset_ns = wr_min_i64(now_ns, WR_TIME_MAX_NS) - mono_ns;
    if (arena->read_only)
        return 0;
    if (!alone) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "is used by processes that count time from another boot");
        return WEIR_EFORMAT;
    }
    memcpy(h->boot_id, id, sizeof h->boot_id);
    WR_STORE(&h->offset_ns, arena->offset_ns);
    return 0;
}

/* A process that was halted between the looks at two clocks says nothing. */
static void compare_clocks(const struct wr_arena *arena, int64_t now_ns)
{
    int64_t ahead_ns = wr_clock_wall().ns - now_ns;

    if (wr_clock_mono().ns + arena->offset_ns - now_ns < HALTED_NS)
        WR_STORE(&arena->header->wall_ahead_ns,
                 ahead_ns > TOGETHER_NS || ahead_ns < -TOGETHER_NS ? ahead_ns : 0);
}

static __attribute__((noinline)) void record(const struct wr_arena *arena, int64_t now_ns)
{
    WR_STORE(&arena->header->recorded_ns, now_ns);
    compare_clocks(arena, now_ns);
}

int64_t wr_arena_now(const struct wr_arena *arena)
{
    int64_t now_ns = wr_clock_mono().ns + arena->offset_ns;

    if (WR_LOAD(&arena->header->recorded_ns) < now_ns - RECORD_EVERY_NS && !arena->read_only)
        record(arena, now_ns);
    return now_ns;
}

int64_t wr_arena_wall_ahead_ns(const struct wr_arena *arena)
{
    int64_t ahead_ns = WR_LOAD(&arena->header->wall_ahead_ns); /* of a file, so anything */

    return wr_max_i64(-WR_TIME_MAX_NS, wr_min_i64(ahead_ns, WR_TIME_MAX_NS));
}

/* ---- open and close ------------------------------------------------------------------------ */

/* Claim a place among the processes that use the arena; put it in order if this is the only one. */
static int attach(struct wr_arena *arena, struct wr_diag *diag)
{
    struct wr_header *h = arena->header;
    bool alone;
    int rc;

    if (arena->read_only)
        return set_time(arena, false, diag);
    if (wr_gate_enter(arena) != 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "another process is opening it and does not go on");
        return WEIR_EBUSY;
    }
    alone = !wr_claim_others(arena);
    rc = set_time(arena, alone, diag);
    if (rc == 0 && alone && WR_LOAD(&h->opens) != WR_LOAD(&h->closes)) {
        wr_list_collect(arena);
        WR_STORE(&h->closes, WR_LOAD(&h->opens));
    }
    if (rc == 0 && alone)
        wr_ban_summarise(arena);
    if (rc == 0) {
        rc = wr_claim_take(arena);
        if (rc != 0)
            wr_diag_add(diag, WR_ERROR, 0, 0,
                        rc == WEIR_EFULL ? "%d processes have it open, which is the most there can "
                                           "be"
                                         : "none of its %d claims can be locked",
                        WR_CLAIMS);
    }
    wr_gate_leave(arena);
    if (rc == 0)
        compare_clocks(arena, wr_arena_now(arena));
    return rc;
}

static void release(struct wr_arena *arena)
{
    if (arena->process != NULL)
        (void)munmap(arena->process, sizeof(struct wr_process));
    if (arena->header != NULL)
        (void)munmap(arena->header, arena->size_bytes);
    if (arena->fd >= 0)
        (void)close(arena->fd); /* drops the claim */
    (void)pthread_mutex_destroy(&arena->gate);
    wr_class_uses_free(arena->uses);
    free(arena);
}

int wr_arena_open(struct wr_arena **out, const struct wr_arena_options *options,
                  struct wr_diag *diag)
{
    struct wr_arena *arena = (struct wr_arena *)calloc(1, sizeof *arena);
    struct wr_geometry geometry = {0};
    int rc;

    *out = NULL;
    if (arena == NULL)
        return WEIR_ENOMEM;
    arena->references = 1;
    arena->judge = options->judge;
    arena->read_only = options->read_only;
    (void)pthread_mutex_init(&arena->gate, NULL);
    rc = wr_file_open(options, &arena->fd, diag);
    if (rc == 0)
        rc = check_file(arena->fd, options, &geometry, diag);
    if (rc == 0)
        rc = map_file(arena, &geometry, diag);
    if (rc == 0)
        rc = map_process(arena);
    if (rc == 0)
        rc = wr_class_uses_new(arena);
    if (rc == 0)
        rc = attach(arena, diag);
    if (rc == 0)
        *out = arena;
    else
        release(arena);
    return rc;
}

void wr_arena_share(struct wr_arena *arena)
{
    (void)WR_ADD(&arena->references, 1);
}

void wr_arena_close(struct wr_arena *arena)
{
    if (arena == NULL || __atomic_sub_fetch(&arena->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (!arena->read_only) {
        WR_STORE(&arena->header->recorded_ns,
                 wr_max_i64(wr_arena_now(arena), WR_LOAD(&arena->header->recorded_ns)));
        if (WR_LOAD(&arena->process->claimed) != 0)
            (void)WR_ADD(&arena->header->closes, 1);
    }
    release(arena);
}

struct wr_sip_key wr_arena_secret(const struct wr_arena *arena)
{
    return (struct wr_sip_key){{arena->secret[0], arena->secret[1]}};
}

uint64_t wr_arena_count(const struct wr_arena *arena, enum wr_arena_counter counter)
{
    return (unsigned)counter < WR_ARENA_COUNTERS ? WR_LOAD(&arena->header->counters[counter]) : 0;
}

uint64_t wr_arena_bytes(const struct wr_arena *arena)
{
    return arena->size_bytes;
}

uint64_t wr_arena_slots(const struct wr_arena *arena)
{
    return arena->bucket_count * WR_BUCKET_SLOTS;
}
