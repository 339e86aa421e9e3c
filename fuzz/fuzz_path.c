/* Paths of any bytes, against a normaliser that copies, decodes and resolves one step after the
 * other. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/path.h"

static void require(int holds)
{
    if (!holds)
        abort();
}

#define INPUT_MAX 1024

struct slow {
    size_t count;
    struct {
        char text[3 * INPUT_MAX];
        size_t len;
    } * segment;
};

static int digit(int c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The byte encoded at p[0 .. len); -1: none. */
static int code_at(const char *p, size_t len)
{
    if (len < 3 || p[0] != '%' || digit(p[1]) < 0 || digit(p[2]) < 0)
        return -1;
    return digit(p[1]) * 16 + digit(p[2]);
}

static void slow_segment(struct slow *out, const char *p, size_t len)
{
    char *to = out->segment[out->count].text;
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        int code = code_at(p + i, len - i);
        if (code < 0) {
            to[n++] = p[i];
            continue;
        }
        i += 2;
        if (code == '/') {
            to[n++] = '%';
            to[n++] = '2';
            to[n++] = 'F';
        } else {
            to[n++] = (char)code;
        }
    }
    out->segment[out->count].len = n;
    if (n == 0 || (n == 1 && to[0] == '.'))
        return;
    if (n == 2 && to[0] == '.' && to[1] == '.')
        out->count -= out->count > 0;
    else
        out->count++;
}

static void check(const struct slow *slow, const struct wr_path *path)
{
    size_t kept = slow->count < WR_PATH_SEGMENTS_MAX ? slow->count : WR_PATH_SEGMENTS_MAX;

    require(path->count == kept);
    for (size_t i = 0; i < kept; i++) {
        struct weir_slice got = path->segment[i];
        size_t len = slow->segment[i].len;
        if (len <= WR_SEGMENT_BYTES_MAX)
            require(got.len == len && memcmp(got.ptr, slow->segment[i].text, len) == 0);
        else /* longer than any literal, cut or not */
            require(got.len > WR_SEGMENT_BYTES_MAX &&
                    memcmp(got.ptr, slow->segment[i].text, WR_SEGMENT_BYTES_MAX) == 0);
    }
}

/* Replace encoded slashes by slashes, in a copy. */
static size_t with_slashes(const char *text, size_t size, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++) {
        int slash = code_at(text + i, size - i) == '/';
        out[n++] = slash ? '/' : text[i];
        i += slash ? 2 : 0;
    }
    return n;
}

static void slow_split(struct slow *slow, const char *text, size_t size)
{
    size_t start = 0;

    slow->count = 0;
    for (size_t i = 0; i <= size; i++) {
        int ends = i == size || text[i] == '?' || text[i] == '#';
        if (ends || text[i] == '/') {
            slow_segment(slow, text + start, i - start);
            start = i + 1;
        }
        if (ends)
            break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wr_path path;
    static char copy[INPUT_MAX];
    struct weir_slice raw = {(const char *)data, size};
    struct slow slow = {0, NULL};

    wr_path_split(raw, WR_SLASH_SEPARATES, &path);
    wr_path_split(raw, WR_SLASH_IN_SEGMENT, &path);
    /* The other one knows nothing of absolute URIs. */
    if (size == 0 || size > INPUT_MAX || data[0] != '/')
        return 0;
    slow.segment = calloc(size / 2 + 2, sizeof *slow.segment);
    if (slow.segment == NULL)
        return 0;
    slow_split(&slow, raw.ptr, size);
    check(&slow, &path);
    wr_path_split(raw, WR_SLASH_SEPARATES, &path);
    slow_split(&slow, copy, with_slashes(raw.ptr, size, copy));
    check(&slow, &path);
    free(slow.segment);
    return 0;
}
