/* http_service.c - what speaks HTTP/1.1: connections, routing, responses.
 *
 * The idea. wire/http1.h takes requests out of the stream, the door answers each as a function of
 * the request, and what is answered goes out in one write per read, so that pipelined requests cost
 * one system call for all. Everything but the connections is one set of buffers a service: a loop
 * answers one request at a time.
 *
 * Invariants:
 *   1. Answers leave in the order of the requests: while one is held, nothing behind it is read.
 *   2. A request that cannot be framed is the last one of its connection.
 *   3. What a caller makes us keep is bounded: its input by WR_HTTP_INPUT_MAX, its output by
 *      OUTPUT_MAX and one answer.
 *
 * Rejected: libmicrohttpd, see docs/decisions/0006. */
#include "doors/http_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "serve/bad_input.h"
#include "wire/http1_reply.h"

#define OUTPUT_MAX (256U << 10)
#define IDLE_NS (75 * WR_NS_PER_S)
#define MESSAGE_NS (30 * WR_NS_PER_S)
#define WRITE_NS (30 * WR_NS_PER_S)
#define HANDSHAKE_NS (10 * WR_NS_PER_S)
#define HEAD_BYTES (WEIR_HEADERS_BYTES + 2048U)

struct http_conn {
    struct http_service *service;
    struct wr_conn *conn;
    struct http_held *held; /* the answer that waits; NULL: none */
    struct wr_asks asks;
    bool waits;     /* for what its handler asked for */
    uint64_t since; /* uv_hrtime: when that was; 0: it does not */
    struct wr_http_parser parser;
    struct weir_slice peer;
};

/* ---- responses ---------------------------------------------------------------------------- */

void http_add_field(struct http_response *response, const char *name, struct weir_slice value)
{
    if (response->field_count < HTTP_FIELDS_MAX)
        response->field[response->field_count++] = (struct weir_header){name, value};
}

bool http_body_room(struct http_service *service, struct http_response *response, size_t room)
{
    char *larger;

    if (room <= service->body_room)
        return true;
    if (room < 2 * service->body_room)
        room = 2 * service->body_room;
    larger = realloc(service->body, room);
    if (larger == NULL) {
        *response = (struct http_response){.status = 503};
        return false;
    }
    service->body = larger;
    service->body_room = room;
    return true;
}

void http_problem(struct http_service *service, struct http_response *response, int status,
                  const char *detail, struct weir_slice member)
{
    *response = (struct http_response){.status = status, .type = "application/problem+json"};
    response->body =
        (struct weir_slice){service->body, wr_http_problem(service->body, status, detail, member)};
}

void http_body_problem(struct http_service *service, struct http_response *response,
                       const char *detail, struct weir_slice member, size_t offset)
{
    char text[128];

    (void)snprintf(text, sizeof text, "%s, at byte %zu of the body", detail, offset);
    http_problem(service, response, 400, member.len == 0 && offset > 0 ? text : detail, member);
}

/* The head into |out|, of HEAD_BYTES. Returns its length; 0: it does not fit. */
static size_t write_head(struct http_service *service, const struct http_response *response,
                         bool keep_alive, char *out)
{
    struct wr_http_reply reply = {.out = out, .size = HEAD_BYTES};
    int64_t now_s = (int64_t)time(NULL);

    if (service->date_s != now_s)
        wr_http_date(now_s, service->date);
    service->date_s = now_s;
    wr_http_reply_begin(&reply, response->status);
    wr_http_reply_field(&reply, "Date",
                        (struct weir_slice){service->date, sizeof service->date - 1});
    if (response->type != NULL)
        wr_http_reply_field(&reply, "Content-Type",
                            (struct weir_slice){response->type, strlen(response->type)});
    for (unsigned i = 0; i < response->field_count; i++)
        wr_http_reply_field(&reply, response->field[i].name, response->field[i].value);
    wr_http_reply_end(&reply, response->body.len, keep_alive, service->request.http10);
    return reply.full ? 0 : reply.len;
}

bool http_is(struct weir_slice slice, const char *text)
{
    return slice.len == strlen(text) && memcmp(slice.ptr, text, slice.len) == 0;
}

static void tell_bad(const struct http_conn *c, const struct http_response *response)
{
    const char *phrase = wr_http_reason(response->status);

    wr_metrics_bad_request(&c->service->loop->metrics, c->service->id);
    wr_bad_input(c->service->loop, c->service->id, wr_conn_peer(c->conn),
                 response->body.len > 0 ? response->body
                                        : (struct weir_slice){phrase, strlen(phrase)});
}

/* Send |response|, now or later. False: the connection is to end behind it. */
static bool respond(struct http_conn *c, const struct http_response *response)
{
    struct http_service *service = c->service;
    const struct wr_http_request *request = &service->request;
    bool keep_alive = request->keep_alive && !service->draining;
    bool head_only = http_is(request->method, "HEAD");
    char head[HEAD_BYTES];
    size_t len = write_head(service, response, keep_alive, head);

    if (response->status >= 400 && response->status < 500 && response->status != 429)
        tell_bad(c, response);
    if (len == 0)
        return false;
    if (response->delay_ns > 0) { /* never with a body */
        c->held = http_hold(service, c, response->delay_ns, head, len, keep_alive);
        return c->held != NULL;
    }
    if (wr_conn_write(c->conn, head, len) != 0)
        return false;
    if (response->body.len > 0 && !head_only &&
        wr_conn_write(c->conn, response->body.ptr, response->body.len) != 0)
        return false;
    return keep_alive;
}

void http_deliver_held(struct http_conn *c, const char *bytes, size_t len, bool keep_alive)
{
    c->held = NULL;
    if (wr_conn_write(c->conn, bytes, len) != 0)
        return;
    if (!keep_alive || c->service->draining)
        wr_conn_close(c->conn);
    else
        wr_conn_again(c->conn); /* what came meanwhile */
}

/* ---- routing ------------------------------------------------------------------------------ */

struct weir_slice http_path(const struct wr_http_request *request)
{
    struct weir_slice path = request->target;
    const char *query = memchr(path.ptr, '?', path.len);

    if (query != NULL)
        path.len = (size_t)(query - path.ptr);
    return path;
}

struct weir_slice http_query(const struct wr_http_request *request)
{
    const char *end = request->target.ptr + request->target.len;
    const char *query = memchr(request->target.ptr, '?', request->target.len);

    return query != NULL ? (struct weir_slice){query + 1, (size_t)(end - query - 1)}
                         : (struct weir_slice){end, 0};
}

static bool has_method(const struct http_route *route, struct weir_slice method)
{
    return http_is(method, route->method) ||
           (http_is(method, "HEAD") && strcmp(route->method, "GET") == 0);
}

/* Append |method| to the list of those that a path has. */
static void allow(struct http_service *service, const char *method)
{
    size_t have = strlen(service->allow), len = strlen(method);

    if (have + len + 3 > sizeof service->allow)
        return;
    if (have > 0) {
        memcpy(service->allow + have, ", ", 2);
        have += 2;
    }
    memcpy(service->allow + have, method, len + 1);
}

void http_route(const struct http_routes *routes, struct http_service *service,
                struct weir_slice peer, struct http_response *response)
{
    const struct wr_http_request *request = &service->request;
    struct weir_slice path = http_path(request);

    service->allow[0] = '\0';
    for (size_t i = 0; i < routes->count; i++) {
        const struct http_route *route = &routes->route[i];
        if (!http_is(path, route->path))
            continue;
        if (has_method(route, request->method)) {
            if (route->takes == NULL || http_query_takes(service, route->takes, response))
                route->handler(service, peer, request, response);
            return;
        }
        allow(service, strcmp(route->method, "GET") == 0 ? "GET, HEAD" : route->method);
    }
    if (service->allow[0] == '\0') {
        http_problem(service, response, 404, routes->detail, (struct weir_slice){NULL, 0});
        return;
    }
    http_problem(service, response, 405, "this path has other methods: see Allow",
                 (struct weir_slice){NULL, 0});
    http_add_field(response, "Allow", (struct weir_slice){service->allow, strlen(service->allow)});
}
/* ---- connections -------------------------------------------------------------------------- */

static void refuse(struct http_conn *c)
{
    struct http_service *service = c->service;
    struct http_response response;

    service->request.method = (struct weir_slice){"", 0};
    service->request.keep_alive = false;
    service->request.http10 = false;
    http_problem(service, &response, c->parser.status, c->parser.error,
                 (struct weir_slice){NULL, 0});
    (void)respond(c, &response);
}

enum outcome { GO_ON, WAIT, END };

/* The request that was read. */
static enum outcome answer(struct http_conn *c)
{
    struct http_response response = {.status = 500};
    bool go_on;

    c->service->asks = &c->asks;
    wr_asks_again(&c->asks);
    c->service->answer(c->service, c->peer, &c->service->request, &response);
    if (response.waits) {
        c->waits = true;
        wr_conn_stall(c->conn);
        return WAIT;
    }
    go_on = respond(c, &response);
    wr_asks_answered(&c->asks);
    return go_on ? GO_ON : END;
}

/* All that was asked for is there. */
static void on_asked(void *context)
{
    struct http_conn *c = context;

    c->waits = false;
    wr_conn_again(c->conn);
}

/* A request has been answered; the next one's time begins. */
static uint64_t count(struct http_service *service, uint64_t since)
{
    uint64_t now = uv_hrtime();

    wr_metrics_request(&service->loop->metrics, service->id, (int64_t)(now - since));
    return now;
}

static int64_t on_read(void *context, const uint8_t *bytes, size_t len)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http_conn *c = context;
    struct http_service *service = c->service;
    uint64_t since = uv_hrtime();
    size_t used = 0;

    while (used < len && c->held == NULL && !c->waits) {
        enum outcome outcome;
        enum wr_http_step step = wr_http_parse(&c->parser, (const char *)bytes + used, len - used,
                                               service->scratch, &service->request);
        if (step == WR_HTTP_BAD) {
            refuse(c);
            (void)count(service, since);
            return -1;
        }
        if (step == WR_HTTP_CONTINUE)
            (void)wr_conn_write(c->conn, go_on, sizeof go_on - 1);
        if (step != WR_HTTP_DONE)
            break;
        c->since = c->since > 0 ? c->since : since;
        outcome = answer(c);
        if (outcome == WAIT)
            break;
        since = c->since;
        c->since = 0;
        used += c->parser.consumed;
        since = count(service, since);
        if (outcome == END)
            return -1;
        if (wr_conn_is_full(c->conn))
            break; /* reading stops, and goes on from here when that has gone */
    }
    return (int64_t)used;
}

static void on_closed(void *context)
{
    struct http_conn *c = context;

    if (c->held != NULL)
        http_held_abandon(c->held);
    if (c->service->abandoned != NULL) /* also what it was about to be told */
        c->service->abandoned(c->service, &c->asks);
    wr_asks_abandon(&c->asks);
    free(c);
}

static void *on_accept(void *context, struct wr_conn *conn)
{
    struct http_conn *c = calloc(1, sizeof *c);
    const char *peer = wr_conn_peer(conn);

    if (c == NULL)
        return NULL;
    c->service = context;
    c->conn = conn;
    c->asks = (struct wr_asks){.loop = c->service->loop, .resume = on_asked, .context = c};
    if (peer[0] == '\0')
        peer = "127.0.0.1"; /* through a unix socket: a process of this host */
    c->peer = (struct weir_slice){peer, strlen(peer)};
    return c;
}

static const struct wr_conn_events events = {on_read, NULL, on_closed};

/* ---- the service -------------------------------------------------------------------------- */

static void free_buffers(struct http_service *service)
{
    free(service->scratch);
    free(service->body);
    service->scratch = service->body = NULL;
}

/* Five sixths of the first deadline that a connection meets whose answer waits. */
static int64_t hold_max(const struct wr_policy_settings *settings)
{
    int64_t idle_ns = settings->idle_ns > 0 ? settings->idle_ns : IDLE_NS;
    int64_t stall_ns = settings->stall_ns > 0 ? settings->stall_ns : MESSAGE_NS;
    int64_t least = idle_ns < stall_ns ? idle_ns : stall_ns;

    least = least < MESSAGE_NS ? least : MESSAGE_NS;
    return least / 6 * 5;
}

int http_service_open(struct http_service *service, int fd, const struct wr_listener *listener)
{
    static const unsigned char alpn[] = "\x08http/1.1";
    struct wr_acceptor_options options = {.accept = on_accept,
                                          .door = service,
                                          .events = &events,
                                          .limits = {.input_max = WR_HTTP_INPUT_MAX,
                                                     .output_max = OUTPUT_MAX,
                                                     .idle_ns = IDLE_NS,
                                                     .message_ns = MESSAGE_NS,
                                                     .write_ns = WRITE_NS,
                                                     .handshake_ns = HANDSHAKE_NS},
                                          .metrics = service->id,
                                          .alpn = alpn,
                                          .alpn_len = sizeof alpn - 1};
    int result = WEIR_ENOMEM;

    service->hold_max_ns = hold_max(wr_policy_settings(service->loop->handle->policy));
    service->scratch = malloc(WR_HTTP_BODY_MAX);
    service->body = malloc(HTTP_BODY_BYTES);
    service->body_room = HTTP_BODY_BYTES;
    if (service->scratch != NULL && service->body != NULL)
        result = wr_acceptor_open(&service->acceptor, service->loop, fd, listener, &options);
    else
        (void)close(fd);
    if (result != 0)
        free_buffers(service);
    return result;
}
/* Idle ones end now, the others with their answer. */
static void drain_one(void *context, struct wr_conn *conn)
{
    struct http_conn *c = context;

    if (c->held == NULL && c->parser.scanned == 0 && wr_conn_unread(conn) == 0)
        wr_conn_close(conn);
}

void http_service_drain(struct http_service *service)
{
    service->draining = true;
    wr_acceptor_drain(service->acceptor, drain_one);
}

unsigned http_service_connections(const struct http_service *service)
{
    return wr_acceptor_connections(service->acceptor);
}

void http_service_close(struct http_service *service)
{
    wr_acceptor_close(service->acceptor);
    free_buffers(service);
}

bool http_refuses_encoded(struct http_service *service, const struct wr_http_request *request,
                          struct http_response *response)
{
    const struct wr_http_field *field = wr_http_find(request, "content-encoding");

    if (field == NULL || request->body.len == 0 || field->value.len == 0 ||
        wr_http_name_is(field->value, "identity"))
        return false;
    http_problem(service, response, 415, "a body with a Content-Encoding is not taken",
                 (struct weir_slice){NULL, 0});
    return true;
}
