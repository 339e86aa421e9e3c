/* alert_parts.h - what the files about alerts share. Internal to src/meter. */
#ifndef WR_METER_ALERT_PARTS_H
#define WR_METER_ALERT_PARTS_H

#include "meter/alert.h"

/* A row, unless there is one. Within a transaction. */
int wr_alert_insert(struct wr_database *database, const struct wr_alert_mark *mark,
                    unsigned percent, enum wr_alert_state state);

/* The name of the wish of |customer| to move from a plan to another, on a day since 1970. */
void wr_upgrade_event(int64_t customer, const char *from, const char *to, int64_t day,
                      unsigned char out[WR_EVENT_BYTES]);
void wr_event_text(const unsigned char event[WR_EVENT_BYTES], char out[WR_EVENT_TEXT]);

#endif
