/* http_hold.c - answers that wait for their time: a leaky bucket lets requests through at even
 * spacing, and a proxy that asks us is told when it is the request's turn.
 *
 * Invariants: an answer is sent at its time or never; a caller that has gone is not touched; what
 * waits is at most HTTP_HELD_MAX a loop (the caller of http_hold looks first). */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "doors/http_service.h"

struct http_held {
    uv_timer_t timer;
    struct http_service *service; /* NULL: abandoned */
    struct http_conn *conn;
    size_t len;
    bool keep_alive;
    char bytes[];
};

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_time(uv_timer_t *timer)
{
    struct http_held *held = timer->data;

    held->service->held--;
    uv_close((uv_handle_t *)&held->timer, on_closed); /* freed in a later turn */
    http_deliver_held(held->conn, held->bytes, held->len, held->keep_alive);
}

struct http_held *http_hold(struct http_service *service, struct http_conn *conn, int64_t delay_ns,
                            const char *bytes, size_t len, bool keep_alive)
{
    struct http_held *held = malloc(sizeof *held + len);
    uint64_t delay_ms = (uint64_t)((delay_ns + WR_NS_PER_MS - 1) / WR_NS_PER_MS);

    if (held == NULL)
        return NULL;
    *held =
        (struct http_held){.service = service, .conn = conn, .len = len, .keep_alive = keep_alive};
    memcpy(held->bytes, bytes, len);
    (void)uv_timer_init(&service->loop->uv, &held->timer);
    held->timer.data = held;
    uv_update_time(&service->loop->uv); /* the turn may have begun a while ago */
    (void)uv_timer_start(&held->timer, on_time, delay_ms, 0);
    service->held++;
    return held;
}

void http_held_abandon(struct http_held *held)
{
    held->service->held--;
    (void)uv_timer_stop(&held->timer);
    uv_close((uv_handle_t *)&held->timer, on_closed);
}
