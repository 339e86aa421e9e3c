/* path.c - one path, however it is spelt.
 *
 * Problem. /a/b, /a//b, /a/./b, /a/x/../b, /%61/b and /a/b/ reach the same handler. If they were
 * different keys or missed a pattern, a caller would choose how often it is limited.
 *
 * Idea. No normalised copy is made: the path is cut at its slashes, and each segment is either a
 * slice of the raw bytes or, where it has a '%', of a small buffer that belongs to its position.
 * Dot segments are judged after decoding, as "%2e%2e" is "..".
 *
 * Everything is decoded, not only what RFC 3986 calls unreserved: "/items%3Abatch" and
 * "/items:batch" differ to the letter of it, but hardly a router knows. What routers do disagree on
 * is %2F: nginx and whatever decodes before it routes take it for a slash, others for a byte of a
 * segment. Either reading alone would let callers past a limit, so select tries both.
 *
 * Invariants:
 *   1. No segment is empty, "." or "..".
 *   2. decoded[i] belongs to segment i: ".." gives it back, so that no path can exhaust it.
 *   3. A decoded segment is cut at WR_SEGMENT_CUT bytes, where it is longer than any literal it is
 *      compared with: cutting never makes a match.
 *   4. Segments beyond the 64th are counted (".." must take them back) and not kept.
 *
 * Rejected: decoding until nothing changes (%2561 is not "a" to a router that decodes once);
 * ignoring case (paths differ by case, RFC 3986 section 6.2.2.1). */
#include "policy/path.h"

#include <string.h>

#include "base/hex.h"

/* The byte that is encoded at |p|, a '%'; -1: none. */
static int encoded_byte(const char *p, const char *end)
{
    return end - p < 3 ? -1 : wr_hex_byte(p + 1);
}

size_t wr_segment_decode(struct weir_slice raw, char *out, size_t size)
{
    const char *p = raw.ptr, *end = raw.ptr + raw.len;
    size_t at = 0;

    while (p < end && at < size) {
        int byte = *p == '%' ? encoded_byte(p, end) : -1;
        if (byte < 0) {
            out[at++] = *p++;
        } else if (byte != '/') {
            out[at++] = (char)byte;
            p += 3;
        } else if (size - at < 3) { /* never half an encoding */
            break;
        } else {
            out[at++] = '%';
            out[at++] = '2';
            out[at++] = 'F';
            p += 3;
        }
    }
    return at;
}

static bool ends_scheme(char c)
{
    return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '+' || c == '-' || c == '.');
}

/* The path of an absolute URI ("http://host/path"), as proxies get them and logs show them. */
static struct weir_slice without_authority(struct weir_slice raw)
{
    const char *end = raw.ptr + raw.len;
    const char *p = raw.ptr;

    while (p < end && !ends_scheme(*p))
        p++;
    if (p == raw.ptr || end - p < 3 || memcmp(p, "://", 3) != 0)
        return raw;
    for (p += 3; p < end && *p != '/' && *p != '?' && *p != '#'; p++)
        ;
    return (struct weir_slice){p, (size_t)(end - p)};
}

/* A path while it is split. */
struct splitting {
    struct wr_path *out;
    const char *start; /* of the segment at hand */
    bool encoded;      /* it has a '%' */
    uint64_t beyond;   /* segments that found no room */
};

/* The segment at hand ends before |end|. */
static void end_segment(struct splitting *s, const char *end)
{
    struct weir_slice segment = {s->start, (size_t)(end - s->start)};
    struct wr_path *out = s->out;
    char dots[8]; /* without room for it, a segment is only told from ".." */

    if (segment.len == 0)
        return;
    if (s->encoded) {
        bool room = out->count < WR_PATH_SEGMENTS_MAX;
        char *to = room ? out->decoded[out->count] : dots;
        segment.len = wr_segment_decode(segment, to, room ? WR_SEGMENT_CUT : sizeof dots);
        segment.ptr = to;
    }
    if (segment.ptr[0] == '.' && segment.len == 1)
        return;
    if (segment.ptr[0] == '.' && segment.len == 2 && segment.ptr[1] == '.') {
        if (s->beyond > 0)
            s->beyond--;
        else if (out->count > 0)
            out->count--;
        return;
    }
    if (out->count == WR_PATH_SEGMENTS_MAX)
        s->beyond++;
    else
        out->segment[out->count++] = segment;
}

static void begin_segment(struct splitting *s, const char *start)
{
    s->start = start;
    s->encoded = false;
}

/* What ends a run of ordinary bytes: one look at a table instead of four comparisons. */
enum { ORDINARY, SLASH, PERCENT, QUERY };

static const uint8_t kinds[256] = {['/'] = SLASH, ['%'] = PERCENT, ['?'] = QUERY, ['#'] = QUERY};

void wr_path_split(struct weir_slice raw, enum wr_slashes slashes, struct wr_path *out)
{
    struct splitting s = {.out = out};
    const char *p, *end;

    out->count = 0;
    out->encoded_slash = false;
    if (raw.len == 0)
        return;
    if (raw.ptr[0] != '/')
        raw = without_authority(raw);
    end = raw.ptr + raw.len;
    begin_segment(&s, raw.ptr);
    for (p = raw.ptr; p < end; p++) {
        uint8_t kind = kinds[(unsigned char)*p];
        if (kind == ORDINARY)
            continue;
        if (kind == QUERY)
            break;
        if (kind == SLASH) {
            end_segment(&s, p);
            begin_segment(&s, p + 1);
            continue;
        }
        s.encoded = true;
        if (encoded_byte(p, end) != '/')
            continue;
        out->encoded_slash = true;
        if (slashes == WR_SLASH_SEPARATES) {
            end_segment(&s, p);
            begin_segment(&s, p + 3);
            p += 2;
        }
    }
    end_segment(&s, p);
}
