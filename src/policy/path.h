/* path.h - the path of a request as the segments that a router sees. */
#ifndef WR_POLICY_PATH_H
#define WR_POLICY_PATH_H

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
    struct weir_slice segment[WR_PATH_SEGMENTS_MAX]; /* into the raw path, or into |decoded| */
    char decoded[WR_PATH_SEGMENTS_MAX][WR_SEGMENT_CUT];
};

/* Split |raw|, as on the wire: the query is cut off, empty segments and "." vanish, ".." takes one
 * back but never above the root, %61 is decoded where it need not be encoded (letters, digits,
 * - . _ ~), other encodings get upper-case digits; a '%' without two hex digits stands as it is. An
 * absolute URI loses its scheme and authority.
 *
 * Bounds:  linear in |raw|, whatever its length; no allocation. |out| borrows |raw|.
 * Source:  RFC 3986 sections 5.2.4, 6.2.2. */
void wr_path_split(struct weir_slice raw, struct wr_path *out);

/* Normalise the percent-encoding of one segment into |out| of |size| bytes; what does not fit is
 * cut. Returns the bytes written. */
size_t wr_segment_decode(struct weir_slice raw, char *out, size_t size);

#endif
