/* notify.h - what the service manager is told, and what it hands over. */
#ifndef WR_SERVE_NOTIFY_H
#define WR_SERVE_NOTIFY_H

#include <stdint.h>

/* Send "READY=1" and the like to $NOTIFY_SOCKET; nothing where there is none. */
void wr_notify(const char *state);

/* RELOADING=1, with the time it asks for. */
void wr_notify_reloading(void);

/* How often to send WATCHDOG=1, half of what is allowed, in ms; 0: not asked for. */
uint64_t wr_notify_watchdog_ms(void);

#endif
