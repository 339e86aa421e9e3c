/* http1_chunks.c - bodies in chunks: found whole first, line by line, then put together.
 *
 * Invariants: a chunk ends exactly where its size says, in CRLF; the data are at most
 * WR_HTTP_BODY_MAX bytes, and what is around them at most WR_HTTP_CHUNKING_MAX more. */
#include <string.h>

#include "wire/http1_parts.h"

#define CHUNK_LINE_MAX 256U /* a chunk's size and its extensions; a trailer */

/* The chunk-size line at |line|, |n| bytes without its CRLF. False: not well-formed. */
static bool read_chunk_size(const char *line, size_t n, size_t *size)
{
    size_t i = 0;

    *size = 0;
    for (; i < n; i++) {
        char c = line[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            break;
        if (*size <= WR_HTTP_BODY_MAX)
            *size = *size * 16 + digit;
    }
    if (i == 0)
        return false;
    if (i < n && line[i] != ';') /* an extension, which nobody reads */
        return false;
    return wr_http_span(line + i, line + n, WR_CHAR_VALUE) == n - i;
}

/* The line at |*line|: 1 and its length without CRLF, 0: not whole, -1: bad. */
static int chunk_line(const char *bytes, size_t at, size_t len, size_t *n)
{
    size_t most = len - at < CHUNK_LINE_MAX ? len - at : CHUNK_LINE_MAX;
    const char *lf = memchr(bytes + at, '\n', most);

    if (lf == NULL)
        return most == CHUNK_LINE_MAX ? -1 : 0;
    *n = (size_t)(lf - bytes) - at;
    if (*n == 0 || lf[-1] != '\r')
        return -1;
    --*n;
    return 1;
}

/* One line of a chunked body: a size with its data, or a trailer, which is checked and dropped.
 * DONE: the last line. */
static enum wr_http_step walk_line(struct wr_http_parser *parser, const char *bytes, size_t len,
                                   bool *moved)
{
    struct wr_http_field trailer;
    const char *line = bytes + parser->scanned;
    size_t n = 0, size;
    int got = chunk_line(bytes, parser->scanned, len, &n);

    *moved = false;
    if (got < 0)
        return wr_http_bad(parser, 400, "a chunk is not well-formed");
    if (got == 0)
        return WR_HTTP_MORE;
    *moved = true;
    if (parser->trailers != 0) {
        parser->scanned += n + 2;
        if (n == 0)
            return WR_HTTP_DONE;
        return wr_http_read_field(&line, line + n + 2, &trailer) == NULL
                   ? WR_HTTP_MORE
                   : wr_http_bad(parser, 400, "a trailer is not well-formed");
    }
    if (!read_chunk_size(line, n, &size))
        return wr_http_bad(parser, 400, "a chunk is not well-formed");
    if (size + parser->body > WR_HTTP_BODY_MAX)
        return wr_http_bad(parser, 413, "the body is larger than 256 KiB");
    if (size == 0) {
        parser->trailers = 1;
        parser->scanned += n + 2;
        return WR_HTTP_MORE;
    }
    if (len - parser->scanned < n + 2 + size + 2) {
        *moved = false;
        return WR_HTTP_MORE;
    }
    if (memcmp(line + n + 2 + size, "\r\n", 2) != 0)
        return wr_http_bad(parser, 400, "a chunk is longer than its size says");
    parser->body += size;
    parser->scanned += n + 2 + size + 2;
    return WR_HTTP_MORE;
}

enum wr_http_step wr_http_find_chunks(struct wr_http_parser *parser, const char *bytes, size_t len)
{
    enum wr_http_step step;
    bool moved;

    do {
        step = walk_line(parser, bytes, len, &moved);
        if (step == WR_HTTP_MORE &&
            parser->scanned - parser->head > parser->body + WR_HTTP_CHUNKING_MAX)
            return wr_http_bad(parser, 413, "the chunks are too many");
    } while (step == WR_HTTP_MORE && moved);
    return step;
}

/* Put the data of whole, checked chunks together. */
size_t wr_http_join_chunks(const char *at, char *out)
{
    size_t used = 0, n, size;

    for (;;) {
        n = (size_t)((const char *)memchr(at, '\n', CHUNK_LINE_MAX) - at) - 1;
        (void)read_chunk_size(at, n, &size);
        if (size == 0)
            return used;
        memcpy(out + used, at + n + 2, size);
        used += size;
        at += n + 2 + size + 2;
    }
}
