/* path.h - the path of a request as the segments that a router sees. */
#ifndef WR_POLICY_PATH_H
#define WR_POLICY_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define WR_PATH_SEGMENTS_MAX 64  /* segments of a request's path; the rest is as if not there */
#define WR_SEGMENT_BYTES_MAX 255 /* bytes of a literal segment in a pattern */

/* A segment cut here, or up to two bytes before (an encoding is not cut in two), is longer than any
 * literal and so equals none. */
#define WR_SEGMENT_CUT (WR_SEGMENT_BYTES_MAX + 3)

/* About 18 KiB, of which only segments with percent-encoding touch |decoded|. */
struct wr_path {
    uint32_t count;
    bool encoded_slash;                              /* some segment has %2F */
    struct weir_slice segment[WR_PATH_SEGMENTS_MAX]; /* into the raw path, or into |decoded| */
    char decoded[WR_PATH_SEGMENTS_MAX][WR_SEGMENT_CUT];
};

/* What an encoded slash is. Routers disagree, so whoever must not miss a match tries both. */
enum wr_slashes {
    WR_SLASH_IN_SEGMENT, /* a byte of its segment, which is kept as "%2F" */
    WR_SLASH_SEPARATES,  /* a slash */
};

/* Split |raw|, as on the wire: the query is cut off, empty segments and "." vanish, ".." takes one
 * back but never above the root, percent-encoding is decoded once; a '%' without two hex digits
 * stands as it is. An absolute URI loses its scheme and authority.
 *
 * Bounds:  linear in |raw|, whatever its length; no allocation. |out| borrows |raw|.
 * Source:  RFC 3986 sections 5.2.4, 6.2.2. */
void wr_path_split(struct weir_slice raw, enum wr_slashes slashes, struct wr_path *out);

/* Decode one segment into |out| of |size| bytes, all but %2F, whose digits become upper case; what
 * does not fit is cut. Returns the bytes written. */
size_t wr_segment_decode(struct weir_slice raw, char *out, size_t size);

#endif
