/* path.c - one path, however it is spelt.
 *
 * Problem. /a/b, /a//b, /a/./b, /a/x/../b, /%61/b and /a/b/ reach the same handler. If they were
 * different keys or missed a pattern, a caller would choose how often it is limited.
 *
 * Idea. No normalised copy is made: the path is cut at its slashes, and each segment is either a
 * slice of the raw bytes or, where it has a '%', of a small buffer that belongs to its position.
 * Dot segments are judged after decoding, as "%2e%2e" is "..".
 *
 * Invariants:
 *   1. No segment is empty, "." or "..", and none holds an encoded unreserved character.
 *   2. decoded[i] belongs to segment i: ".." gives it back, so that no path can exhaust it.
 *   3. A decoded segment is cut at WR_SEGMENT_CUT bytes, where it is longer than any literal it is
 *      compared with: cutting never makes a match.
 *   4. Segments beyond the 64th are counted (".." must take them back) and not kept.
 *
 * Rejected: decoding everything (%2F would make one segment two, which routers disagree about);
 * ignoring case (paths differ by case, RFC 3986 section 6.2.2.1). */
#include "policy/path.h"

#include <stdbool.h>
#include <string.h>

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool is_unreserved(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

size_t wr_segment_decode(struct weir_slice raw, char *out, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t at = 0;

    for (size_t i = 0; i < raw.len && at < size; i++) {
        int high = -1, low = -1;
        if (raw.ptr[i] == '%' && i + 2 < raw.len) {
            high = hex_value(raw.ptr[i + 1]);
            low = hex_value(raw.ptr[i + 2]);
        }
        if (high < 0 || low < 0) {
            out[at++] = raw.ptr[i];
            continue;
        }
        i += 2;
        if (is_unreserved(high * 16 + low)) {
            out[at++] = (char)(high * 16 + low);
            continue;
        }
        if (size - at < 3) /* never half an encoding */
            break;
        out[at++] = '%';
        out[at++] = digits[high];
        out[at++] = digits[low];
    }
    return at;
}

/* The path of an absolute URI ("http://host/path"), as proxies get them and logs show them. */
static struct weir_slice without_authority(struct weir_slice raw)
{
    const char *end = raw.ptr + raw.len;
    const char *colon = memchr(raw.ptr, ':', raw.len);
    const char *p;

    if (colon == NULL || colon == raw.ptr || end - colon < 3 || colon[1] != '/' || colon[2] != '/')
        return raw;
    for (p = raw.ptr; p < colon; p++)
        if (!is_unreserved((unsigned char)*p) && *p != '+')
            return raw;
    for (p = colon + 3; p < end && *p != '/' && *p != '?' && *p != '#'; p++)
        ;
    return (struct weir_slice){p, (size_t)(end - p)};
}

/* Add one segment, as it lies between two slashes, |encoded| if it has a '%'. |*beyond| counts
 * those that found no room. */
static void add_segment(struct wr_path *out, struct weir_slice segment, bool encoded,
                        uint64_t *beyond)
{
    char dots[8]; /* without room for it, a segment is only told from ".." */

    if (encoded) {
        bool room = out->count < WR_PATH_SEGMENTS_MAX;
        char *to = room ? out->decoded[out->count] : dots;
        segment.len = wr_segment_decode(segment, to, room ? WR_SEGMENT_CUT : sizeof dots);
        segment.ptr = to;
    }
    if (segment.ptr[0] == '.' && segment.len == 1)
        return;
    if (segment.ptr[0] == '.' && segment.len == 2 && segment.ptr[1] == '.') {
        if (*beyond > 0)
            --*beyond;
        else if (out->count > 0)
            out->count--;
        return;
    }
    if (out->count == WR_PATH_SEGMENTS_MAX)
        ++*beyond;
    else
        out->segment[out->count++] = segment;
}

/* What ends a run of ordinary bytes: one look at a table instead of four comparisons. */
enum { ORDINARY, SLASH, PERCENT, QUERY };

static const uint8_t kinds[256] = {['/'] = SLASH, ['%'] = PERCENT, ['?'] = QUERY, ['#'] = QUERY};

void wr_path_split(struct weir_slice raw, struct wr_path *out)
{
    const char *p, *start, *end;
    uint64_t beyond = 0;
    bool encoded = false;

    out->count = 0;
    if (raw.len == 0)
        return;
    if (raw.ptr[0] != '/')
        raw = without_authority(raw);
    end = raw.ptr + raw.len;
    for (p = start = raw.ptr; p < end; p++) {
        uint8_t kind = kinds[(unsigned char)*p];
        if (kind == ORDINARY)
            continue;
        if (kind == QUERY)
            break;
        if (kind == PERCENT) {
            encoded = true;
            continue;
        }
        if (p > start)
            add_segment(out, (struct weir_slice){start, (size_t)(p - start)}, encoded, &beyond);
        start = p + 1;
        encoded = false;
    }
    if (p > start)
        add_segment(out, (struct weir_slice){start, (size_t)(p - start)}, encoded, &beyond);
}
