/* file.c - the arena's file: its header, and where it lies. How a file is made whole or not at all
 * is in whole.c. */
#include "store/file.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/whole.h"

static int fail(struct wr_diag *diag, int error, const char *what)
{
    wr_diag_add(diag, WR_ERROR, 0, 0, "%s: %s", what, strerror(errno));
    return error;
}

static bool fill_header(struct wr_header *header, const struct wr_arena_options *options)
{
    struct wr_geometry g = wr_geometry_of(options->size_bytes, options->node_share);

    memcpy(header->magic, WR_ARENA_MAGIC, sizeof header->magic);
    header->byte_order = WR_BYTE_ORDER_MARK;
    header->version = WR_ARENA_VERSION;
    header->layout = wr_layout_word();
    header->cas = WR_CAS_PAIR;
    header->node_share = options->node_share;
    header->size_bytes = options->size_bytes;
    header->class_count = g.class_count;
    header->bucket_count = g.bucket_count;
    header->head_count = g.head_count;
    header->node_count = g.node_count;
    header->ban_count = g.ban_count;
    header->created_ns = wr_max_i64(0, wr_clock_wall().ns);
    header->recorded_ns = header->created_ns; /* no boot id: the first opener sets the time */
    return getrandom(header->secret, sizeof header->secret, 0) == (ssize_t)sizeof header->secret;
}

/* Reserve all blocks of the empty file |fd| and make an arena of it. */
static int fill(int fd, const void *context, struct wr_diag *diag)
{
    const struct wr_arena_options *options = context;
    struct wr_header header;
    int rc;

    if (options->size_bytes == 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "does not exist, and no size is given to make it");
        return WEIR_EFORMAT;
    }
    memset(&header, 0, sizeof header);
    rc = wr_whole_reserve(fd, options->size_bytes, diag);
    if (rc != 0)
        return rc;
    if (!fill_header(&header, options) ||
        pwrite(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return fail(diag, WEIR_EIO, "the header cannot be written");
    return 0;
}

static int anonymous(const struct wr_arena_options *options, int *out, struct wr_diag *diag)
{
    int fd = memfd_create("weir-arena", MFD_CLOEXEC); /* a file, so that claims are possible */
    int rc;

    if (fd < 0)
        return fail(diag, WEIR_EIO, "no memory file can be made");
    rc = fill(fd, options, diag);
    if (rc == 0)
        *out = fd;
    else
        (void)close(fd);
    return rc;
}

/* Memory file systems do not write back. */
static bool in_memory(const struct statfs *fs)
{
    return fs->f_type == TMPFS_MAGIC || fs->f_type == RAMFS_MAGIC || fs->f_type == HUGETLBFS_MAGIC;
}

/* Advises only what is true here: in a container /run is often on disk, and /dev/shm missing. */
static void warn_of_disk(int fd, struct wr_diag *diag)
{
    static const char *const usual[] = {"/run", "/dev/shm"};
    const char *advice = "mount a tmpfs for it";
    char found[32];
    struct statfs fs;

    if (fstatfs(fd, &fs) != 0 || in_memory(&fs))
        return;
    for (size_t i = sizeof usual / sizeof usual[0]; i-- > 0;) {
        if (statfs(usual[i], &fs) == 0 && in_memory(&fs)) {
            (void)snprintf(found, sizeof found, "use a tmpfs such as %s", usual[i]);
            advice = found;
        }
    }
    wr_diag_add(diag, WR_WARNING, 0, 0,
                "lies on a disk file system, whose write-back stalls decisions for tens of "
                "milliseconds; %s",
                advice);
}

int wr_file_open(const struct wr_arena_options *options, int *fd, struct wr_diag *diag)
{
    const struct wr_whole whole = {.path = options->path,
                                   .what = "an arena",
                                   .must_exist = options->must_exist,
                                   .read_only = options->read_only,
                                   .fill = fill,
                                   .context = options};
    int rc;

    *fd = -1;
    if (options->size_bytes != 0 &&
        (options->size_bytes < WR_ARENA_BYTES_MIN || options->size_bytes > WR_ARENA_BYTES_MAX)) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "a size of %llu bytes is not in %llu..%llu",
                    (unsigned long long)options->size_bytes, (unsigned long long)WR_ARENA_BYTES_MIN,
                    (unsigned long long)WR_ARENA_BYTES_MAX);
        return WEIR_EFORMAT;
    }
    if (options->path == NULL || options->path[0] == '\0')
        return anonymous(options, fd, diag);
    rc = wr_whole_open(&whole, fd, diag);
    if (rc == 0 && !options->read_only)
        warn_of_disk(*fd, diag);
    return rc == WEIR_ENOENT ? WEIR_EIO : rc;
}
