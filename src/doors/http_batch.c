/* http_batch.c - long arrays of /v1/check, a piece a turn of the loop.
 *
 * Problem. An array of a thousand questions takes milliseconds to decide and to write down, and its
 * answer can be a hundred times as long as it is: done at once it holds up everybody else of the
 * loop, and a few hundred that nobody reads fill the memory.
 *
 * Idea. One array of a door is worked on at a time, in memory of its own, TURN_NS of each turn; the
 * others wait in line with their input unread. The answer is kept until the request is handled once
 * more (as asks.h has it), which is at once. Where too much waits to be sent already, nothing is
 * decided: 503.
 *
 * Invariants:
 *   1. An array is decided by the policy under which it was begun, at the moment of that.
 *   2. Whoever has gone is in line no more; the work on what he asked for ends.
 *   3. With nobody in line there is no memory but the door's own, and the loop sleeps. */
#include <stdlib.h>
#include <string.h>

#include "doors/door_http.h"

#define TURN_NS 1000000U        /* of work */
#define ANSWER_FIXED_BYTES 128U /* of an answer, about; and of each limit in it, with its name: */
#define ANSWER_LIMIT_BYTES 160U

struct waiting {
    struct waiting *next;
    struct wr_asks *asks;
};

struct http_batches {
    struct http_door *door;
    uv_idle_t idle;
    struct wr_asks *owner; /* whose array is worked on; NULL: nobody's */
    bool done;
    struct waiting *first, **last; /* in line */
    struct http_policy policy;     /* a copy, of questions.handle */
    struct http_questions questions;
    char *input, *body;
    size_t len, room; /* of |body| */
};

/* ---- memory ------------------------------------------------------------------------------- */

static void free_memory(struct http_batches *b)
{
    free(b->input);
    free(b->body);
    free(b->questions.request);
    free(b->questions.fields);
    free(b->questions.decoded);
    free(b->questions.answers);
    b->input = b->body = NULL;
    b->room = b->len = 0;
    b->questions = (struct http_questions){0};
}

static bool body_room(struct http_batches *b, size_t more)
{
    size_t room = b->room > 0 ? b->room : 2 * HTTP_TOLD_BYTES;
    char *larger;

    if (b->len + more <= b->room)
        return true;
    while (room < b->len + more)
        room *= 2;
    larger = realloc(b->body, room);
    if (larger == NULL)
        return false;
    b->body = larger;
    b->room = room;
    return true;
}

static bool take_memory(struct http_batches *b)
{
    struct http_questions *q = &b->questions;
    size_t fields = b->policy.field_count > 0 ? b->policy.field_count : 1;

    free_memory(b);
    b->input = malloc(WR_HTTP_BODY_MAX);
    q->request = calloc(WR_CHECK_BATCH_MAX, sizeof *q->request);
    q->fields = calloc(WR_CHECK_BATCH_MAX * fields, sizeof *q->fields);
    q->decoded = malloc(WR_HTTP_BODY_MAX);
    q->answers = calloc(HTTP_BATCH, sizeof *q->answers);
    return b->input != NULL && q->request != NULL && q->fields != NULL && q->decoded != NULL &&
           q->answers != NULL && body_room(b, HTTP_TOLD_BYTES + 2);
}

/* About what |count| answers take. */
static uint64_t estimate(const struct weir *weir, size_t count)
{
    uint64_t one = ANSWER_FIXED_BYTES;

    for (size_t i = 0; i < weir_limit_count(weir); i++)
        one += ANSWER_LIMIT_BYTES + strlen(weir_limit_name(weir, (unsigned)i));
    return count * (one < WR_CHECK_ANSWER_MAX ? one : WR_CHECK_ANSWER_MAX);
}

/* ---- the work ----------------------------------------------------------------------------- */

static void end_work(struct http_batches *b)
{
    b->owner = NULL;
    b->done = false;
    wr_handle_unref(b->questions.handle);
    free_memory(b);
}

static void work(struct http_batches *b)
{
    uint64_t until = uv_hrtime() + TURN_NS;

    while (b->questions.told < b->questions.count && uv_hrtime() < until) {
        if (!body_room(b, HTTP_TOLD_BYTES + 1)) {
            b->questions.count = 0; /* told so when it is asked for */
            break;
        }
        b->len += http_questions_tell(&b->questions, b->body + b->len);
    }
    if (b->questions.told < b->questions.count)
        return;
    b->body[b->len++] = ']';
    b->done = true;
}

/* Let the first in line handle its request once more. */
static void next_in_line(struct http_batches *b)
{
    struct waiting *waiting = b->first;
    struct wr_asks *asks = waiting->asks;

    b->first = waiting->next;
    if (b->first == NULL)
        b->last = &b->first;
    free(waiting);
    asks->resume(asks->context);
}

static void on_idle(uv_idle_t *idle)
{
    struct http_batches *b = idle->data;

    if (b->owner != NULL && !b->done)
        work(b);
    if (b->owner != NULL && b->done) {
        b->owner->resume(b->owner->context); /* takes it, or is about to end */
        if (b->owner != NULL)
            end_work(b);
    }
    if (b->owner == NULL && b->first != NULL)
        next_in_line(b);
    if (b->owner == NULL && b->first == NULL)
        (void)uv_idle_stop(idle);
}

/* ---- who asks ----------------------------------------------------------------------------- */

static void refuse(struct http_door *door, struct http_response *response)
{
    http_problem(&door->service, response, 503,
                 "too many answers wait for their clients to read them", (struct weir_slice){0});
    http_add_field(response, "Retry-After", (struct weir_slice){"1", 1});
}

static bool begin(struct http_batches *b, struct weir_slice body)
{
    struct http_service *service = &b->door->service;
    struct http_questions *q = &b->questions;
    struct wr_check_reader reader;

    b->policy = b->door->policy;
    if (!take_memory(b)) {
        free_memory(b);
        return false;
    }
    memcpy(b->input, body.ptr, body.len);
    q->loop = service->loop;
    q->handle = service->loop->handle;
    q->policy = &b->policy;
    q->asks = wr_asks_shares(service->loop) ? service->asks : NULL;
    q->now_ns = wr_loop_now(service->loop);
    if (!http_questions_read(q, WR_CHECK_FORM, (struct weir_slice){b->input, body.len}, &reader)) {
        free_memory(b); /* it was read before, so it does not come to this */
        return false;
    }
    wr_handle_ref(q->handle);
    b->body[b->len++] = '[';
    b->owner = service->asks;
    b->done = false;
    return true;
}

static bool stand_in_line(struct http_batches *b, struct wr_asks *asks)
{
    struct waiting *waiting = malloc(sizeof *waiting);

    if (waiting == NULL)
        return false;
    *waiting = (struct waiting){NULL, asks};
    *b->last = waiting;
    b->last = &waiting->next;
    return true;
}

void http_batch(struct http_door *door, struct weir_slice body, size_t count,
                struct http_response *response)
{
    struct http_batches *b = door->batches;
    struct wr_loop *loop = door->service.loop;

    if (wr_loop_crowded(loop, loop->unsent_bytes > 0 ? estimate(loop->handle->weir, count) : 0)) {
        refuse(door, response);
        return;
    }
    if (!(b->owner != NULL ? stand_in_line(b, door->service.asks) : begin(b, body))) {
        http_problem(&door->service, response, 503, "out of memory", (struct weir_slice){0});
        return;
    }
    (void)uv_idle_start(&b->idle, on_idle);
    response->waits = true;
}

bool http_batch_done(struct http_door *door, struct http_response *response)
{
    struct http_batches *b = door->batches;
    struct weir_answer given_out;

    if (!b->done || b->owner != door->service.asks)
        return false;
    if (b->questions.asks != NULL)
        while (wr_asks_next(b->questions.asks, &given_out))
            ;
    b->done = false; /* it is taken; the memory goes behind it */
    if (b->questions.count == 0)
        http_problem(&door->service, response, 503, "out of memory", (struct weir_slice){0});
    else
        *response = (struct http_response){
            .status = 200, .type = "application/json", .body = {b->body, b->len}};
    return true;
}

void http_batches_abandon(struct http_batches *b, const struct wr_asks *asks)
{
    struct waiting **at = &b->first;

    if (b->owner == asks)
        end_work(b);
    while (*at != NULL && (*at)->asks != asks)
        at = &(*at)->next;
    if (*at != NULL) {
        struct waiting *gone = *at;
        *at = gone->next;
        if (*at == NULL)
            b->last = at;
        free(gone);
    }
}

/* ---- its life ----------------------------------------------------------------------------- */

struct http_batches *http_batches_new(struct http_door *door)
{
    struct http_batches *b = calloc(1, sizeof *b);

    if (b == NULL)
        return NULL;
    b->door = door;
    b->last = &b->first;
    (void)uv_idle_init(&door->service.loop->uv, &b->idle);
    b->idle.data = b;
    return b;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void http_batches_free(struct http_batches *batches)
{
    if (batches != NULL)
        uv_close((uv_handle_t *)&batches->idle, on_closed);
}
