/* bad_input.c - refused input as debug lines. The metric weir_door_bad_requests counts all of it;
 * whoever asks why gets lines, but never more than a disk or a reader of them stands. */
#include "serve/bad_input.h"

#include <time.h>

#include "serve/log.h"

#define PER_SECOND 20U

void wr_bad_input(struct wr_loop *loop, enum wr_door_id door, const char *peer,
                  struct weir_slice reason)
{
    static const char *const doors[WR_DOORS] = {[WR_DOOR_HTTP] = "http",
                                                [WR_DOOR_GRPC] = "grpc",
                                                [WR_DOOR_RESP] = "resp",
                                                [WR_DOOR_AGENT] = "agent",
                                                [WR_DOOR_ADMIN] = "admin"};
    int64_t now_s;

    if (!wr_log_wants(WR_LOG_DEBUG))
        return;
    now_s = (int64_t)time(NULL);
    if (loop->bad_told_s != now_s)
        loop->bad_told = 0;
    loop->bad_told_s = now_s;
    if (loop->bad_told++ >= PER_SECOND)
        return;
    (void)wr_log_try(WR_LOG_DEBUG, "input refused",
                     (const struct wr_log_value[]){wr_log_text("door", doors[door]),
                                                   wr_log_text("peer", peer),
                                                   wr_log_slice("reason", reason)},
                     3);
}
