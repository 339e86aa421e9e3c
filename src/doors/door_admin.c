/* door_admin.c - the admin door: its paths, its key, and whether the daemon lives and serves.
 *
 * The idea. http_service.c speaks HTTP, a row of the table below answers each path. The door is on
 * the first loop alone and closes last, so that /readyz can say "draining".
 *
 * Invariants:
 *   1. With a token in force, whoever does not show it hears of nothing but /healthz: not even
 *      which paths there are. Without one, a browser cannot be made to ask for another site.
 *   2. Nothing here takes from a limit. */
#include "doors/door_admin.h"
#include "doors/doors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doors/bearer.h"
#include "doors/openapi.h"
#include "doors/origin.h"
#include "lib/handle.h"
#include "serve/clock_watch.h"
#include "serve/keeping.h"
#include "serve/store_state.h"

#define DETAIL_BYTES 2000U

static const struct weir_slice nothing = {NULL, 0};

void admin_page(struct admin_door *door, struct http_response *response, int status,
                const char *type)
{
    *response =
        (struct http_response){.status = status, .type = type, .body = wr_page_text(&door->page)};
    if (door->page.full)
        http_problem(&door->service, response, 503, "out of memory", nothing);
}

/* ---- is it there, and does it serve? ------------------------------------------------------- */

static void healthz(struct http_service *service, struct weir_slice peer,
                    const struct wr_http_request *request, struct http_response *response)
{
    static const char ok[] = "ok\n";

    (void)service;
    (void)peer;
    (void)request;
    *response = (struct http_response){
        .status = 200, .type = "text/plain; charset=utf-8", .body = {ok, sizeof ok - 1}};
}

/* Decisions go on without the ledger: it is said, and is no reason not to be ready. */
static void add_ledger(struct wr_server *server, char detail[DETAIL_BYTES])
{
    struct wr_keeper_state ledger;
    size_t len = strlen(detail);

    if (!wr_keeping_state(server, &ledger))
        return;
    if (ledger.left_out > 0) {
        (void)snprintf(
            detail + len, DETAIL_BYTES - len,
            ", customers.map is full, or a file of usage: some customers or keys are not "
            "known, or not in the ledger");
        len = strlen(detail);
    }
    if (ledger.damaged > 0) {
        (void)snprintf(detail + len, DETAIL_BYTES - len,
                       ", %" PRIu64 " cells of usage cannot be right, the first: %s",
                       ledger.damaged, ledger.damage);
        len = strlen(detail);
    }
    if (ledger.astray > 0) {
        (void)snprintf(
            detail + len, DETAIL_BYTES - len,
            ", %s while it is counted in: customers may have their quotas twice, restart "
            "weir",
            ledger.stray);
        len = strlen(detail);
    }
    if (ledger.disk == WR_DISK_WELL)
        return;
    (void)snprintf(detail + len, DETAIL_BYTES - len, ", the ledger cannot be written: %s: %s",
                   wr_disk_name(ledger.disk), ledger.detail);
}

/* Likewise. */
static void add_clock(const struct wr_handle *handle, char detail[DETAIL_BYTES])
{
    size_t len = strlen(detail);
    char text[WR_CLOCK_TEXT_BYTES];

    wr_clock_apart_text(wr_arena_wall_ahead_ns(handle->weir->arena), text, sizeof text);
    if (text[0] != '\0')
        (void)snprintf(detail + len, DETAIL_BYTES - len, ", %s", text);
}

static void readyz(struct http_service *service, struct weir_slice peer,
                   const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    struct wr_page *page = &door->page;
    char detail[DETAIL_BYTES];
    bool ready = wr_server_ready(service->loop->server, detail, sizeof detail);
    char store[WR_STORE_DETAIL_BYTES];
    uint64_t good, refused;

    (void)peer;
    (void)request;
    wr_server_reloads(service->loop->server, &good, &refused);
    wr_page_open(page, '{');
    wr_page_key(page, "ready");
    wr_page_bool(page, ready);
    wr_page_key(page, "detail");
    if (detail[0] == '\0')
        (void)snprintf(detail, sizeof detail, "serving");
    if (ready &&
        wr_store_state_gone(wr_server_store_state(service->loop->server), store, sizeof store)) {
        size_t len = strlen(detail);
        (void)snprintf(detail + len, sizeof detail - len, ", the store is gone: %s", store);
    }
    if (ready) {
        add_ledger(service->loop->server, detail);
        add_clock(service->loop->handle, detail);
    }
    wr_page_name(page, detail);
    wr_page_key(page, "generation");
    wr_page_uint(page, service->loop->handle->generation);
    wr_page_key(page, "reloads");
    wr_page_uint(page, good);
    wr_page_key(page, "reloads_refused");
    wr_page_uint(page, refused);
    wr_page_close(page, '}');
    admin_page(door, response, ready ? 200 : 503, "application/json");
}

static void openapi(struct http_service *service, struct weir_slice peer,
                    const struct wr_http_request *request, struct http_response *response)
{
    (void)service;
    (void)peer;
    (void)request;
    *response = (struct http_response){.status = 200,
                                       .type = "application/json",
                                       .body = {wr_openapi_admin, wr_openapi_admin_len}};
}

/* ---- routing ------------------------------------------------------------------------------ */

/* What monitoring asks (NULL) may bring parameters of its own. */
/* clang-format off: a row each */
static const struct http_route rows[] = {
    {"GET", "/healthz", healthz, NULL},
    {"GET", "/readyz", readyz, NULL},
    {"GET", "/metrics", admin_metrics, NULL},
    {"GET", "/v1/limits", admin_limits, ""},
    {"POST", "/v1/explain", admin_explain, ""},
    {"POST", "/v1/explain/envoy", admin_explain_envoy, ""},
    {"GET", "/v1/keys", admin_key_get, "limit by* key plan"},
    {"DELETE", "/v1/keys", admin_key_delete, "limit by* key plan"},
    {"GET", "/v1/keys/envoy", admin_key_envoy_get, "domain entry*"},
    {"DELETE", "/v1/keys/envoy", admin_key_envoy_delete, "domain entry*"},
    {"GET", "/v1/bans", admin_bans_get, ""},
    {"POST", "/v1/bans", admin_bans_post, ""},
    {"DELETE", "/v1/bans", admin_bans_delete, "id by"},
    {"GET", "/v1/customers", admin_customers_get, "name after? plan tenant limit"},
    {"POST", "/v1/customers", admin_customers_post, ""},
    {"PATCH", "/v1/customers", admin_customers_patch, "name"},
    {"DELETE", "/v1/customers", admin_customers_delete, "name"},
    {"POST", "/v1/customers/keys", admin_customer_keys_post, "name"},
    {"DELETE", "/v1/customers/keys", admin_customer_keys_delete, "name id"},
    {"GET", "/v1/usage", admin_usage, "name month from to by over quota tenant limit format"},
    {"GET", "/v1/alerts", admin_alerts_get, "name state after? limit"},
    {"POST", "/v1/alerts/retry", admin_alerts_retry, "event"},
    {"GET", "/v1/openapi.json", openapi, ""},
};
/* clang-format on */
static const struct http_routes routes = {rows, sizeof rows / sizeof *rows,
                                          "no such path; /v1/openapi.json says what there is"};

static void refuse(struct http_service *service, enum wr_bearer bearer,
                   struct http_response *response)
{
    static const char missing[] = "Bearer realm=\"weir admin\"";
    static const char wrong[] = "Bearer realm=\"weir admin\", error=\"invalid_token\"";

    http_problem(service, response, 401,
                 bearer == WR_BEARER_WRONG
                     ? "not the token in force"
                     : "expected one field Authorization: Bearer and the admin token",
                 nothing);
    http_add_field(response, "WWW-Authenticate",
                   bearer == WR_BEARER_WRONG ? (struct weir_slice){wrong, sizeof wrong - 1}
                                             : (struct weir_slice){missing, sizeof missing - 1});
}

static void answer(struct http_service *service, struct weir_slice peer,
                   const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    const char *token = service->loop->handle->admin_token;
    enum wr_bearer bearer = WR_BEARER_GOOD;
    bool open = http_is(http_path(request), "/healthz");

    if (token != NULL && !open)
        bearer = wr_bearer_look(request, token);
    if (token == NULL && !open && !door->is_unix && !wr_origin_is_own(request)) {
        http_problem(service, response, 403,
                     "without an admin_token only localhost and addresses are taken as Host, and "
                     "no other site's Origin",
                     nothing);
    } else if (bearer == WR_BEARER_GOOD) {
        wr_page_clear(&door->page);
        http_policy_learn(&door->policy, service->loop->handle);
        http_route(&routes, service, peer, response);
    } else {
        refuse(service, bearer, response);
    }
    http_add_field(response, "Cache-Control", (struct weir_slice){"no-store", 8});
}

/* ---- the door ----------------------------------------------------------------------------- */

static void abandoned(struct http_service *service, const struct wr_asks *asks)
{
    http_jobs_abandon(&admin_door_of(service)->jobs, asks);
}

static void free_door(struct admin_door *door)
{
    if (door != NULL) {
        http_jobs_free(&door->jobs);
        wr_page_free(&door->page);
        wr_exposition_free(&door->metrics);
        free(door->decoded);
    }
    free(door);
}

static int admin_open(struct wr_loop *loop, int fd, const struct wr_listener *listener, void **out)
{
    struct admin_door *door = calloc(1, sizeof *door);
    int result;

    *out = NULL;
    if (door == NULL || (door->decoded = malloc(WR_HTTP_BODY_MAX)) == NULL) {
        (void)close(fd);
        free_door(door);
        return WEIR_ENOMEM;
    }
    door->service.loop = loop;
    door->service.id = WR_DOOR_ADMIN;
    door->service.answer = answer;
    door->service.abandoned = abandoned;
    door->is_unix = strncmp(listener->address, "unix:", 5) == 0; /* out of a browser's reach */
    result = http_service_open(&door->service, fd, listener);
    if (result != 0)
        free_door(door);
    else
        *out = door;
    return result;
}

static void admin_drain(void *context)
{
    http_service_drain(&((struct admin_door *)context)->service);
}

static unsigned admin_connections(const void *context)
{
    return http_service_connections(&((const struct admin_door *)context)->service);
}

static void admin_close(void *context)
{
    struct admin_door *door = context;

    http_service_close(&door->service);
    free_door(door);
}

const struct wr_door wr_door_admin = {"admin", admin_open, admin_drain, admin_connections,
                                      admin_close};
