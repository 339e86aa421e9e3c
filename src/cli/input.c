/* input.c - lines out of plain and gzip files, in large blocks.
 *
 * The problem. Logs are gigabytes, are rotated into gzip files, come through pipes, are cut off in
 * the middle, and may hold anything, a line of a gigabyte too.
 *
 * The idea. One buffer of text that a line is a slice of: bytes are read or inflated behind what is
 * there, and what is left of the last line is moved to the front before. Whether a file is gzip is
 * told by its first two bytes, never by its name. The buffer holds the longest line that is allowed
 * and a block; of a longer line the start is handed out, and the rest is passed over.
 *
 * Invariants:
 *   1. What could be read before an error is handed out; the error is told at the end.
 *   2. at <= end <= TEXT_BYTES; memory does not depend on the input.
 *
 * Rejected: gzread (on damaged data it drops what it had inflated in the same call, and it cannot
 * say how far in the file it is); getline (a line of a gigabyte is a gigabyte of memory). */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "wire/accesslog.h"

#define RAW_BYTES ((size_t)256 << 10)
#define TEXT_BYTES ((size_t)WR_LOG_LINE_MAX + 1 + RAW_BYTES)

struct wr_input {
    int fd;
    bool ended; /* nothing more will come into text */
    bool gzip;
    bool in_member; /* of gzip: between the first and the last byte of a member */
    bool begun;     /* a line was handed out */
    bool skipping;  /* the rest of a line that was too long */
    const char *error;
    uint64_t offset, size;
    z_stream z;
    size_t raw_at, raw_end; /* of gzip: what is not inflated yet */
    size_t at, end;         /* text not handed out yet */
    unsigned char raw[RAW_BYTES];
    char text[TEXT_BYTES];
};

static void stop(struct wr_input *input, const char *error)
{
    input->ended = true;
    input->error = error;
}

/* Read up to |size| bytes; 0 at the end or on an error. */
static size_t read_some(struct wr_input *input, void *to, size_t size)
{
    ssize_t n;

    do
        n = read(input->fd, to, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        stop(input, strerror(errno)); /* NOLINT(concurrency-mt-unsafe): one thread */
    if (n <= 0)
        return 0;
    input->offset += (uint64_t)n;
    return (size_t)n;
}

/* Look at the first two bytes. */
static bool detect(struct wr_input *input)
{
    size_t n;

    while (input->raw_end < 2 &&
           (n = read_some(input, input->raw + input->raw_end, RAW_BYTES - input->raw_end)) > 0)
        input->raw_end += n;
    input->gzip = input->raw_end >= 2 && input->raw[0] == 0x1f && input->raw[1] == 0x8b;
    if (input->gzip)
        return inflateInit2(&input->z, 15 + 16) == Z_OK;
    memcpy(input->text, input->raw, input->raw_end);
    input->end = input->raw_end;
    return true;
}

struct wr_input *wr_input_open(const char *path)
{
    struct wr_input *input = malloc(sizeof *input); /* large: only what is used gets touched */
    struct stat st;

    if (input == NULL)
        return NULL;
    memset(input, 0, offsetof(struct wr_input, raw));
    input->fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd >= 0 && fstat(input->fd, &st) == 0) {
        if (S_ISREG(st.st_mode))
            input->size = (uint64_t)st.st_size;
        if (S_ISDIR(st.st_mode))
            errno = EISDIR;
        else if (detect(input))
            return input;
        else
            errno = ENOMEM;
    }
    if (input->fd >= 0)
        (void)close(input->fd);
    free(input);
    return NULL;
}

void wr_input_close(struct wr_input *input)
{
    if (input == NULL)
        return;
    if (input->gzip)
        (void)inflateEnd(&input->z);
    (void)close(input->fd);
    free(input);
}

const char *wr_input_error(const struct wr_input *input)
{
    return input->error;
}

uint64_t wr_input_offset(const struct wr_input *input)
{
    return input->offset;
}

uint64_t wr_input_size(const struct wr_input *input)
{
    return input->size;
}

/* ---- filling ------------------------------------------------------------------------------ */

/* Have something to inflate; false at the end of the file. */
static bool more_raw(struct wr_input *input)
{
    if (input->raw_at < input->raw_end)
        return true;
    input->raw_at = 0;
    input->raw_end = read_some(input, input->raw, RAW_BYTES);
    return input->raw_end > 0;
}

/* Between two members: another one, zeros that pad the file, or bytes that are neither. */
static bool next_member(struct wr_input *input)
{
    while (more_raw(input) && input->raw[input->raw_at] == 0)
        input->raw_at++;
    if (input->raw_at == input->raw_end) {
        input->ended = true;
        return false;
    }
    if (input->raw[input->raw_at] != 0x1f) {
        stop(input, "bytes after the compressed data that are not gzip");
        return false;
    }
    input->in_member = inflateReset(&input->z) == Z_OK;
    return input->in_member;
}

static void inflate_some(struct wr_input *input)
{
    int result;

    if (!input->in_member && !next_member(input))
        return;
    if (!more_raw(input)) {
        if (input->error == NULL)
            stop(input, "the compressed data ends too early");
        return;
    }
    input->z.next_in = input->raw + input->raw_at;
    input->z.avail_in = (uInt)(input->raw_end - input->raw_at);
    input->z.next_out = (unsigned char *)input->text + input->end;
    input->z.avail_out = (uInt)(TEXT_BYTES - input->end);
    result = inflate(&input->z, Z_NO_FLUSH);
    input->raw_at = input->raw_end - input->z.avail_in;
    input->end = TEXT_BYTES - input->z.avail_out;
    if (result == Z_STREAM_END)
        input->in_member = false;
    else if (result != Z_OK && result != Z_BUF_ERROR)
        stop(input, "the compressed data is damaged");
}

/* More text behind what is there; there is room for some. */
static void fill(struct wr_input *input)
{
    size_t n, want = TEXT_BYTES - input->end;

    if (input->gzip) {
        inflate_some(input);
        return;
    }
    n = read_some(input, input->text + input->end, want < RAW_BYTES ? want : RAW_BYTES);
    input->end += n;
    if (n == 0)
        input->ended = true;
}

/* ---- lines -------------------------------------------------------------------------------- */

static bool hand_out(struct wr_input *input, size_t len, size_t newline, const char **line,
                     size_t *out_len)
{
    *line = input->text + input->at;
    *out_len = len;
    input->at += len + newline;
    if (!input->begun && len >= 3 && memcmp(*line, "\xef\xbb\xbf", 3) == 0) {
        *line +=
            3; /* the byte order mark some editors write first is no part of the client's address */
        *out_len -= 3;
    }
    input->begun = true;
    return true;
}

bool wr_input_line(struct wr_input *input, const char **line, size_t *len)
{
    size_t searched = 0;

    for (;;) {
        size_t have = input->end - input->at;
        const char *from = input->text + input->at + searched;
        const char *newline = have > searched ? memchr(from, '\n', have - searched) : NULL;
        size_t found = newline != NULL ? (size_t)(newline - (input->text + input->at)) : have;

        if (input->skipping && (newline != NULL || have > 0)) {
            input->at += newline != NULL ? found + 1 : have;
            input->skipping = newline == NULL;
            searched = 0;
            continue;
        }
        if (found > WR_LOG_LINE_MAX) {
            input->skipping = true;
            return hand_out(input, WR_LOG_LINE_MAX + 1, 0, line, len);
        }
        if (newline != NULL)
            return hand_out(input, found, 1, line, len);
        if (input->ended)
            return have > 0 && hand_out(input, have, 0, line, len);
        searched = have;
        if (input->at > 0) {
            memmove(input->text, input->text + input->at, have);
            input->at = 0;
            input->end = have;
        }
        fill(input);
    }
}
