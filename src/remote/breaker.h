/* breaker.h - when to stop asking a server that fails, and when to try it again.
 *
 *            row or share of failures, or tripped
 *   closed ----------------------------------------> open
 *     ^                                                | the pause is over
 *     |                  a probe succeeded             v
 *     +-------------------------------------------- probing --> open: it failed, a longer pause
 *
 * A pure state machine: time is passed in, whoever owns it asks and connects. For every backend. */
#ifndef WR_REMOTE_BREAKER_H
#define WR_REMOTE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define WR_BREAKER_ROW 5                         /* failures one after the other that open it */
#define WR_BREAKER_SPAN_NS WR_NS_PER_S           /* over which the share is counted */
#define WR_BREAKER_CALLS 20                      /* fewer in a span say nothing of a share */
#define WR_BREAKER_PAUSE_NS (100 * WR_NS_PER_MS) /* the shortest pause */
#define WR_BREAKER_PAUSE_MAX_NS (5 * WR_NS_PER_S)

enum wr_breaker_state { WR_BREAKER_CLOSED, WR_BREAKER_OPEN, WR_BREAKER_PROBING };

struct wr_breaker {
    enum wr_breaker_state state;
    uint8_t level;            /* doublings of the next pause */
    bool trial;               /* closed by a probe; nothing else has succeeded yet */
    uint32_t row;             /* failures since the last success */
    uint32_t calls, failures; /* of this span */
    int64_t span_ns;          /* when this span began */
    int64_t until_ns;         /* open: until then */
    uint64_t random;          /* of the jitter; not 0 */
};

/* Closed. |seed|: different for each owner, so that they do not come back all at once. */
void wr_breaker_init(struct wr_breaker *breaker, uint64_t seed);

/* May the server be asked? */
static inline bool wr_breaker_closed(const struct wr_breaker *breaker)
{
    return breaker->state == WR_BREAKER_CLOSED;
}

/* Open, and the pause is over: then it is probing, and the caller probes. Else false. */
bool wr_breaker_probe(struct wr_breaker *breaker, int64_t now_ns);

/* An answer came, or did not. What comes in while it is open, from before, changes nothing. */
void wr_breaker_succeeded(struct wr_breaker *breaker, int64_t now_ns);
void wr_breaker_failed(struct wr_breaker *breaker, int64_t now_ns);

/* One failure is enough: it cannot be connected to. */
void wr_breaker_trip(struct wr_breaker *breaker, int64_t now_ns);

/* How long until the next probe; 0: now, or it is not open. */
int64_t wr_breaker_wait_ns(const struct wr_breaker *breaker, int64_t now_ns);

#endif
