/* echo_daemon.c - the daemon with a door that speaks lines, so that what all doors share (sockets,
 * reload, drain, TLS, deadlines) is tested without the protocol of any: echo_daemon POLICY. It
 * stands in for resp and admin.
 *
 *   echo TEXT      TEXT                       big N       N bytes
 *   later MS TEXT  TEXT, after MS ms          close       closes
 *   check PEER     outcome and remaining      peer, subject, generation, ready, reload, counters */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/log.h"
#include "serve/stream_door.h"

struct client {
    struct wr_conn *conn; /* NULL: gone, but a timer still runs */
    struct door *door;
    struct later *laters;
    unsigned waiting;
};

struct door {
    struct wr_stream_door stream;
    struct wr_loop *loop;
    bool draining;
};
WR_STREAM_DOOR(struct door);

struct later {
    uv_timer_t timer;
    struct client *client;
    struct later *next;
    char text[64];
};

static void say(struct client *client, const char *text)
{
    (void)wr_conn_write(client->conn, text, strlen(text));
    (void)wr_conn_write(client->conn, "\n", 1);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct later *later = handle->data, **at = &later->client->laters;

    while (*at != later)
        at = &(*at)->next;
    *at = later->next;
    if (--later->client->waiting == 0 && later->client->conn == NULL)
        free(later->client);
    free(later);
}

static void on_later(uv_timer_t *timer)
{
    struct later *later = timer->data;
    struct client *client = later->client;

    if (client->conn != NULL) {
        say(client, later->text);
        if (client->door->draining && client->waiting == 1)
            wr_conn_close(client->conn);
    }
    uv_close((uv_handle_t *)timer, on_timer_closed);
}

static void start_later(struct client *client, unsigned ms, const char *text)
{
    struct later *later = calloc(1, sizeof *later);

    if (later == NULL)
        abort();
    later->client = client;
    later->timer.data = later;
    (void)snprintf(later->text, sizeof later->text, "%s", text);
    later->next = client->laters;
    client->laters = later;
    client->waiting++;
    (void)uv_timer_init(&client->door->loop->uv, &later->timer);
    (void)uv_timer_start(&later->timer, on_later, ms, 0);
}

static void check(struct client *client, const char *peer)
{
    struct wr_loop *loop = client->door->loop;
    struct weir_request request = {.method = {"GET", 3},
                                   .path = {"/", 1},
                                   .peer = {peer, strlen(peer)},
                                   .cost_units = 1,
                                   .plan = -1};
    struct weir_answer answer;
    char text[64];

    if (weir_decide(loop->handle->weir, &request, wr_loop_now(loop), &answer) != 0)
        (void)snprintf(text, sizeof text, "error");
    else
        (void)snprintf(text, sizeof text, "%d %lld", answer.outcome,
                       answer.count > 0 ? (long long)answer.verdicts[0].remaining_units : -1LL);
    say(client, text);
}

static void about_server(struct client *client, const char *line)
{
    struct wr_loop *loop = client->door->loop;
    char text[2048], detail[512];

    if (strcmp(line, "ready") == 0) {
        bool ready = wr_server_ready(loop->server, detail, sizeof detail);
        (void)snprintf(text, sizeof text, "%s %s", ready ? "yes" : "no", detail);
    } else if (strcmp(line, "reload") == 0) {
        (void)snprintf(text, sizeof text, "%d",
                       wr_server_reload(loop->server, detail, sizeof detail));
    } else if (strcmp(line, "generation") == 0) {
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)loop->handle->generation);
    } else {
        uint64_t good, refused;
        unsigned long long opened = 0, closed = 0, late = 0;
        wr_server_reloads(loop->server, &good, &refused);
        for (unsigned i = 0; i < wr_server_loops(loop->server); i++) {
            const struct wr_door_metrics *m =
                &wr_server_loop(loop->server, i)->metrics.door[WR_DOOR_RESP];
            opened += __atomic_load_n(&m->connections_opened, __ATOMIC_RELAXED);
            closed += __atomic_load_n(&m->connections_closed, __ATOMIC_RELAXED);
            late += __atomic_load_n(&m->deadline_closed, __ATOMIC_RELAXED);
        }
        (void)snprintf(text, sizeof text, "%llu %llu %llu %llu %llu", (unsigned long long)good,
                       (unsigned long long)refused, opened, closed, late);
    }
    say(client, text);
}

static void big(struct client *client, size_t size)
{
    static char block[4096];

    memset(block, 'x', sizeof block);
    for (; size > 0; size -= size < sizeof block ? size : sizeof block)
        (void)wr_conn_write(client->conn, block, size < sizeof block ? size : sizeof block);
}

static int obey(struct client *client, char *line)
{
    char *end;

    if (strncmp(line, "echo ", 5) == 0) {
        say(client, line + 5);
    } else if (strncmp(line, "later ", 6) == 0) {
        unsigned long ms = strtoul(line + 6, &end, 10);
        start_later(client, (unsigned)ms, *end == ' ' ? end + 1 : end);
    } else if (strncmp(line, "big ", 4) == 0) {
        big(client, strtoul(line + 4, NULL, 10));
    } else if (strncmp(line, "check ", 6) == 0) {
        check(client, line + 6);
    } else if (strcmp(line, "peer") == 0) {
        say(client, wr_conn_peer(client->conn));
    } else if (strcmp(line, "subject") == 0) {
        say(client, wr_conn_subject(client->conn));
    } else if (strcmp(line, "close") == 0) {
        say(client, "bye");
        return -1;
    } else {
        about_server(client, line);
    }
    return 0;
}

static int64_t on_read(void *context, const uint8_t *bytes, size_t len)
{
    struct client *client = context;
    size_t used = 0;
    const uint8_t *end;
    char line[256];

    while ((end = memchr(bytes + used, '\n', len - used)) != NULL) {
        size_t n = (size_t)(end - bytes) - used;
        if (n >= sizeof line)
            return -1;
        memcpy(line, bytes + used, n);
        line[n] = '\0';
        used += n + 1;
        if (obey(client, line) != 0)
            return -1;
    }
    return (int64_t)used;
}

static void on_closed(void *context)
{
    struct client *client = context;

    client->conn = NULL;
    for (struct later *later = client->laters; later != NULL; later = later->next)
        if (!uv_is_closing((uv_handle_t *)&later->timer))
            uv_close((uv_handle_t *)&later->timer, on_timer_closed);
    if (client->waiting == 0)
        free(client);
}

static void *on_accept(void *door, struct wr_conn *conn)
{
    struct client *client = calloc(1, sizeof *client);

    if (client == NULL)
        return NULL;
    client->conn = conn;
    client->door = door;
    return client;
}

#define MS INT64_C(1000000)

static int64_t limit_of(const char *name)
{
    const char *value = getenv(name);

    return value != NULL ? strtoll(value, NULL, 10) * MS : 30000 * MS;
}

static int open_door(struct wr_loop *loop, int fd, const struct wr_listener *listener, void **out)
{
    static const struct wr_conn_events events = {on_read, NULL, on_closed};
    struct door *door = calloc(1, sizeof *door);
    struct wr_acceptor_options options = {
        .accept = on_accept,
        .door = door,
        .events = &events,
        .limits = {.input_max = 1024,
                   .output_max = 65536,
                   .idle_ns = limit_of("ECHO_IDLE_MS"),
                   .write_ns = limit_of("ECHO_WRITE_MS"),
                   .message_ns = limit_of("ECHO_MESSAGE_MS"),
                   .handshake_ns = limit_of("ECHO_HANDSHAKE_MS")},
        .metrics = WR_DOOR_RESP,
        .alpn = (const unsigned char *)"\4echo",
        .alpn_len = 5,
    };

    if (door != NULL)
        door->loop = loop;
    return wr_stream_door_open(loop, fd, listener, &options, out);
}

static void close_if_done(void *context, struct wr_conn *conn)
{
    if (((struct client *)context)->waiting == 0)
        wr_conn_close(conn);
}

static void drain_door(void *state)
{
    struct door *door = state;

    door->draining = true;
    wr_acceptor_stop(door->stream.acceptor);
    wr_acceptor_each(door->stream.acceptor, close_if_done);
}

static const struct wr_door resp = {"resp", open_door, drain_door, wr_stream_door_connections,
                                    wr_stream_door_close};
static const struct wr_door admin = {"admin", open_door, drain_door, wr_stream_door_connections,
                                     wr_stream_door_close};

int main(int argc, char **argv)
{
    static const struct wr_door *const doors[] = {&resp, &admin};
    struct wr_server_options options = {
        .policy_path = argc > 1 ? argv[1] : "policy.yaml", .doors = doors, .door_count = 2};

    wr_log_setup(true, WR_LOG_INFO);
    return wr_server_run(&options);
}
