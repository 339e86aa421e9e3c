/* clock_watch.h - does the clock that decisions go by show the time of the machine's?
 *
 * The arena's clock does not follow steps (store/arena.c): rightly for rates, which would be
 * forgiven or locked out by them. What customers used is counted in the machine's days all the
 * same. But days of shared quotas, and of those by anything else, begin when that clock says. So
 * where the machine's clock was set after the arena was made, or the machine was halted with its
 * time going on, they begin early or late, until the arena is made anew: somebody must know. */
#ifndef WR_SERVE_CLOCK_WATCH_H
#define WR_SERVE_CLOCK_WATCH_H

#include <stddef.h>
#include <uv.h>

#include "weir/weir.h"

#define WR_CLOCK_TEXT_BYTES 256U

struct wr_server;

struct wr_clock_watch {
    uv_timer_t timer;
    bool told;
};

/* By how much the machine's clock is ahead of the arena's; negative: behind. 0 within two seconds,
 * which no window is noticed by. */
int64_t wr_clock_apart_ns(const struct weir *weir);

/* What is said of |apart_ns|, without what to do; "" for 0. */
void wr_clock_apart_text(int64_t apart_ns, char *out, size_t size);

/* On the server's own loop, before it runs: look each second, and log when it becomes so, or is no
 * more. */
void wr_clock_watch_start(struct wr_clock_watch *watch, struct wr_server *server);

#endif
