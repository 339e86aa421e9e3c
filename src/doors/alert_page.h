/* alert_page.h - alerts and questions about upgrades as JSON, for the admin door and the command
 * line. */
#ifndef WR_DOORS_ALERT_PAGE_H
#define WR_DOORS_ALERT_PAGE_H

#include "doors/page.h"
#include "meter/alert.h"

/* An object. */
void wr_put_alert(struct wr_page *page, const struct wr_alert *alert);

#endif
