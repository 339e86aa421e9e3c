/* whole.c - files that are there whole or not at all.
 *
 * Problem. Two processes may create a file at once, and one may be killed in between: nobody must
 * ever see half of it, and all must end up in the same one.
 *
 * Idea. The file is made without a name (O_TMPFILE; a temporary name where the file system has no
 * such files), all its blocks reserved and its header written; then link() gives it its name, which
 * succeeds for one process only. The others open that one's.
 *
 * Rejected: rename(), which replaces a file that others already use; O_EXCL with a "ready" mark,
 * which a kill leaves unready for ever. */
#include "store/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0660 /* the workers of a server are often of its group */
#define PATH_BYTES 4096

static int fail(struct wr_diag *diag, int error, const char *what)
{
    wr_diag_add(diag, WR_ERROR, 0, 0, "%s: %s", what, strerror(errno));
    return error;
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
static int create(const struct wr_whole *whole, int *out, struct wr_diag *diag)
{
    char temporary[PATH_BYTES];
    int fd = new_file(whole->path, temporary);
    int rc;

    if (fd < 0)
        return fail(diag, WEIR_EIO, "cannot be created");
    rc = whole->fill(fd, whole->context, diag);
    if (rc == 0 && fchmod(fd, FILE_MODE) != 0) /* whatever the umask is */
        rc = fail(diag, WEIR_EIO, "its mode cannot be set");
    if (rc == 0 && give_name(fd, temporary, whole->path) != 0)
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
static int open_existing(const struct wr_whole *whole, int *out, struct wr_diag *diag)
{
    int flags = (whole->read_only ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    struct stat st;
    int fd;

    if (lstat(whole->path, &st) != 0)
        return errno == ENOENT ? WEIR_ENOENT : fail(diag, WEIR_EIO, "cannot be opened");
    if (!S_ISREG(st.st_mode)) { /* asked first, since opening a device may do something */
        wr_diag_add(diag, WR_ERROR, 0, 0, "is %s; %s is a regular file", kind_of(st.st_mode),
                    whole->what);
        return WEIR_EFORMAT;
    }
    fd = open(whole->path, flags | O_CLOEXEC);
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

int wr_whole_open(const struct wr_whole *whole, int *fd, struct wr_diag *diag)
{
    int rc = WEIR_EAGAIN;

    *fd = -1;
    /* Twice: another process may create it between our look and our attempt. */
    for (int attempt = 0; attempt < 2 && rc == WEIR_EAGAIN; attempt++) {
        rc = open_existing(whole, fd, diag);
        if (rc == WEIR_ENOENT && (whole->must_exist || whole->read_only)) {
            wr_diag_add(diag, WR_ERROR, 0, 0, "there is no such file");
            return WEIR_ENOENT;
        }
        if (rc == WEIR_ENOENT)
            rc = create(whole, fd, diag);
    }
    if (rc == WEIR_EAGAIN) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "appears and disappears");
        rc = WEIR_EIO;
    }
    return rc;
}

int wr_whole_reserve(int fd, uint64_t bytes, struct wr_diag *diag)
{
    int rc = posix_fallocate(fd, 0, (off_t)bytes);

    if (rc == 0)
        return 0;
    wr_diag_add(diag, WR_ERROR, 0, 0, "%llu bytes cannot be reserved: %s",
                (unsigned long long)bytes, strerror(rc));
    return WEIR_EIO;
}
