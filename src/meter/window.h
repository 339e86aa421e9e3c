/* window.h - the windows of quotas as the ledger's rows name them: by their first civil day alone.
 * When do they end? */
#ifndef WR_METER_WINDOW_H
#define WR_METER_WINDOW_H

#include <stdint.h>

struct sqlite3;

/* The last civil day of the window that begins on |day|. |anchor|: the customer's, 0: none. */
int32_t wr_window_last_day(uint8_t per, int32_t day, uint8_t anchor);

/* The moment at which the civil day |last| is over in |zone|, the name of one; in UTC where it is
 * not known here. */
int64_t wr_window_end_ns(int32_t last, const char *zone);

/* Teach SQL weir_last_day(per, day, anchor). A code of SQLite. */
int wr_window_register(struct sqlite3 *sqlite);

#endif
