/* expire.h - rows of windows that ended long ago are deleted. Internal to src/meter. */
#ifndef WR_METER_EXPIRE_H
#define WR_METER_EXPIRE_H

#include "meter/database.h"

#define WR_EXPIRE_ROWS 1000U /* of a batch, about: a transaction of some milliseconds */

struct wr_expired {
    uint64_t windows, days, alerts; /* rows that were deleted; go up */
};

/* Delete a batch of what belongs to windows that ended at |before_ns| or earlier, those that begin
 * first first. Of a month, whose length its row does not say, some days later. Returns 0: that was
 * all; 1: there may be more; or an error of the database. */
int wr_expire(struct wr_database *database, int64_t before_ns, struct wr_expired *out);

/* Windows of |quota| that begin before |*since| were deleted; INT32_MIN: none was. 0, or an error
 * of the database. */
int wr_expire_since(struct wr_database *database, int64_t quota, int32_t *since);

/* Was the window that begins on |day| deleted, and is it not to be written again? So long ago that
 * nobody counts in it, whatever a clock that was wrong has left as |since|. */
bool wr_expire_is_gone(int32_t day, int32_t since, int64_t now_ns);

#endif
