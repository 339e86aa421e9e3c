/* door_grpc.c - the gRPC door: Envoy's rate limit service and health checks.
 *
 * Three things make one: connections (conn.h) carry bytes, sessions (grpc_session.h) make calls of
 * them, and here is what the calls mean. A call is decoded, decided and encoded at once, in memory
 * of the door, so that a decision allocates nothing but what nghttp2 does. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "doors/doors.h"
#include "doors/grpc_session.h"
#include "doors/rls.h"
#include "lib/handle.h"
#include "serve/asks.h"
#include "serve/bad_input.h"
#include "serve/stream_door.h"
#include "wire/rls.h"

#define INPUT_MAX ((size_t)64 << 10)
#define OUTPUT_MAX ((size_t)1 << 20)
#define REPLY_MAX ((size_t)64 << 10) /* 64 statuses, all headers and the body: 30 KiB */
/* Envoy and gRPC clients keep connections for long and speak up seldom. */
#define IDLE_NS (2 * WR_NS_PER_HOUR)
#define WRITE_NS (10 * WR_NS_PER_S)
#define HANDSHAKE_NS (10 * WR_NS_PER_S)
#define TICK_MS 1000 /* how exact deadlines are; also what a client has to answer a drain */

struct grpc_door {
    struct wr_stream_door stream;
    struct wr_loop *loop;
    struct link *watched;      /* those that wait for something */
    uv_timer_t tick;           /* while there are any, or draining */
    uint64_t mark_ns;          /* when the last call of this read was answered, or the read began */
    struct wr_rls_space space; /* of the question at hand */
    struct wr_rls_scratch scratch;
    struct wr_grpc_spare spare;
    struct wr_asks asks; /* of calls that a policy decides which shares nothing */
    struct wr_rate_response response;
    uint8_t reply[REPLY_MAX];
};
WR_STREAM_DOOR(struct grpc_door);

struct link {
    struct grpc_door *door;
    struct wr_conn *conn;
    struct wr_grpc *grpc;
    struct link *previous, *next; /* of the watched ones */
    bool watched;
};

/* A call that may have to wait for a store. */
struct held {
    struct wr_asks asks;
    struct link *link;
    struct wr_grpc_stream *stream;
};

/* ---- calls ------------------------------------------------------------------------------- */

static bool should_rate_limit(struct grpc_door *door, const uint8_t *bytes, size_t len,
                              struct wr_grpc_reply *reply)
{
    struct wr_rate_request request;
    int64_t size;
    int result = wr_rls_decode(bytes, len, &door->space, &request, &reply->message);

    if (result != 0) {
        reply->code = result == WEIR_EFULL ? WR_GRPC_RESOURCE_EXHAUSTED : WR_GRPC_INVALID_ARGUMENT;
        return true;
    }
    result = wr_rls_answer(door->loop, &request, &door->scratch, &door->response, &reply->message);
    if (result == WR_RLS_WAITS)
        return false;
    if (result != 0) { /* UNKNOWN is what the reference answers to what it finds wrong */
        reply->code = result == WEIR_EFULL     ? WR_GRPC_RESOURCE_EXHAUSTED
                      : result == WR_RLS_STORE ? WR_GRPC_UNAVAILABLE
                                               : WR_GRPC_UNKNOWN;
        return true;
    }
    size = wr_rls_encode(&door->response, door->reply, sizeof door->reply);
    if (size < 0) {
        reply->message = "the answer is too large";
        return true;
    }
    *reply = (struct wr_grpc_reply){WR_GRPC_OK, "", door->reply, (size_t)size};
    return true;
}

static bool is_text(struct weir_slice slice, const char *text)
{
    return slice.len == strlen(text) && memcmp(slice.ptr, text, slice.len) == 0;
}

static bool check_health(struct grpc_door *door, const uint8_t *bytes, size_t len,
                         struct wr_grpc_reply *reply)
{
    struct weir_slice service;
    char detail[256];
    bool ready;

    if (wr_health_decode(bytes, len, &service) != 0) {
        reply->code = WR_GRPC_INVALID_ARGUMENT;
        reply->message = "the message is not a HealthCheckRequest";
        return true;
    }
    if (service.len > 0 && !is_text(service, "ratelimit") &&
        !is_text(service, "envoy.service.ratelimit.v3.RateLimitService")) {
        reply->code = WR_GRPC_NOT_FOUND;
        reply->message = "no such service";
        return true;
    }
    ready = wr_server_ready(door->loop->server, detail, sizeof detail);
    wr_health_encode(ready ? WR_HEALTH_SERVING : WR_HEALTH_NOT_SERVING, door->reply);
    *reply = (struct wr_grpc_reply){WR_GRPC_OK, "", door->reply, WR_HEALTH_BYTES};
    return true;
}

static const struct method {
    const char *path;
    bool (*call)(struct grpc_door *door, const uint8_t *bytes, size_t len,
                 struct wr_grpc_reply *reply);
} methods[] = {
    {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", should_rate_limit},
    {"/grpc.health.v1.Health/Check", check_health},
};

static const void *find(void *context, struct weir_slice path)
{
    (void)context;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (is_text(path, methods[i].path))
            return &methods[i];
    return NULL;
}

static void count_bad(struct grpc_door *door)
{
    uint64_t *bad = &door->loop->metrics.door[WR_DOOR_GRPC].bad_requests;

    __atomic_store_n(bad, *bad + 1, __ATOMIC_RELAXED);
    wr_bad_input(door->loop, WR_DOOR_GRPC, "",
                 (struct weir_slice){"a malformed call or a breach of HTTP/2", 38});
}

static void on_asked(void *context);

/* The asks of |call|: its own where a store may have to be asked. NULL: out of memory. */
static struct wr_asks *asks_of(struct link *link, const struct wr_grpc_call *call)
{
    struct held *held = *call->kept;

    if (held == NULL && !wr_asks_shares(link->door->loop))
        return &link->door->asks;
    if (held == NULL) {
        held = calloc(1, sizeof *held);
        if (held == NULL)
            return NULL;
        held->asks =
            (struct wr_asks){.loop = link->door->loop, .resume = on_asked, .context = held};
        held->link = link;
        held->stream = call->stream;
        *call->kept = held;
    }
    return &held->asks;
}

static bool call(void *context, const struct wr_grpc_call *what, struct wr_grpc_reply *reply)
{
    struct link *link = context;
    struct grpc_door *door = link->door;
    const struct method *method = what->method;
    struct wr_asks *asks = asks_of(link, what);
    uint64_t end;

    if (asks == NULL) {
        reply->message = "out of memory";
        return true;
    }
    wr_asks_again(asks);
    door->scratch.asks = asks;
    if (!method->call(door, what->bytes, what->len, reply))
        return false;
    door->mark_ns = wr_asks_since(asks, door->mark_ns);
    wr_asks_answered(asks);
    if (reply->code != WR_GRPC_OK && reply->code != WR_GRPC_UNAVAILABLE)
        count_bad(door);
    end = uv_hrtime();
    wr_metrics_request(&door->loop->metrics, WR_DOOR_GRPC, (int64_t)(end - door->mark_ns));
    door->mark_ns = end;
    return true;
}

static void dropped(void *context, void *kept)
{
    struct held *held = kept;

    (void)context;
    wr_asks_abandon(&held->asks);
    free(held);
}

static void bad(void *context)
{
    struct link *link = context;

    count_bad(link->door);
}

static int write_bytes(void *context, const void *bytes, size_t len)
{
    struct link *link = context;

    return wr_conn_write(link->conn, bytes, len);
}

static const struct wr_grpc_events session_events = {call, dropped, find, bad, write_bytes};

/* ---- deadlines ----------------------------------------------------------------------------- */

static int64_t now_ns(const struct grpc_door *door)
{
    return (int64_t)uv_now(&door->loop->uv) * WR_NS_PER_MS;
}

static void unwatch(struct link *link)
{
    if (!link->watched)
        return;
    link->watched = false;
    if (link->previous != NULL)
        link->previous->next = link->next;
    else
        link->door->watched = link->next;
    if (link->next != NULL)
        link->next->previous = link->previous;
}

static void on_tick(uv_timer_t *timer);

/* Nearly every call is over when its read is: what is left is looked at once a second. */
static void watch(struct link *link)
{
    struct grpc_door *door = link->door;

    if (link->watched || !wr_grpc_waits(link->grpc))
        return;
    link->watched = true;
    link->previous = NULL;
    link->next = door->watched;
    if (link->next != NULL)
        link->next->previous = link;
    door->watched = link;
    if (!uv_is_active((uv_handle_t *)&door->tick))
        (void)uv_timer_start(&door->tick, on_tick, TICK_MS, TICK_MS);
}

static void look_at(struct link *link)
{
    struct grpc_door *door = link->door;
    bool late;
    int result = wr_grpc_tick(link->grpc, now_ns(door), &late);

    if (late) {
        uint64_t *closed = &door->loop->metrics.door[WR_DOOR_GRPC].deadline_closed;
        __atomic_store_n(closed, *closed + 1, __ATOMIC_RELAXED);
    }
    if (result < 0 || !wr_grpc_waits(link->grpc))
        unwatch(link);
    if (result < 0)
        wr_conn_close(link->conn);
    else
        wr_conn_flush(link->conn);
}

static void end_drain(void *context, struct wr_conn *conn)
{
    struct link *link = context;

    if (wr_grpc_drain_end(link->grpc) < 0)
        wr_conn_close(conn);
    else
        wr_conn_flush(conn);
}

static void on_tick(uv_timer_t *timer)
{
    struct grpc_door *door = timer->data;
    struct link *next;

    for (struct link *link = door->watched; link != NULL; link = next) {
        next = link->next; /* closing takes effect in the loop */
        look_at(link);
    }
    if (door->loop->draining)
        wr_acceptor_each(door->stream.acceptor, end_drain);
    else if (door->watched == NULL)
        (void)uv_timer_stop(timer);
}

/* ---- calls that waited -------------------------------------------------------------------- */

static void on_asked(void *context)
{
    struct held *held = context;
    struct link *link = held->link;

    if (!wr_conn_is_open(link->conn)) /* nobody would see the answer: it is given back */
        return;
    link->door->mark_ns = uv_hrtime();
    if (wr_grpc_resume(link->grpc, held->stream, now_ns(link->door)) < 0) {
        unwatch(link);
        wr_conn_close(link->conn);
        return;
    }
    watch(link);
    wr_conn_flush(link->conn);
}

/* ---- connections --------------------------------------------------------------------------- */

static void *on_accept(void *context, struct wr_conn *conn)
{
    struct grpc_door *door = context;
    const struct wr_policy_settings *settings = wr_policy_settings(door->loop->handle->policy);
    struct link *link = calloc(1, sizeof *link);

    if (link == NULL)
        return NULL;
    link->door = door;
    link->conn = conn;
    link->grpc = wr_grpc_new(&session_events, link, &door->spare, now_ns(door));
    if (link->grpc == NULL) {
        free(link);
        return NULL;
    }
    if (settings->stall_ns > 0)
        wr_grpc_set_patience(link->grpc, settings->stall_ns);
    if (door->loop->draining)
        (void)wr_grpc_drain(link->grpc);
    watch(link);
    wr_conn_flush(conn);
    return link;
}

static int64_t on_read(void *context, const uint8_t *bytes, size_t len)
{
    struct link *link = context;

    link->door->mark_ns = uv_hrtime();
    if (wr_grpc_read(link->grpc, bytes, len, now_ns(link->door)) < 0) {
        unwatch(link);
        return -1;
    }
    watch(link);
    return (int64_t)len;
}

static void on_closed(void *context)
{
    struct link *link = context;

    unwatch(link);
    wr_grpc_free(link->grpc);
    free(link);
}

/* ---- the door ------------------------------------------------------------------------------ */

static int door_open(struct wr_loop *loop, int fd, const struct wr_listener *listener, void **out)
{
    static const struct wr_conn_events events = {.read = on_read, .closed = on_closed};
    static const unsigned char alpn[] = "\x02h2";
    struct grpc_door *door = calloc(1, sizeof *door);
    struct wr_acceptor_options options = {
        .accept = on_accept,
        .door = door,
        .events = &events,
        .limits = {.input_max = INPUT_MAX,
                   .output_max = OUTPUT_MAX,
                   .idle_ns = IDLE_NS,
                   .write_ns = WRITE_NS,
                   .handshake_ns = HANDSHAKE_NS},
        .metrics = WR_DOOR_GRPC,
        .alpn = alpn,
        .alpn_len = sizeof alpn - 1,
        .alpn_needed = true,
    };
    int result;

    if (door != NULL) {
        door->loop = loop;
        door->scratch.door = WR_DOOR_GRPC;
        door->asks.loop = loop;
    }
    result = wr_stream_door_open(loop, fd, listener, &options, out);
    if (door == NULL || result != 0)
        return result;
    (void)uv_timer_init(&loop->uv, &door->tick);
    door->tick.data = door;
    return 0;
}

static void drain_link(void *context, struct wr_conn *conn)
{
    struct link *link = context;

    if (wr_grpc_drain(link->grpc) < 0)
        wr_conn_close(conn);
    else
        wr_conn_flush(conn);
}

static void door_drain(void *context)
{
    struct grpc_door *door = context;

    wr_acceptor_stop(door->stream.acceptor);
    wr_acceptor_each(door->stream.acceptor, drain_link);
    (void)uv_timer_start(&door->tick, on_tick, TICK_MS, TICK_MS);
}

static void on_tick_closed(uv_handle_t *handle)
{
    struct grpc_door *door = handle->data;

    wr_grpc_spare_free(&door->spare);
    free(door);
}

static void door_close(void *context)
{
    struct grpc_door *door = context;

    wr_acceptor_close(door->stream.acceptor);
    uv_close((uv_handle_t *)&door->tick, on_tick_closed);
}

const struct wr_door wr_door_grpc = {
    .name = "grpc",
    .open = door_open,
    .drain = door_drain,
    .connections = wr_stream_door_connections,
    .close = door_close,
};
