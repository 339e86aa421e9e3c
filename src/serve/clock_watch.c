/* clock_watch.c - see clock_watch.h. */
#include "serve/clock_watch.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/units.h"
#include "lib/handle.h"
#include "serve/log.h"
#include "serve/server.h"

#define EVERY_MS 1000
#define APART_NS (2 * WR_NS_PER_S)

int64_t wr_clock_apart_ns(const struct weir *weir)
{
    int64_t apart_ns = wr_clock_wall().ns - weir_now(weir);

    return apart_ns > APART_NS || apart_ns < -APART_NS ? apart_ns : 0;
}

void wr_clock_apart_text(int64_t apart_ns, char *out, size_t size)
{
    int64_t s = (apart_ns < 0 ? -apart_ns : apart_ns) / WR_NS_PER_S;

    out[0] = '\0';
    if (apart_ns != 0)
        (void)snprintf(out, size,
                       "the machine's clock is %" PRId64 " s %s the clock of decisions, so days, "
                       "weeks and months of shared quotas, and of quotas by anything but customer, "
                       "begin so much too %s",
                       s, apart_ns > 0 ? "ahead of" : "behind", apart_ns > 0 ? "late" : "early");
}

static void look(uv_timer_t *timer)
{
    struct wr_server *server = timer->data;
    struct wr_handle *handle = wr_server_handle(server);
    int64_t apart_ns = wr_clock_apart_ns(handle->weir);
    char text[WR_CLOCK_TEXT_BYTES];

    wr_handle_unref(handle);
    if ((apart_ns != 0) == server->clock_watch.told)
        return;
    server->clock_watch.told = apart_ns != 0;
    wr_clock_apart_text(apart_ns, text, sizeof text);
    if (apart_ns != 0)
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
