/* door_http_check.c - /v1/check, /v1/reserve, /v1/settle, /v1/release: JSON in, JSON out.
 *
 * Invariants: a body is read whole before anything is decided, so that an error charges nobody; one
 * body's requests are decided in order, at one moment, or, where a store is asked, all of them
 * before any is answered. */
#include <string.h>

#include "base/units.h"
#include "lib/handle.h"
#include "policy/rate.h"
#include "serve/broker.h"
#include "serve/door_http.h"
#include "serve/reservations.h"

#define TTL_MAX_NS (24 * WR_NS_PER_HOUR)

_Static_assert(HTTP_BODY_BYTES >= WR_CHECK_ANSWER_MAX, "one answer always has room");

static const struct weir_slice nothing = {NULL, 0};

static int find_plan(const void *context, struct weir_slice name)
{
    return weir_plan_find(context, name);
}

static bool read_body(struct http_door *door, const struct wr_http_request *request,
                      struct wr_check_reader *reader, enum wr_check_form form,
                      struct http_response *response)
{
    size_t most = form == WR_CHECK_FORM && request->body.len > 0 &&
                          memchr(request->body.ptr, '[', request->body.len) != NULL
                      ? WR_CHECK_BATCH_MAX
                      : 1;

    if (!http_fields_room(door, most)) {
        http_problem(&door->service, response, 503, "out of memory", nothing);
        return false;
    }
    *reader = (struct wr_check_reader){.form = form,
                                       .field_count = door->policy.field_count,
                                       .field_names = door->policy.names,
                                       .field_kinds = door->policy.kinds,
                                       .find_plan = find_plan,
                                       .context = door->service.loop->handle->weir,
                                       .scratch = door->decoded,
                                       .requests = door->requests,
                                       .fields = door->fields};
    if (wr_check_read(reader, request->body))
        return true;
    http_problem(&door->service, response, 400, reader->error,
                 (struct weir_slice){reader->member, reader->member_len});
    return false;
}

/* ---- answers ------------------------------------------------------------------------------ */

/* Write |answer| (NULL: not counted) at door->service.body + |at|. Returns its length. */
static size_t tell(struct http_door *door, const struct weir_answer *answer,
                   struct wr_check_told *told, size_t at)
{
    struct weir *w = door->service.loop->handle->weir;

    told->answer = answer;
    told->plan = NULL;
    if (answer != NULL) {
        told->spoken = wr_answer_spoken(answer);
        if (door->policy.has_plans)
            told->plan = weir_plan_name(w, answer->plan);
        for (unsigned i = 0; i < answer->count; i++) {
            int64_t next_ns;
            told->names[i] = weir_limit_name(w, answer->verdicts[i].limit);
            weir_verdict_times(w, &answer->verdicts[i], answer->decided_ns, &next_ns,
                               &told->reset_ns[i]);
        }
    }
    return wr_check_write(told, door->service.body + at);
}

static void answer_json(struct http_door *door, struct http_response *response, size_t len)
{
    *response = (struct http_response){
        .status = 200, .type = "application/json", .body = {door->service.body, len}};
}

/* ---- check -------------------------------------------------------------------------------- */

static bool is_uncounted(const struct http_door *door, const struct weir_request *request)
{
    return door->policy.answers.skip_options && request->method.len == 7 &&
           memcmp(request->method.ptr, "OPTIONS", 7) == 0;
}

/* How many requests from |requests| on are decided together: up to one that is not counted. */
static size_t run_length(const struct http_door *door, const struct weir_request *requests,
                         size_t left)
{
    size_t n = 0;

    while (n < left && n < HTTP_BATCH && !is_uncounted(door, &requests[n]))
        n++;
    return n;
}

/* Have all |count| requests decided. False: the store is asked. */
static bool ask_all(struct http_door *door, size_t count)
{
    struct wr_asks *asks = door->service.asks;
    bool there = true;

    asks->keep = true;
    for (size_t i = 0; i < count; i++)
        if (!is_uncounted(door, &door->requests[i]))
            there = wr_asks_decide(asks, &door->requests[i], &door->answers[0]) && there;
    asks->keep = false;
    wr_asks_again(asks);
    return there;
}

static void decide_some(struct http_door *door, const struct weir_request *requests, size_t n)
{
    struct wr_loop *loop = door->service.loop;

    if (!wr_asks_shares(loop)) {
        (void)weir_decide_batch(loop->handle->weir, requests, n, wr_loop_now(loop), door->answers);
        return;
    }
    for (size_t i = 0; i < n; i++)
        (void)wr_asks_decide(door->service.asks, &requests[i], &door->answers[i]);
}

/* Decide the requests that were read and write what is told of them, a comma between. Returns the
 * length at door->service.body; 0: out of memory. */
static size_t decide_all(struct http_door *door, size_t count, size_t at,
                         struct http_response *response)
{
    struct wr_check_told told = {.answer = NULL};

    for (size_t i = 0; i < count;) {
        size_t n = run_length(door, door->requests + i, count - i);
        size_t end = n > 0 ? n : 1;
        if (!http_body_room(&door->service, response, at + end * (WR_CHECK_ANSWER_MAX + 1) + 1))
            return 0;
        if (n > 0)
            decide_some(door, door->requests + i, n);
        for (size_t k = 0; k < end; k++) {
            if (i + k > 0)
                door->service.body[at++] = ',';
            if (n > 0)
                wr_refused_answer(door->service.loop, WR_DOOR_HTTP, &door->requests[i + k],
                                  &door->answers[k]);
            at += tell(door, n > 0 ? &door->answers[k] : NULL, &told, at);
        }
        i += end;
    }
    return at;
}

void http_check(struct http_service *service, struct weir_slice peer,
                const struct wr_http_request *request, struct http_response *response)
{
    struct http_door *door = http_door_of(service);
    struct wr_check_reader reader;
    size_t len;

    (void)peer;
    if (!read_body(door, request, &reader, WR_CHECK_FORM, response))
        return;
    if (wr_asks_shares(service->loop) && !ask_all(door, reader.count)) {
        response->waits = true;
        return;
    }
    if (reader.array)
        door->service.body[0] = '[';
    len = decide_all(door, reader.count, reader.array ? 1 : 0, response);
    if (len == 0)
        return;
    if (reader.array)
        door->service.body[len++] = ']';
    answer_json(door, response, len);
}

/* ---- reservations ------------------------------------------------------------------------- */

static bool read_ttl(struct http_door *door, const struct wr_check_reader *reader, int64_t *ttl_ns,
                     struct http_response *response)
{
    static const struct weir_slice ttl = {"ttl", 3};
    size_t at;

    *ttl_ns = reader->ttl_s <= TTL_MAX_NS / WR_NS_PER_S ? reader->ttl_s * WR_NS_PER_S : -1;
    if (reader->ttl.ptr != NULL && wr_duration_parse(reader->ttl, ttl_ns, &at) != NULL)
        http_problem(&door->service, response, 400,
                     "expected a duration: \"30s\", or a number of seconds", ttl);
    else if (*ttl_ns <= 0 || *ttl_ns > TTL_MAX_NS)
        http_problem(&door->service, response, 400, "expected more than 0 and at most a day", ttl);
    else
        return true;
    return false;
}

void http_reserve(struct http_service *service, struct weir_slice peer,
                  const struct wr_http_request *request, struct http_response *response)
{
    struct http_door *door = http_door_of(service);
    struct wr_handle *handle = door->service.loop->handle;
    struct weir_answer *answer = &door->answers[0];
    struct wr_check_told told = {.reservation = true};
    struct wr_check_reader reader;
    char id[WR_RESERVATION_ID + 1];
    int64_t ttl_ns;

    (void)peer;
    if (!read_body(door, request, &reader, WR_RESERVE_FORM, response) ||
        !read_ttl(door, &reader, &ttl_ns, response))
        return;
    if (!wr_asks_reserve(service->asks, door->requests, answer)) {
        response->waits = true;
        return;
    }
    if (answer->outcome != WEIR_DENY) {
        answer->expires_ns = answer->decided_ns + ttl_ns;
        if (wr_reservations_put(wr_server_reservations(door->service.loop->server), handle, answer,
                                answer->expires_ns, id) != 0) {
            wr_broker_give_back(service->loop, handle, answer); /* nobody could settle it */
            http_problem(&door->service, response, 503, "too many reservations are open", nothing);
            http_add_field(response, "Retry-After", (struct weir_slice){"1", 1});
            return;
        }
        told.id = id;
    }
    wr_refused_answer(door->service.loop, WR_DOOR_HTTP, door->requests, answer);
    answer_json(door, response, tell(door, answer, &told, 0));
}

static void end_reservation(struct http_door *door, const struct wr_http_request *request,
                            enum wr_check_form form, struct http_response *response)
{
    static const char settled[] = "{\"settled\":true}", released[] = "{\"released\":true}";
    struct wr_reservations *table = wr_server_reservations(door->service.loop->server);
    struct wr_check_reader reader;
    char id[WR_RESERVATION_ID + 1] = "";
    int64_t now = wr_loop_now(door->service.loop);
    int result;

    if (!read_body(door, request, &reader, form, response))
        return;
    if (reader.id.len == WR_RESERVATION_ID)
        memcpy(id, reader.id.ptr, WR_RESERVATION_ID);
    result = form == WR_SETTLE_FORM ? wr_reservations_settle(table, door->service.loop, id,
                                                             door->requests[0].cost_units, now)
                                    : wr_reservations_release(table, door->service.loop, id, now);
    if (result == WEIR_EEXPIRED)
        http_problem(&door->service, response, 410,
                     "the reservation has expired or has been ended before",
                     (struct weir_slice){"id", 2});
    else if (result != 0)
        http_problem(&door->service, response, 404, "no such reservation",
                     (struct weir_slice){"id", 2});
    else
        *response = (struct http_response){
            .status = 200,
            .type = "application/json",
            .body = form == WR_SETTLE_FORM ? (struct weir_slice){settled, sizeof settled - 1}
                                           : (struct weir_slice){released, sizeof released - 1}};
}

void http_settle(struct http_service *service, struct weir_slice peer,
                 const struct wr_http_request *request, struct http_response *response)
{
    struct http_door *door = http_door_of(service);
    (void)peer;
    end_reservation(door, request, WR_SETTLE_FORM, response);
}

void http_release(struct http_service *service, struct weir_slice peer,
                  const struct wr_http_request *request, struct http_response *response)
{
    struct http_door *door = http_door_of(service);
    (void)peer;
    end_reservation(door, request, WR_RELEASE_FORM, response);
}
