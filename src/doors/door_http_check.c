/* door_http_check.c - /v1/check, /v1/reserve, /v1/settle, /v1/release: JSON in, JSON out.
 *
 * Invariants: a body is read whole before anything is decided, so that an error charges nobody; one
 * body's requests are decided in order, at one moment, or, where a store is asked, all of them
 * before any is answered. More than HTTP_BATCH of them are http_batch.c's. */
#include <string.h>

#include "base/units.h"
#include "doors/door_http.h"
#include "lib/handle.h"
#include "policy/rate.h"
#include "serve/broker.h"
#include "serve/reservations.h"

#define TTL_MAX_NS (24 * WR_NS_PER_HOUR)

_Static_assert(HTTP_BODY_BYTES >= WR_CHECK_ANSWER_MAX, "one answer always has room");

static const struct weir_slice nothing = {NULL, 0};

static int find_plan(const void *context, struct weir_slice name)
{
    return weir_plan_find(context, name);
}

bool http_questions_read(struct http_questions *questions, enum wr_check_form form,
                         struct weir_slice body, struct wr_check_reader *reader)
{
    *reader = (struct wr_check_reader){.form = form,
                                       .field_count = questions->policy->field_count,
                                       .field_names = questions->policy->names,
                                       .field_kinds = questions->policy->kinds,
                                       .find_plan = find_plan,
                                       .context = questions->handle->weir,
                                       .scratch = questions->decoded,
                                       .requests = questions->request,
                                       .fields = questions->fields};
    if (!wr_check_read(reader, body))
        return false;
    questions->count = reader->count;
    return true;
}

/* Into the door's scratch memory. */
static bool read_body(struct http_door *door, const struct wr_http_request *request,
                      struct http_questions *questions, struct wr_check_reader *reader,
                      enum wr_check_form form, struct http_response *response)
{
    size_t most = form == WR_CHECK_FORM && request->body.len > 0 &&
                          memchr(request->body.ptr, '[', request->body.len) != NULL
                      ? WR_CHECK_BATCH_MAX
                      : 1;

    if (http_refuses_encoded(&door->service, request, response))
        return false;
    if (!http_fields_room(door, most)) {
        http_problem(&door->service, response, 503, "out of memory", nothing);
        return false;
    }
    *questions = (struct http_questions){.loop = door->service.loop,
                                         .handle = door->service.loop->handle,
                                         .policy = &door->policy,
                                         .asks = door->service.asks,
                                         .request = door->requests,
                                         .fields = door->fields,
                                         .decoded = door->decoded,
                                         .answers = door->answers,
                                         .now_ns = wr_loop_now(door->service.loop)};
    if (http_questions_read(questions, form, request->body, reader))
        return true;
    http_body_problem(&door->service, response, reader->error,
                      (struct weir_slice){reader->member, reader->member_len}, reader->offset);
    return false;
}

/* ---- answers ------------------------------------------------------------------------------ */

/* Write |answer| (NULL: not counted) to |out|. Returns its length. */
static size_t tell(const struct http_questions *questions, const struct weir_answer *answer,
                   struct wr_check_told *told, char *out)
{
    struct weir *w = questions->handle->weir;

    told->answer = answer;
    told->plan = NULL;
    if (answer != NULL) {
        told->spoken = wr_answer_spoken(answer);
        if (questions->policy->has_plans)
            told->plan = weir_plan_name(w, answer->plan);
        for (unsigned i = 0; i < answer->count; i++) {
            int64_t next_ns;
            told->names[i] = weir_limit_name(w, answer->verdicts[i].limit);
            weir_verdict_times(w, &answer->verdicts[i], answer->decided_ns, &next_ns,
                               &told->reset_ns[i]);
        }
    }
    return wr_check_write(told, out);
}

static void answer_json(struct http_door *door, struct http_response *response, size_t len)
{
    *response = (struct http_response){
        .status = 200, .type = "application/json", .body = {door->service.body, len}};
}

/* ---- check -------------------------------------------------------------------------------- */

static bool is_uncounted(const struct http_questions *questions, const struct weir_request *request)
{
    return questions->policy->answers.skip_options && request->method.len == 7 &&
           memcmp(request->method.ptr, "OPTIONS", 7) == 0;
}

static_assert(HTTP_BATCH <= WR_ASKS_BATCH, "a batch is asked for at once");

/* How many of the next |left| are decided together: up to one that is not counted. */
static size_t run_length(const struct http_questions *questions, size_t left)
{
    size_t n = 0;

    while (n < left && n < HTTP_BATCH &&
           !is_uncounted(questions, &questions->request[questions->told + n]))
        n++;
    return n;
}

/* Have all decided. False: the store is asked. */
static bool ask_all(struct http_questions *questions)
{
    struct wr_asks *asks = questions->asks;
    bool there = true;

    questions->decided = run_length(questions, questions->count) == questions->count;
    if (questions->decided)
        return wr_asks_decide_all(asks, questions->request, questions->count, questions->answers);
    asks->keep = true;
    for (size_t i = 0; i < questions->count; i++)
        if (!is_uncounted(questions, &questions->request[i]))
            there = wr_asks_decide(asks, &questions->request[i], questions->answers) && there;
    asks->keep = false;
    wr_asks_again(asks);
    return there;
}

static void decide_some(const struct http_questions *questions, size_t n)
{
    if (questions->asks == NULL)
        (void)weir_decide_batch(questions->handle->weir, &questions->request[questions->told], n,
                                questions->now_ns, questions->answers);
    else
        for (size_t i = 0; i < n; i++)
            (void)wr_asks_next(questions->asks, &questions->answers[i]);
}

size_t http_questions_tell(struct http_questions *questions, char *out)
{
    struct wr_check_told told = {.answer = NULL};
    size_t left = questions->count - questions->told;
    size_t n = run_length(questions, left), end = n > 0 ? n : left > 0, len = 0;

    if (n > 0 && !questions->decided)
        decide_some(questions, n);
    for (size_t k = 0; k < end; k++) {
        const struct weir_answer *answer = n > 0 ? &questions->answers[k] : NULL;
        if (questions->told > 0)
            out[len++] = ',';
        /* Of a policy that is no longer in force nobody counts any more. */
        if (answer != NULL && questions->handle == questions->loop->handle)
            wr_refused_answer(questions->loop, WR_DOOR_HTTP, &questions->request[questions->told],
                              answer);
        len += tell(questions, answer, &told, out + len);
        questions->told++;
    }
    return len;
}

void http_check(struct http_service *service, struct weir_slice peer,
                const struct wr_http_request *request, struct http_response *response)
{
    struct http_door *door = http_door_of(service);
    struct http_questions questions;
    struct wr_check_reader reader;
    size_t len = 0;

    (void)peer;
    if (http_batch_done(door, response) ||
        !read_body(door, request, &questions, &reader, WR_CHECK_FORM, response))
        return;
    if (!wr_asks_shares(service->loop)) {
        questions.asks = NULL;
    } else if (!ask_all(&questions)) {
        response->waits = true;
        return;
    }
    if (reader.count > HTTP_BATCH) {
        http_batch(door, request->body, reader.count, response);
        return;
    }
    if (!http_body_room(service, response, reader.count * (WR_CHECK_ANSWER_MAX + 1) + 2))
        return;
    if (reader.array)
        service->body[len++] = '[';
    while (questions.told < questions.count)
        len += http_questions_tell(&questions, service->body + len);
    if (reader.array)
        service->body[len++] = ']';
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

/* A cost of 0 only looks: nothing is remembered that a settlement could be counted in. */
static bool holds_something(struct http_door *door, struct http_response *response)
{
    static const struct weir_slice cost = {"cost", 4};

    if (door->requests[0].cost_units != 0)
        return true;
    http_problem(&door->service, response, 400,
                 "expected an estimate of at least 1: what is reserved with a cost of 0 could not "
                 "be settled",
                 cost);
    return false;
}

void http_reserve(struct http_service *service, struct weir_slice peer,
                  const struct wr_http_request *request, struct http_response *response)
{
    struct http_door *door = http_door_of(service);
    struct wr_handle *handle = door->service.loop->handle;
    struct weir_answer *answer = &door->answers[0];
    struct wr_check_told told = {.reservation = true};
    struct http_questions questions;
    struct wr_check_reader reader;
    char id[WR_RESERVATION_ID + 1];
    int64_t ttl_ns;

    if (!read_body(door, request, &questions, &reader, WR_RESERVE_FORM, response) ||
        !read_ttl(door, &reader, &ttl_ns, response) || !holds_something(door, response))
        return;
    if (!wr_asks_reserve(service->asks, door->requests, answer)) {
        response->waits = true;
        return;
    }
    if (answer->outcome != WEIR_DENY) {
        answer->expires_ns = answer->decided_ns + ttl_ns;
        if (wr_reservations_put(wr_server_reservations(door->service.loop->server), handle, answer,
                                answer->expires_ns, peer.ptr, id) != 0) {
            wr_broker_give_back(service->loop, handle, answer); /* nobody could settle it */
            http_problem(&door->service, response, 503, "too many reservations are open", nothing);
            http_add_field(response, "Retry-After", (struct weir_slice){"1", 1});
            return;
        }
        told.id = id;
    }
    wr_refused_answer(door->service.loop, WR_DOOR_HTTP, door->requests, answer);
    answer_json(door, response, tell(&questions, answer, &told, service->body));
}

static void end_reservation(struct http_door *door, const struct wr_http_request *request,
                            enum wr_check_form form, struct http_response *response)
{
    static const char settled[] = "{\"settled\":true}", released[] = "{\"released\":true}";
    struct wr_reservations *table = wr_server_reservations(door->service.loop->server);
    struct http_questions questions;
    struct wr_check_reader reader;
    char id[WR_RESERVATION_ID + 1] = "";
    int64_t now = wr_loop_now(door->service.loop);
    int result;

    if (!read_body(door, request, &questions, &reader, form, response))
        return;
    if (reader.id.len == WR_RESERVATION_ID)
        memcpy(id, reader.id.ptr, WR_RESERVATION_ID);
    if (reader.status != 0 && (reader.status < 100 || reader.status > 599)) {
        http_problem(&door->service, response, 400, "expected a status from 100 to 599",
                     (struct weir_slice){"status", 6});
        return;
    }
    result = form == WR_SETTLE_FORM
                 ? wr_reservations_settle(table, door->service.loop, id,
                                          door->requests[0].cost_units, (int)reader.status, now)
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
