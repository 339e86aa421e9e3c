/* redis_link.c - a connection on libuv's own streams, with hiredis to read and write RESP.
 *
 * Idea. Commands gather in the pipeline and are written before the loop goes to sleep, so that a
 * turn's decisions are one system call; replies are matched to commands by their order, in a ring
 * of callbacks. hiredis's reader parses, its formatter writes the commands of the greeting.
 *
 * Invariants.
 *   1. Every command is answered once: by its reply, or by NULL when the link is lost.
 *   2. After fail() nothing is sent and no event comes; memory goes when all handles are closed.
 *   3. Until the greeting is answered nothing else is sent: with a wrong password or database no
 *      command may run.
 *   4. Who parts hears no more answers, but waits for them, for a stage at most: a socket that is
 *      closed with answers unread is reset, and what its server has not read by then is lost.
 *
 * Rejected: hiredis's asynchronous context. In 0.14 it asserts (and aborts the process) on a reply
 * that nobody asked for, looks up names by a blocking call, allocates for each command, and through
 * its libuv adapter a refused connection is never reported (libuv says UV_EBADF for it, which the
 * adapter drops) while each command costs an epoll_ctl; it has no deadline either. A pool of
 * connections: one, batched, costs both sides less CPU. */
#include "remote/redis_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/units.h"
#include "remote/redis_greet.h"
#include "remote/redis_pipeline.h"
#include "remote/redis_reader.h"
#include "remote/redis_stream.h"
#include "remote/resolve.h"

#define INPUT_BYTES 16384

enum stage { RESOLVING, CONNECTING, GREETING, UP, PARTING, LOST };

struct output {
    uv_write_t write;
    char *bytes;
};

struct wr_redis_link {
    uv_loop_t *loop;
    struct wr_redis_link_spec spec;
    enum stage stage;
    bool writing;     /* a write is with libuv */
    unsigned handles; /* that libuv still has: streams, timer, prepare, resolving */
    struct wr_redis_stream *stream;
    uv_timer_t timer;     /* of the stage */
    uv_prepare_t prepare; /* active: |out| is to be written */
    struct wr_resolve resolve;
    struct wr_redis_reader reader;
    struct wr_redis_pipeline pipeline;
    unsigned greetings; /* not answered yet */
    size_t unheard;     /* answers that are still to come, while parting */
    char why[WR_REDIS_WHY_MAX], trial[WR_REDIS_WHY_MAX];
    char in[INPUT_BYTES];
};

static void enter(struct wr_redis_link *link, enum stage stage, int64_t at_least_ns);

/* ---- the end ------------------------------------------------------------------------------- */

static void release(void *owner)
{
    struct wr_redis_link *link = owner;

    if (--link->handles > 0)
        return;
    wr_resolve_free(&link->resolve);
    wr_redis_reader_fini(&link->reader);
    wr_redis_pipeline_free(&link->pipeline);
    free(link);
}

static void on_own_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static void close_stream(struct wr_redis_link *link)
{
    if (link->stream == NULL)
        return;
    wr_redis_stream_close(link->stream);
    link->stream = NULL;
}

/* Everyone who waits hears that no answer comes. */
static void tell_all(struct wr_redis_link *link)
{
    while (link->pipeline.count > 0) {
        struct wr_redis_waiting waiting = wr_redis_pipeline_shift(&link->pipeline);
        waiting.fn(waiting.context, link, NULL);
    }
}

static void fail(struct wr_redis_link *link, enum wr_remote_trouble trouble, const char *why)
{
    if (link->stage == LOST)
        return;
    link->stage = LOST;
    if (why != link->why)
        (void)snprintf(link->why, sizeof link->why, "%s", why);
    tell_all(link);
    if (link->spec.owner != NULL)
        link->spec.events->lost(link->spec.owner, link, trouble, link->why);
    close_stream(link);
    wr_resolve_cancel(&link->resolve);
    uv_close((uv_handle_t *)&link->timer, on_own_closed);
    uv_close((uv_handle_t *)&link->prepare, on_own_closed);
}

void wr_redis_link_close(struct wr_redis_link *link)
{
    link->spec.owner = NULL;
    fail(link, WR_TROUBLE_CONNECT, "closed");
}

void wr_redis_link_part(struct wr_redis_link *link)
{
    link->unheard = link->pipeline.count;
    if (link->stage != UP || link->unheard == 0) {
        wr_redis_link_close(link);
        return;
    }
    link->spec.owner = NULL;
    enter(link, PARTING, 0);
    tell_all(link);
}

void wr_redis_link_adopt(struct wr_redis_link *link, const struct wr_redis_link_events *events,
                         void *owner)
{
    link->spec.events = events;
    link->spec.owner = owner;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void flush(struct wr_redis_link *link);

static void on_written(uv_write_t *write, int status)
{
    struct output *output = write->data;
    struct wr_redis_link *link = ((struct wr_redis_stream *)write->handle->data)->owner;

    free(output->bytes);
    free(output);
    if (link->stage == LOST)
        return;
    link->writing = false;
    if (status != 0)
        fail(link, WR_TROUBLE_CONNECT, uv_strerror(status));
    else if (link->pipeline.out_len > 0)
        flush(link);
}

/* libuv keeps the whole buffer: what of it is not written yet begins at |from|. */
static void write_rest(struct wr_redis_link *link, size_t from)
{
    struct output *output = malloc(sizeof *output);
    size_t len = link->pipeline.out_len;
    uv_buf_t buf;
    int result;

    if (output == NULL) {
        fail(link, WR_TROUBLE_CONNECT, "out of memory");
        return;
    }
    output->bytes = wr_redis_pipeline_detach(&link->pipeline);
    output->write.data = output;
    buf = uv_buf_init(output->bytes + from, (unsigned)(len - from));
    link->writing = true;
    result = uv_write(&output->write, &link->stream->uv.stream, &buf, 1, on_written);
    if (result != 0) {
        free(output->bytes);
        free(output);
        fail(link, WR_TROUBLE_CONNECT, uv_strerror(result));
    }
}

static void flush(struct wr_redis_link *link)
{
    uv_buf_t buf = uv_buf_init(link->pipeline.out, (unsigned)link->pipeline.out_len);
    int written = uv_try_write(&link->stream->uv.stream, &buf, 1);

    if (written < 0 && written != UV_EAGAIN)
        fail(link, WR_TROUBLE_CONNECT, uv_strerror(written));
    else if (written >= 0 && (size_t)written == link->pipeline.out_len)
        wr_redis_pipeline_written(&link->pipeline);
    else
        write_rest(link, written < 0 ? 0 : (size_t)written);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct wr_redis_link *link = prepare->data;

    (void)uv_prepare_stop(prepare);
    if (!link->writing && link->pipeline.out_len > 0 && link->stage != LOST)
        flush(link);
}

static bool append(struct wr_redis_link *link, const char *bytes, size_t len, wr_redis_reply_fn fn,
                   void *context)
{
    if (!wr_redis_pipeline_add(&link->pipeline, bytes, len, (struct wr_redis_waiting){fn, context}))
        return false;
    (void)uv_prepare_start(&link->prepare, on_prepare);
    return true;
}

bool wr_redis_link_send(struct wr_redis_link *link, const char *bytes, size_t len,
                        wr_redis_reply_fn fn, void *context)
{
    return link->stage == UP && append(link, bytes, len, fn, context);
}

bool wr_redis_link_is_up(const struct wr_redis_link *link)
{
    return link->stage == UP;
}

const char *wr_redis_link_trial(const struct wr_redis_link *link)
{
    return link->trial[0] == '\0' ? NULL : link->trial;
}

size_t wr_redis_link_pending(const struct wr_redis_link *link)
{
    return link->pipeline.count;
}

uint64_t wr_redis_link_sent(const struct wr_redis_link *link)
{
    return link->pipeline.sent;
}

/* ---- reading ------------------------------------------------------------------------------- */

static void on_reply(struct wr_redis_link *link, redisReply *reply)
{
    if (link->stage == PARTING) {
        if (--link->unheard == 0)
            fail(link, WR_TROUBLE_CONNECT, "closed");
    } else if (link->pipeline.count > 0) {
        struct wr_redis_waiting waiting = wr_redis_pipeline_shift(&link->pipeline);
        waiting.fn(waiting.context, link, reply);
    } else if (link->spec.events->pushed != NULL && link->stage == UP) {
        link->spec.events->pushed(link->spec.owner, reply);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        fail(link, wr_redis_trouble_of(wr_redis_error_of(reply->str, reply->len)), reply->str);
    } else {
        fail(link, WR_TROUBLE_PROTOCOL, "a reply to nothing");
    }
}

static void parse(struct wr_redis_link *link)
{
    redisReply *reply;

    while (link->stage != LOST) {
        const char *wrong = wr_redis_reader_next(&link->reader, &reply);
        if (wrong != NULL)
            fail(link, WR_TROUBLE_PROTOCOL, wrong);
        if (reply == NULL)
            return;
        on_reply(link, reply);
        freeReplyObject(reply);
    }
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    struct wr_redis_link *link = ((struct wr_redis_stream *)handle->data)->owner;

    (void)wanted;
    *buf = uv_buf_init(link->in, sizeof link->in);
}

static void on_read(uv_stream_t *handle, ssize_t len, const uv_buf_t *buf)
{
    struct wr_redis_link *link = ((struct wr_redis_stream *)handle->data)->owner;
    const char *wrong;

    if (link->stage == LOST || len == 0)
        return;
    if (len < 0) {
        fail(link, WR_TROUBLE_CONNECT,
             len == UV_EOF ? "connection closed by the server" : uv_strerror((int)len));
        return;
    }
    wrong = wr_redis_reader_feed(&link->reader, buf->base, (size_t)len);
    if (wrong != NULL) {
        fail(link, WR_TROUBLE_PROTOCOL, wrong);
        return;
    }
    parse(link);
}

/* ---- stages -------------------------------------------------------------------------------- */

static void try_next(struct wr_redis_link *link);

static void on_stage_due(uv_timer_t *timer)
{
    struct wr_redis_link *link = timer->data;

    if (link->stage == CONNECTING) {
        (void)snprintf(link->why, sizeof link->why, "connecting took too long");
        close_stream(link);
        try_next(link);
        return;
    }
    fail(link, WR_TROUBLE_TIMEOUT,
         link->stage == RESOLVING ? "looking up the name took too long"
                                  : "no answer to the greeting in time");
}

static void enter(struct wr_redis_link *link, enum stage stage, int64_t at_least_ns)
{
    int64_t ns = wr_max_i64(link->spec.stage_ns, at_least_ns);

    link->stage = stage;
    if (stage == UP)
        (void)uv_timer_stop(&link->timer);
    else
        (void)uv_timer_start(&link->timer, on_stage_due,
                             (uint64_t)((ns + WR_NS_PER_MS - 1) / WR_NS_PER_MS), 0);
}

static void on_greeting_error(struct wr_redis_link *link, const struct wr_redis_greeting *greeting,
                              const struct redisReply *reply)
{
    char why[WR_REDIS_WHY_MAX];
    enum wr_remote_trouble trouble = wr_redis_greet_error(greeting, reply, why);

    if (trouble != WR_TROUBLE_NONE)
        fail(link, trouble, why);
    else if (why[0] != '\0')
        (void)snprintf(link->trial, sizeof link->trial, "%s", why);
}

static void on_greeted(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    const struct wr_redis_greeting *greeting = context;
    const char *wrong = NULL;

    if (reply == NULL || link->stage == LOST)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        on_greeting_error(link, greeting, reply);
    } else if (greeting != NULL && greeting->check != NULL) {
        wrong = greeting->check(reply);
    }
    if (wrong != NULL)
        fail(link, WR_TROUBLE_BUSY, wrong);
    if (link->stage == LOST || --link->greetings > 0)
        return;
    enter(link, UP, 0);
    link->spec.events->up(link->spec.owner, link);
}

static bool greet_with(struct wr_redis_link *link, const char *bytes, size_t len,
                       const struct wr_redis_greeting *greeting)
{
    link->greetings++;
    return append(link, bytes, len, on_greeted, (void *)(uintptr_t)greeting);
}

static bool greet_login(struct wr_redis_link *link)
{
    struct wr_redis_greets greets;
    bool ok = wr_redis_greets_make(&greets, link->spec.login);

    for (size_t i = 0; ok && i < greets.count; i++)
        ok = greet_with(link, greets.bytes[i], greets.len[i],
                        i + 1 == greets.count   ? &wr_redis_greet_name
                        : i == 0 && greets.auth ? &wr_redis_greet_auth
                                                : NULL);
    wr_redis_greets_free(&greets);
    return ok;
}

static void greet(struct wr_redis_link *link)
{
    bool ok;

    enter(link, GREETING, 0);
    ok = greet_login(link);
    for (size_t i = 0; ok && i < link->spec.greeting_count; i++) {
        const struct wr_redis_greeting *greeting = &link->spec.greeting[i];
        ok = greet_with(link, greeting->bytes, greeting->len, greeting);
    }
    if (!ok)
        fail(link, WR_TROUBLE_DENIED, "the password file cannot be read");
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct wr_redis_stream *stream = connect->data;
    struct wr_redis_link *link = stream->owner;

    if (link->stage != CONNECTING || stream != link->stream)
        return;
    if (status == 0)
        status = uv_read_start(&stream->uv.stream, on_alloc, on_read);
    if (status == 0) {
        greet(link);
        return;
    }
    (void)snprintf(link->why, sizeof link->why, "%s", uv_strerror(status));
    close_stream(link);
    try_next(link);
}

static int connect_to(struct wr_redis_link *link, const struct sockaddr *address)
{
    const char *path = link->spec.address.host == NULL ? link->spec.address.path : NULL;

    link->stream = wr_redis_stream_new(link->loop, path, link, release);
    if (link->stream == NULL)
        return UV_ENOMEM;
    link->handles++;
    enter(link, CONNECTING, 0);
    return wr_redis_stream_connect(link->stream, address, path, on_connect);
}

/* The next address of the name; none left: lost, for the reason of the last one. */
static void try_next(struct wr_redis_link *link)
{
    const struct sockaddr *address;

    while ((address = wr_resolve_next(&link->resolve)) != NULL) {
        int result = connect_to(link, address);
        if (result == 0)
            return;
        (void)snprintf(link->why, sizeof link->why, "%s", uv_strerror(result));
        close_stream(link);
    }
    fail(link, WR_TROUBLE_CONNECT, link->why);
}

static void on_resolved(void *context, const char *error)
{
    struct wr_redis_link *link = context;

    if (link->stage != LOST && error != NULL)
        fail(link, WR_TROUBLE_CONNECT, error);
    else if (link->stage != LOST)
        try_next(link);
    release(link);
}

/* The first step is taken by the timer, so that no event comes from within open. */
static void on_start(uv_timer_t *timer)
{
    struct wr_redis_link *link = timer->data;
    const struct wr_redis_address *address = &link->spec.address;

    if (address->host == NULL) {
        int result = connect_to(link, NULL);
        if (result != 0)
            fail(link, WR_TROUBLE_CONNECT, uv_strerror(result));
        return;
    }
    if (wr_resolve_literal(&link->resolve, address->host, address->port)) {
        try_next(link);
        return;
    }
    enter(link, RESOLVING, WR_NS_PER_S);
    link->handles++;
    if (!wr_resolve_start(&link->resolve, link->loop, address->host, address->port, on_resolved,
                          link)) {
        fail(link, WR_TROUBLE_CONNECT, "out of memory");
        release(link);
    }
}

struct wr_redis_link *wr_redis_link_open(uv_loop_t *loop, const struct wr_redis_link_spec *spec)
{
    struct wr_redis_link *link = calloc(1, sizeof *link);

    if (link == NULL)
        return NULL;
    if (!wr_redis_reader_init(&link->reader)) {
        free(link);
        return NULL;
    }
    link->loop = loop;
    link->spec = *spec;
    (void)uv_timer_init(loop, &link->timer);
    (void)uv_prepare_init(loop, &link->prepare);
    link->timer.data = link->prepare.data = link;
    link->handles = 2;
    (void)uv_timer_start(&link->timer, on_start, 0, 0);
    return link;
}
