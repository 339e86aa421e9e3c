/* file.c - making and opening the arena's file.
 *
 * Problem. Two processes may create the arena at once, and one may be killed in between: nobody
 * must ever see half an arena, and all must end up in the same one.
 *
 * Idea. The file is made without a name (O_TMPFILE; a temporary name where the file system has no
 * such files), all its blocks reserved and its header written; then link() gives it its name, which
 * succeeds for one process only. The others open that one's.
 *
 * Rejected: rename(), which replaces an arena that others already use; O_EXCL with a "ready" mark,
 * which a kill leaves unready for ever. */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"

#define FILE_MODE 0660 /* the workers of a server are often of its group */
#define PATH_BYTES 4096

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
static int fill(int fd, const struct wr_arena_options *options, struct wr_diag *diag)
{
    struct wr_header header;
    int rc;

    if (options->size_bytes == 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "does not exist, and no size is given to make it");
        return WEIR_EFORMAT;
    }
    memset(&header, 0, sizeof header);
    rc = posix_fallocate(fd, 0, (off_t)options->size_bytes);
    if (rc != 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "%llu bytes cannot be reserved: %s",
                    (unsigned long long)options->size_bytes, strerror(rc));
        return WEIR_EIO;
    }
    if (!fill_header(&header, options) ||
        pwrite(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return fail(diag, WEIR_EIO, "the header cannot be written");
    return 0;
}

/* The directory of |path| into |out|. */
static void directory_of(const char *path, char out[PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);

    if (slash == NULL)
        (void)snprintf(out, PATH_BYTES, ".");
    else
        (void)snprintf(out, PATH_BYTES, "%.*s", (int)(len == 0 ? 1 : len), path);
}

/* A new file without a name, or with the name written to |temporary|. */
static int new_file(const char *path, char temporary[PATH_BYTES])
{
    uint64_t random = 0;
    int fd;

    directory_of(path, temporary);
    fd = open(temporary, O_TMPFILE | O_RDWR | O_CLOEXEC, FILE_MODE);
    temporary[0] = '\0';
    if (fd >= 0 && access("/proc/self/fd", X_OK) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd); /* could not be named later */
    else if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return -1;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    if (snprintf(temporary, PATH_BYTES, "%s.%016llx.new", path, (unsigned long long)random) >=
        PATH_BYTES) {
        temporary[0] = '\0';
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = open(temporary, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        temporary[0] = '\0';
    return fd;
}

static int give_name(int fd, const char *temporary, const char *path)
{
    char self[32];

    if (temporary[0] != '\0')
        return link(temporary, path);
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* Make the file. Returns WEIR_EAGAIN when another process was first. */
static int create(const struct wr_arena_options *options, int *out, struct wr_diag *diag)
{
    char temporary[PATH_BYTES];
    int fd = new_file(options->path, temporary);
    int rc;

    if (fd < 0)
        return fail(diag, WEIR_EIO, "cannot be created");
    rc = fill(fd, options, diag);
    if (rc == 0 && fchmod(fd, FILE_MODE) != 0) /* whatever the umask is */
        rc = fail(diag, WEIR_EIO, "its mode cannot be set");
    if (rc == 0 && give_name(fd, temporary, options->path) != 0)
        rc = errno == EEXIST ? WEIR_EAGAIN : fail(diag, WEIR_EIO, "cannot be given its name");
    if (temporary[0] != '\0')
        (void)unlink(temporary);
    if (rc == 0)
        *out = fd;
    else
        (void)close(fd);
    return rc;
}

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a directory";
    case S_IFLNK:
        return "a symbolic link";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    default:
        return "no regular file";
    }
}

/* Open what is there. Returns WEIR_ENOENT when nothing is. */
static int open_existing(const struct wr_arena_options *options, int *out, struct wr_diag *diag)
{
    int flags = (options->read_only ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    struct stat st;
    int fd;

    if (lstat(options->path, &st) != 0)
        return errno == ENOENT ? WEIR_ENOENT : fail(diag, WEIR_EIO, "cannot be opened");
    if (!S_ISREG(st.st_mode)) { /* asked first, since opening a device may do something */
        wr_diag_add(diag, WR_ERROR, 0, 0, "is %s; an arena is a regular file", kind_of(st.st_mode));
        return WEIR_EFORMAT;
    }
    fd = open(options->path, flags | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? WEIR_ENOENT : fail(diag, WEIR_EIO, "cannot be opened");
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        wr_diag_add(diag, WR_ERROR, 0, 0, "is no regular file");
        return WEIR_EFORMAT;
    }
    *out = fd;
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
    int rc = WEIR_EAGAIN;

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
    /* Twice: another process may create it between our look and our attempt. */
    for (int attempt = 0; attempt < 2 && rc == WEIR_EAGAIN; attempt++) {
        rc = open_existing(options, fd, diag);
        if (rc == WEIR_ENOENT && (options->must_exist || options->read_only)) {
            wr_diag_add(diag, WR_ERROR, 0, 0, "there is no such file");
            return WEIR_EIO;
        }
        if (rc == WEIR_ENOENT)
            rc = create(options, fd, diag);
    }
    if (rc == WEIR_EAGAIN) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "appears and disappears");
        rc = WEIR_EIO;
    }
    if (rc == 0 && !options->read_only)
        warn_of_disk(*fd, diag);
    return rc;
}
