/* clock_watch.h - does the clock that decisions go by show the time of the machine's?
 *
 * The arena's clock does not follow steps (store/arena.c): rightly for rates, which would be
 * forgiven or locked out by them. What customers used is counted in the machine's days all the
 * same. But days of shared quotas, and of those by anything else, begin when that clock says. So
 * where the machine's clock was set after the arena was made, or the machine was halted with its
 * time going on, they begin early or late, until the arena is made anew: somebody must know. */
#ifndef WR_SERVE_CLOCK_WATCH_H
#define WR_SERVE_CLOCK_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define WR_CLOCK_TEXT_BYTES 256U

struct wr_server;

struct wr_clock_watch {
    uv_timer_t timer;
    bool told;
};

/* What is said of a machine's clock that is |ahead_ns| (wr_arena_wall_ahead_ns), without what is to
 * be done; "" for 0. */
void wr_clock_apart_text(int64_t ahead_ns, char *out, size_t size);

/* On the server's own loop, before it runs: look each second, and log when it becomes so, or is no
 * more. */
void wr_clock_watch_start(struct wr_clock_watch *watch, struct wr_server *server);

#endif
