/* door_http.c - the HTTP door: connections, routing, responses.
 *
 * The idea. wire/http1.h takes requests out of the stream, a row of the table below answers each as
 * a function of the request, and what is answered goes out in one write per read, so that pipelined
 * requests cost one system call for all. Everything but the connections is one set of buffers a
 * door: a loop answers one request at a time.
 *
 * Invariants:
 *   1. Answers leave in the order of the requests: while one is held, nothing behind it is read.
 *   2. A request that cannot be framed is the last one of its connection.
 *   3. What a caller makes us keep is bounded: its input by WR_HTTP_INPUT_MAX, its output by
 *      OUTPUT_MAX and one answer.
 *
 * Rejected: libmicrohttpd, see docs/decisions/0006. */
#include "serve/door_http.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "serve/openapi.h"
#include "wire/http1_reply.h"

#define OUTPUT_MAX (256U << 10)
#define IDLE_NS (75 * WR_NS_PER_S)
#define MESSAGE_NS (30 * WR_NS_PER_S)
#define WRITE_NS (30 * WR_NS_PER_S)
#define HANDSHAKE_NS (10 * WR_NS_PER_S)
#define HEAD_BYTES (WEIR_HEADERS_BYTES + 2048U)
#define BODY_BYTES (WR_CHECK_ANSWER_MAX + WEIR_PROBLEM_BYTES)

struct http_conn {
    struct http_door *door;
    struct wr_conn *conn;
    struct http_held *held; /* the answer that waits; NULL: none */
    struct wr_http_parser parser;
    struct weir_slice peer;
};

/* ---- responses ---------------------------------------------------------------------------- */

void http_add_field(struct http_response *response, const char *name, struct weir_slice value)
{
    if (response->field_count < HTTP_FIELDS_MAX)
        response->field[response->field_count++] = (struct weir_header){name, value};
}

bool http_body_room(struct http_door *door, struct http_response *response, size_t room)
{
    char *larger;

    if (room <= door->body_room)
        return true;
    if (room < 2 * door->body_room)
        room = 2 * door->body_room;
    larger = realloc(door->body, room);
    if (larger == NULL) {
        *response = (struct http_response){.status = 503};
        return false;
    }
    door->body = larger;
    door->body_room = room;
    return true;
}

void http_problem(struct http_door *door, struct http_response *response, int status,
                  const char *detail, struct weir_slice member)
{
    *response = (struct http_response){.status = status, .type = "application/problem+json"};
    response->body =
        (struct weir_slice){door->body, wr_http_problem(door->body, status, detail, member)};
}

/* The head into |out|, of HEAD_BYTES. Returns its length; 0: it does not fit. */
static size_t write_head(const struct http_response *response, bool keep_alive, bool http10,
                         char *out)
{
    struct wr_http_reply reply = {.out = out, .size = HEAD_BYTES};

    wr_http_reply_begin(&reply, response->status);
    if (response->type != NULL)
        wr_http_reply_field(&reply, "Content-Type",
                            (struct weir_slice){response->type, strlen(response->type)});
    for (unsigned i = 0; i < response->field_count; i++)
        wr_http_reply_field(&reply, response->field[i].name, response->field[i].value);
    wr_http_reply_end(&reply, response->body.len, keep_alive, http10);
    return reply.full ? 0 : reply.len;
}

static bool is(struct weir_slice slice, const char *text)
{
    return slice.len == strlen(text) && memcmp(slice.ptr, text, slice.len) == 0;
}

/* Send |response|, now or later. False: the connection is to end behind it. */
static bool respond(struct http_conn *c, const struct http_response *response)
{
    struct http_door *door = c->door;
    const struct wr_http_request *request = &door->request;
    bool keep_alive = request->keep_alive && !door->draining;
    bool head_only = is(request->method, "HEAD");
    char head[HEAD_BYTES];
    size_t len = write_head(response, keep_alive, request->http10, head);

    if (response->status >= 400 && response->status < 500 && response->status != 429)
        door->loop->metrics.door[WR_DOOR_HTTP].bad_requests++;
    if (len == 0)
        return false;
    if (response->delay_ns > 0) { /* never with a body */
        c->held = http_hold(door, c, response->delay_ns, head, len, keep_alive);
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
    if (!keep_alive || c->door->draining)
        wr_conn_close(c->conn);
    else
        wr_conn_again(c->conn); /* what came meanwhile */
}

/* ---- the policy in force ------------------------------------------------------------------ */

static void learn_policy(struct http_door *door)
{
    const struct wr_handle *handle = door->loop->handle;
    struct http_policy *policy = &door->policy;

    if (policy->generation == handle->generation)
        return;
    policy->generation = handle->generation;
    policy->field_count = weir_field_count(handle->weir);
    for (size_t i = 0; i < policy->field_count; i++) {
        policy->names[i] = weir_field_name(handle->weir, i);
        policy->lens[i] = strlen(policy->names[i]);
        policy->kinds[i] = weir_field_kind(handle->weir, i);
    }
    weir_answer_defaults(handle->weir, &policy->answers);
    policy->has_plans = wr_policy_plan_count(handle->policy) > 1;
}

bool http_fields_room(struct http_door *door, size_t requests)
{
    size_t room = requests * (door->policy.field_count > 0 ? door->policy.field_count : 1);
    struct weir_slice *larger;

    if (room <= door->fields_room)
        return true;
    larger = realloc(door->fields, room * sizeof *larger);
    if (larger == NULL)
        return false;
    door->fields = larger;
    door->fields_room = room;
    return true;
}

/* ---- routing ------------------------------------------------------------------------------ */

static void openapi(struct http_door *door, struct weir_slice peer,
                    const struct wr_http_request *request, struct http_response *response)
{
    (void)door;
    (void)peer;
    (void)request;
    *response = (struct http_response){
        .status = 200, .type = "application/json", .body = {wr_openapi, wr_openapi_len}};
}

static const struct route {
    const char *path;
    const char *allow; /* for people */
    bool post;         /* POST alone; otherwise GET and HEAD */
    http_handler *handler;
} routes[] = {
    {"/v1/check", "POST", true, http_check},           {"/v1/reserve", "POST", true, http_reserve},
    {"/v1/settle", "POST", true, http_settle},         {"/v1/release", "POST", true, http_release},
    {"/v1/openapi.json", "GET, HEAD", false, openapi},
};

static bool is_auth(struct weir_slice target)
{
    static const char path[] = "/v1/auth";
    size_t len = sizeof path - 1;

    return target.len >= len && memcmp(target.ptr, path, len) == 0 &&
           (target.len == len || target.ptr[len] == '/' || target.ptr[len] == '?');
}

static void route(struct http_door *door, struct weir_slice peer, struct http_response *response)
{
    const struct wr_http_request *request = &door->request;
    struct weir_slice path = request->target;
    const char *query = memchr(path.ptr, '?', path.len);

    if (is_auth(request->target)) { /* any method: it is the proxied request's */
        http_auth(door, peer, request, response);
        return;
    }
    if (query != NULL)
        path.len = (size_t)(query - path.ptr);
    if (is(path, "/json")) { /* any method, as the reference */
        http_json(door, peer, request, response);
        return;
    }
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const struct route *r = &routes[i];
        if (!is(path, r->path))
            continue;
        if (r->post ? is(request->method, "POST")
                    : is(request->method, "GET") || is(request->method, "HEAD")) {
            r->handler(door, peer, request, response);
            return;
        }
        http_problem(door, response, 405, "this path has other methods: see Allow",
                     (struct weir_slice){NULL, 0});
        http_add_field(response, "Allow", (struct weir_slice){r->allow, strlen(r->allow)});
        return;
    }
    http_problem(door, response, 404, "no such path; /v1/openapi.json says what there is",
                 (struct weir_slice){NULL, 0});
}

/* ---- connections -------------------------------------------------------------------------- */

static void refuse(struct http_conn *c)
{
    struct http_door *door = c->door;
    struct http_response response;

    door->request.method = (struct weir_slice){"", 0};
    door->request.keep_alive = false;
    door->request.http10 = false;
    http_problem(door, &response, c->parser.status, c->parser.error, (struct weir_slice){NULL, 0});
    (void)respond(c, &response);
}

/* The request that was read. False: the connection is to end. */
static bool answer(struct http_conn *c)
{
    struct http_response response = {.status = 500};

    learn_policy(c->door);
    route(c->door, c->peer, &response);
    return respond(c, &response);
}

/* A request has been answered; the next one's time begins. */
static uint64_t count(struct http_door *door, uint64_t since)
{
    uint64_t now = uv_hrtime();

    wr_metrics_request(&door->loop->metrics, WR_DOOR_HTTP, (int64_t)(now - since));
    return now;
}

static int64_t on_read(void *context, const uint8_t *bytes, size_t len)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http_conn *c = context;
    struct http_door *door = c->door;
    uint64_t since = uv_hrtime();
    size_t used = 0;

    while (used < len && c->held == NULL) {
        enum wr_http_step step = wr_http_parse(&c->parser, (const char *)bytes + used, len - used,
                                               door->scratch, &door->request);
        if (step == WR_HTTP_BAD) {
            refuse(c);
            (void)count(door, since);
            return -1;
        }
        if (step == WR_HTTP_CONTINUE)
            (void)wr_conn_write(c->conn, go_on, sizeof go_on - 1);
        if (step != WR_HTTP_DONE)
            break;
        used += c->parser.consumed;
        if (!answer(c)) {
            (void)count(door, since);
            return -1;
        }
        since = count(door, since);
        if (wr_conn_unsent(c->conn) > OUTPUT_MAX)
            break; /* reading stops, and goes on from here when that has gone */
    }
    return (int64_t)used;
}

static void on_closed(void *context)
{
    struct http_conn *c = context;

    if (c->held != NULL)
        http_held_abandon(c->held);
    free(c);
}

static void *on_accept(void *context, struct wr_conn *conn)
{
    struct http_conn *c = calloc(1, sizeof *c);
    const char *peer = wr_conn_peer(conn);

    if (c == NULL)
        return NULL;
    c->door = context;
    c->conn = conn;
    if (peer[0] == '\0')
        peer = "127.0.0.1"; /* through a unix socket: a process of this host */
    c->peer = (struct weir_slice){peer, strlen(peer)};
    return c;
}

static const struct wr_conn_events events = {on_read, NULL, on_closed};

/* ---- the door ----------------------------------------------------------------------------- */

static void free_door(struct http_door *door)
{
    free(door->scratch);
    free(door->decoded);
    free(door->requests);
    free(door->fields);
    free(door->body);
    free(door->json);
    free(door);
}

static struct http_door *new_door(struct wr_loop *loop)
{
    struct http_door *door = calloc(1, sizeof *door);

    if (door == NULL)
        return NULL;
    door->loop = loop;
    door->scratch = malloc(WR_HTTP_BODY_MAX);
    door->decoded = malloc(WR_HTTP_BODY_MAX);
    door->requests = calloc(WR_CHECK_BATCH_MAX, sizeof *door->requests);
    door->body = malloc(BODY_BYTES);
    door->body_room = BODY_BYTES;
    door->json = http_json_new();
    if (door->scratch != NULL && door->decoded != NULL && door->requests != NULL &&
        door->body != NULL && door->json != NULL)
        return door;
    free_door(door);
    return NULL;
}

static int http_open(struct wr_loop *loop, int fd, const struct wr_listener *listener, void **out)
{
    static const unsigned char alpn[] = "\x08http/1.1";
    struct http_door *door = new_door(loop);
    struct wr_acceptor_options options = {.accept = on_accept,
                                          .door = door,
                                          .events = &events,
                                          .limits = {.input_max = WR_HTTP_INPUT_MAX,
                                                     .output_max = OUTPUT_MAX,
                                                     .idle_ns = IDLE_NS,
                                                     .message_ns = MESSAGE_NS,
                                                     .write_ns = WRITE_NS,
                                                     .handshake_ns = HANDSHAKE_NS},
                                          .metrics = WR_DOOR_HTTP,
                                          .alpn = alpn,
                                          .alpn_len = sizeof alpn - 1};
    int result;

    *out = NULL;
    if (door == NULL) {
        (void)close(fd);
        return WEIR_ENOMEM;
    }
    result = wr_acceptor_open(&door->acceptor, loop, fd, listener, &options);
    if (result != 0) {
        free_door(door);
        return result;
    }
    *out = door;
    return 0;
}

/* Idle ones end now, the others with their answer. */
static void drain_one(void *context, struct wr_conn *conn)
{
    struct http_conn *c = context;

    if (c->held == NULL && c->parser.scanned == 0)
        wr_conn_close(conn);
}

static void http_drain(void *context)
{
    struct http_door *door = context;

    door->draining = true;
    wr_acceptor_stop(door->acceptor);
    wr_acceptor_each(door->acceptor, drain_one);
}

static unsigned http_connections(const void *context)
{
    const struct http_door *door = context;

    return wr_acceptor_connections(door->acceptor);
}

static void http_close(void *context)
{
    struct http_door *door = context;

    wr_acceptor_close(door->acceptor);
    free_door(door);
}

const struct wr_door wr_door_http = {"http", http_open, http_drain, http_connections, http_close};
