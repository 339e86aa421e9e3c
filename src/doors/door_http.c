/* door_http.c - the HTTP door: its paths, and the memory that their handlers share.
 *
 * The idea. http_service.c speaks HTTP; a row of the table below answers each path as a function of
 * the request, on one set of buffers a door. */
#include "doors/door_http.h"
#include "doors/doors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doors/openapi.h"

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

static void openapi(struct http_service *service, struct weir_slice peer,
                    const struct wr_http_request *request, struct http_response *response)
{
    (void)service;
    (void)peer;
    (void)request;
    *response = (struct http_response){
        .status = 200, .type = "application/json", .body = {wr_openapi, wr_openapi_len}};
}

/* clang-format off: a row each */
static const struct http_route rows[] = {
    {"POST", "/v1/check", http_check, NULL},   {"POST", "/v1/reserve", http_reserve, NULL},
    {"POST", "/v1/settle", http_settle, NULL}, {"POST", "/v1/release", http_release, NULL},
    {"GET", "/v1/usage", http_usage, ""},      {"GET", "/v1/openapi.json", openapi, NULL},
};
/* clang-format on */
static const struct http_routes routes = {rows, sizeof rows / sizeof *rows,
                                          "no such path; /v1/openapi.json says what there is"};

static bool is_auth(struct weir_slice target)
{
    static const char path[] = "/v1/auth";
    size_t len = sizeof path - 1;

    return target.len >= len && memcmp(target.ptr, path, len) == 0 &&
           (target.len == len || target.ptr[len] == '/' || target.ptr[len] == '?');
}

static void answer(struct http_service *service, struct weir_slice peer,
                   const struct wr_http_request *request, struct http_response *response)
{
    http_policy_learn(&http_door_of(service)->policy, service->loop->handle);
    if (is_auth(request->target)) /* any method: it is the proxied request's */
        http_auth(service, peer, request, response);
    else if (http_is(http_path(request), "/json")) /* any method, as the reference */
        http_json(service, peer, request, response);
    else
        http_route(&routes, service, peer, response);
}

/* ---- the door ----------------------------------------------------------------------------- */

static void abandoned(struct http_service *service, const struct wr_asks *asks)
{
    struct http_door *door = http_door_of(service);

    http_batches_abandon(door->batches, asks);
    http_jobs_abandon(&door->jobs, asks);
}

static void free_door(struct http_door *door)
{
    if (door != NULL) {
        http_jobs_free(&door->jobs);
        free(door->decoded);
        free(door->requests);
        free(door->fields);
        free(door->json);
        http_batches_free(door->batches);
    }
    free(door);
}

static struct http_door *new_door(struct wr_loop *loop)
{
    struct http_door *door = calloc(1, sizeof *door);

    if (door == NULL)
        return NULL;
    door->service.loop = loop;
    door->service.id = WR_DOOR_HTTP;
    door->service.answer = answer;
    door->service.abandoned = abandoned;
    door->decoded = malloc(WR_HTTP_BODY_MAX);
    door->requests = calloc(WR_CHECK_BATCH_MAX, sizeof *door->requests);
    door->json = http_json_new();
    door->batches = http_batches_new(door);
    if (door->decoded != NULL && door->requests != NULL && door->json != NULL &&
        door->batches != NULL)
        return door;
    free_door(door);
    return NULL;
}

static int http_open(struct wr_loop *loop, int fd, const struct wr_listener *listener, void **out)
{
    struct http_door *door = new_door(loop);
    int result = WEIR_ENOMEM;

    *out = NULL;
    if (door == NULL)
        (void)close(fd);
    else
        result = http_service_open(&door->service, fd, listener);
    if (result != 0)
        free_door(door);
    else
        *out = door;
    return result;
}

static void http_drain(void *context)
{
    http_service_drain(&((struct http_door *)context)->service);
}

static unsigned http_connections(const void *context)
{
    return http_service_connections(&((const struct http_door *)context)->service);
}

static void http_close(void *context)
{
    struct http_door *door = context;

    http_service_close(&door->service);
    free_door(door);
}

const struct wr_door wr_door_http = {"http", http_open, http_drain, http_connections, http_close};
