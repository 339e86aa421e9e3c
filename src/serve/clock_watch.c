/* clock_watch.c - see clock_watch.h. */
#include "serve/clock_watch.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"
#include "lib/handle.h"
#include "serve/log.h"
#include "serve/server.h"

#define EVERY_MS 1000

void wr_clock_apart_text(int64_t ahead_ns, char *out, size_t size)
{
    int64_t s = (ahead_ns < 0 ? -ahead_ns : ahead_ns) / WR_NS_PER_S;

    out[0] = '\0';
    if (ahead_ns != 0)
        (void)snprintf(out, size,
                       "the machine's clock is %" PRId64 " s %s the clock of decisions, so days, "
                       "weeks and months of shared quotas, and of quotas by anything but customer, "
                       "begin so much too %s",
                       s, ahead_ns > 0 ? "ahead of" : "behind", ahead_ns > 0 ? "late" : "early");
}

static void look(uv_timer_t *timer)
{
    struct wr_server *server = timer->data;
    struct wr_handle *handle = wr_server_handle(server);
    int64_t ahead_ns;
    char text[WR_CLOCK_TEXT_BYTES];

    (void)wr_arena_now(handle->weir->arena); /* somebody has to look, also where nobody decides */
    ahead_ns = wr_arena_wall_ahead_ns(handle->weir->arena);
    wr_handle_unref(handle);
    if ((ahead_ns != 0) == server->clock_watch.told)
        return;
    server->clock_watch.told = ahead_ns != 0;
    wr_clock_apart_text(ahead_ns, text, sizeof text);
    if (ahead_ns != 0)
        wr_log(WR_LOG_WARNING, "clocks apart", wr_log_text("detail", text),
               wr_log_text("hint", "it was set after the arena was made: stop all that use the "
                                   "arena, remove its file, start again; rates begin anew then, "
                                   "quotas by customer do not"));
    else
        wr_log(WR_LOG_INFO, "clocks together");
}

void wr_clock_watch_start(struct wr_clock_watch *watch, struct wr_server *server)
{
    watch->told = false;
    watch->timer.data = server;
    (void)uv_timer_start(&watch->timer, look, 0, EVERY_MS);
}
