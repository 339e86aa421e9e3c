/* logtime.h - the ways in which logs write a moment -> ns since the Unix epoch, in integers.
 *
 * All refuse what is not such a text to its last byte, days that do not exist, and moments before
 * 1970 or from 2200 on. A leap second (:60) is the first moment of the next minute. |*ns| is
 * written only on success. */
#ifndef WR_WIRE_LOGTIME_H
#define WR_WIRE_LOGTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define WR_LOGTIME_CLF_LEN 26 /* 17/May/2015:10:05:03 +0000 */

/* |text| has WR_LOGTIME_CLF_LEN bytes. */
bool wr_logtime_clf(const char *text, int64_t *ns);

/* 2015-05-17T10:05:03.123456789Z or +02:00 or +0200; a blank instead of the T; digits after the
 * ninth of the fraction are cut. A text without a zone is UTC. */
bool wr_logtime_rfc3339(struct weir_slice text, int64_t *ns);

/* The end of a span as people write it: a moment as above, or a day, 2015-05-17, which is included:
 * its end in UTC. */
bool wr_logtime_until(struct weir_slice text, int64_t *ns);

/* Seconds as a decimal number, with fraction and exponent as in JSON: 1700000000.123456789 is
 * exact. */
bool wr_logtime_epoch(struct weir_slice text, int64_t *ns);

/* |text| as a decimal number times |unit_ns|, cut to whole ns; for durations. Negative numbers are
 * refused, as is what does not fit. */
bool wr_logtime_scaled(struct weir_slice text, int64_t unit_ns, int64_t *ns);

#define WR_LOGTIME_TEXT_MAX 40

/* Write RFC 3339 in UTC with as many digits of fraction as are needed (none, 3, 6 or 9),
 * terminated. Returns the length. */
size_t wr_logtime_format(int64_t ns, char out[WR_LOGTIME_TEXT_MAX]);

#endif
