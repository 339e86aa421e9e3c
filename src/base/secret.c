/* secret.c - one line from a file: a token or a password. */
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_BYTES_MAX 4096

static bool part_of_token(unsigned char byte)
{
    return byte > 0x20 && byte < 0x7f;
}

static bool part_of_password(unsigned char byte)
{
    return byte >= 0x20 && byte != 0x7f;
}

const struct wr_secret_kind wr_secret_token = {
    "the admin door's token", "one line of visible ASCII characters as token", part_of_token};
const struct wr_secret_kind wr_secret_password = {"the resp door's password",
                                                  "one line of text as password", part_of_password};
const struct wr_secret_kind wr_secret_store_password = {
    "the store's password", "one line of text as password", part_of_password};
const struct wr_secret_kind wr_secret_store = {"the store's secret", "one line of text as secret",
                                               part_of_password};
const struct wr_secret_kind wr_secret_webhook = {"the webhook's secret",
                                                 "one line of text as secret", part_of_password};

/* At most |room| bytes of the file. Returns how many; -1, with errno. */
static ssize_t read_file(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), saved;
    struct stat st;
    ssize_t n = -1;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0) {
        n = S_ISREG(st.st_mode) ? read(fd, text, room) : -1;
        if (!S_ISREG(st.st_mode))
            errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    }
    saved = errno;
    (void)close(fd);
    errno = saved;
    return n;
}

char *wr_secret_read(const char *path, const struct wr_secret_kind *kind, char *error, size_t size)
{
    char text[SECRET_BYTES_MAX + 1];
    ssize_t n = read_file(path, text, sizeof text - 1);
    char *end;

    if (n < 0) {
        (void)snprintf(error, size, "%s: expected %s: %s", path, kind->what,
                       errno == EINVAL ? "not a regular file" : strerror(errno));
        return NULL;
    }
    text[n] = '\0';
    for (end = text; kind->part((unsigned char)*end); end++)
        ;
    if (end == text || end + strspn(end, " \t\r\n") != text + n) {
        (void)snprintf(error, size, "%s: expected %s", path, kind->line);
        return NULL;
    }
    *end = '\0';
    end = strdup(text);
    explicit_bzero(text, sizeof text);
    if (end == NULL)
        (void)snprintf(error, size, "%s: out of memory", path);
    return end;
}

void wr_secret_free(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}
