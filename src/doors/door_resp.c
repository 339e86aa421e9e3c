/* door_resp.c - the door for clients of Redis: sessions, and the commands of one read as a batch.
 *
 * Problem. Clients pipeline: one read brings dozens of commands, and each touches a slot somewhere
 * in an arena that is far larger than the cache.
 *
 * Idea. Two passes over the commands of a read, up to WR_RESP_BATCH at once: the first finds them,
 * reads their arguments and starts fetching their keys' slots; the second runs them in order. All
 * share one reading of the clock, and their replies leave by one write.
 *
 * Invariants:
 *   1. Replies are in the order of the commands. Nothing is decided in the first pass.
 *   2. Arguments point into the connection's input, or, of the one inline command that ends a
 *      batch, into the door's scratch; neither changes before the batch has run.
 *   3. session.out has room for WR_RESP_REPLY_MAX before each command.
 *   4. A command that waits for a store, and those behind it, are not used up: they are read and
 *      run once more when its decision is there (asks.h). Neighbours that decide are asked for
 *      together. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "doors/door_resp.h"
#include "doors/doors.h"
#include "lib/handle.h"
#include "serve/bad_input.h"

#define IDLE_NS (10 * WR_NS_PER_MINUTE)
#define SLOW_NS (30 * WR_NS_PER_S) /* for a command to come whole, or output to be taken */
#define HANDSHAKE_NS (10 * WR_NS_PER_S)
#define BATCH_ARGS 1024U

static_assert(BATCH_ARGS >= WR_RESP_ARGS_MAX, "a command fits a batch");
static_assert(WR_RESP_OUT_BYTES >= 2 * WR_RESP_REPLY_MAX, "invariant 3");

struct batch {
    unsigned count, args_used;
    size_t begin;      /* in the input */
    unsigned asked;    /* calls before this one have been asked for */
    unsigned answered; /* and before this one answered, by leases */
    struct wr_resp_call call[WR_RESP_BATCH];
    struct weir_slice args[BATCH_ARGS];
};

void wr_resp_flush(struct wr_resp_session *session)
{
    if (session->out.len > 0)
        (void)wr_conn_write(session->conn, session->out.bytes, session->out.len);
    session->out.len = 0;
}

bool wr_resp_trusted(const struct wr_resp_session *session)
{
    return session->authenticated || session->door->loop->handle->resp_password == NULL;
}

/* ---- running ----------------------------------------------------------------------------- */

static bool has_arity(const struct wr_resp_call *call)
{
    const struct wr_resp_row *row = call->row;

    return row->arity >= 0 ? call->argc == (unsigned)row->arity
                           : call->argc >= (unsigned)-row->arity;
}

/* May it run? Writes the error if not. */
static bool admit(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    const struct wr_resp_row *row = call->row;

    if ((row == NULL || !row->early) && !wr_resp_trusted(session)) {
        wr_resp_error(&session->out, "NOAUTH Authentication required.");
        return false;
    }
    if (row == NULL) {
        wr_resp_unknown(session, call);
        return false;
    }
    if (has_arity(call))
        return true;
    wr_resp_error_begin(&session->out, "ERR wrong number of arguments for '");
    wr_resp_error_bytes(&session->out, call->args[0], row->len);
    wr_resp_error_end(&session->out, "' command");
    return false;
}

static bool is_check(const struct wr_resp_call *call)
{
    return call->prepared && call->row->run == wr_resp_check;
}

/* How many checks there are from call |i| on, without a gap. */
static unsigned checks_from(const struct batch *batch, unsigned i)
{
    unsigned count = 0;

    while (i + count < batch->count && is_check(&batch->call[i + count]))
        count++;
    return count;
}

static void count_bad(struct wr_resp_session *session)
{
    uint64_t *bad = &session->door->loop->metrics.door[WR_DOOR_RESP].bad_requests;

    __atomic_store_n(bad, __atomic_load_n(bad, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

static bool begins(const struct wr_resp_session *session, size_t from, const char *text)
{
    const struct wr_resp_out *out = &session->out;

    return out->len >= from && out->len - from >= strlen(text) &&
           memcmp(out->bytes + from, text, strlen(text)) == 0;
}

/* Does the reply written from |from| on refuse what was asked as input? What has no room is no
 * fault of the command, and says so. */
static bool is_refusal(const struct wr_resp_session *session, size_t from)
{
    return begins(session, from, "-NOAUTH ") || begins(session, from, "-Cell error: ") ||
           (begins(session, from, "-ERR ") && !begins(session, from, "-ERR too many ") &&
            !begins(session, from, "-ERR the arena"));
}

/* Run call |i| and those behind it that are decided with it. Returns how many. */
static unsigned run_some(struct wr_resp_session *session, const struct batch *batch, unsigned i)
{
    const struct wr_resp_call *call = &batch->call[i];
    unsigned count;
    size_t from;
    bool admitted;

    if (session->out.size - session->out.len < WR_RESP_REPLY_MAX)
        wr_resp_flush(session);
    from = session->out.len;
    admitted = admit(session, call);
    if (!admitted || !is_check(call)) {
        if (admitted)
            call->row->run(session, call);
        if (is_refusal(session, from))
            count_bad(session);
        return 1;
    }
    count = checks_from(batch, i);
    wr_resp_check_run(session, call, count);
    return count;
}

static void count_requests(struct wr_resp_session *session, unsigned count)
{
    struct wr_loop *loop = session->door->loop;
    uint64_t since_ns = wr_asks_since(&session->asks, 0);
    int64_t elapsed = since_ns > 0 ? (int64_t)(uv_hrtime() - since_ns)
                                   : weir_now(loop->handle->weir) - wr_loop_now(loop);

    for (unsigned i = 0; i < count; i++)
        wr_metrics_request(&loop->metrics, WR_DOOR_RESP, elapsed);
}

/* Answer the checks from call |i| on, if leases decide all of them. Returns how many need not be
 * asked for. */
static unsigned answer_leased(struct wr_resp_session *session, struct batch *batch, unsigned i)
{
    unsigned checks = wr_resp_trusted(session) ? checks_from(batch, i) : 0;
    unsigned known = checks > 0 ? wr_resp_check_leased(session, &batch->call[i], checks) : 0;

    if (checks > 0 && known == checks)
        batch->answered = i + checks;
    return known;
}

/* Ask for what call |i| and its neighbours decide. False: the store is asked. */
static bool ask_ahead(struct wr_resp_session *session, struct batch *batch, unsigned i)
{
    struct wr_asks *asks = &session->asks;
    bool there = true;

    if (i < batch->asked)
        return true;
    wr_asks_answered(asks); /* what was asked for before is run by now */
    batch->asked = i + answer_leased(session, batch, i);
    if (batch->answered > i)
        return true;
    asks->keep = true;
    for (i = batch->asked; i < batch->count; i++) {
        const struct wr_resp_call *call = &batch->call[i];
        if (call->row == NULL || call->row->ask == NULL || !has_arity(call) ||
            !wr_resp_trusted(session))
            break;
        there = call->row->ask(session, call) && there;
    }
    asks->keep = false;
    batch->asked = i;
    wr_asks_again(asks);
    return there;
}

/* Run what can be run; |*used| goes back to what can not yet. */
static void run(struct wr_resp_session *session, struct batch *batch, size_t *used)
{
    bool shares = wr_asks_shares(session->door->loop);
    unsigned i = 0;

    batch->asked = batch->answered = 0;
    while (i < batch->count && !session->quitting) {
        if (shares && !ask_ahead(session, batch, i)) {
            wr_conn_stall(session->conn);
            break;
        }
        i = batch->answered > i ? batch->answered : i + run_some(session, batch, i);
    }
    if (i > 0)
        count_requests(session, i);
    if (shares && !wr_asks_waits(&session->asks))
        wr_asks_answered(&session->asks);
    wr_resp_flush(session);
    if (wr_asks_waits(&session->asks))
        *used = i > 0 ? batch->call[i - 1].end : batch->begin;
    batch->count = 0;
    batch->args_used = 0;
}

/* ---- reading ----------------------------------------------------------------------------- */

static void add(struct wr_resp_session *session, struct batch *batch,
                const struct wr_resp_command *command, size_t end)
{
    struct wr_resp_call *call = &batch->call[batch->count++];

    call->args = batch->args + batch->args_used;
    call->argc = command->argc;
    call->prepared = false;
    call->end = end;
    call->row = wr_resp_find(call->args[0]);
    batch->args_used += command->argc;
    if (call->row != NULL && call->row->prepare != NULL)
        call->row->prepare(session, call);
}

static void refuse(struct wr_resp_session *session, const char *error)
{
    wr_resp_error_begin(&session->out, "ERR ");
    wr_resp_error_end(&session->out, error);
    wr_resp_flush(session);
    wr_bad_input(session->door->loop, WR_DOOR_RESP, wr_conn_peer(session->conn),
                 (struct weir_slice){error, strlen(error)});
    count_bad(session);
}

/* Take commands from |bytes| into |batch| until it is full or nothing is whole. Returns the last
 * step; |*used| moves. */
static enum wr_resp_step fill(struct wr_resp_session *session, struct batch *batch,
                              const char *bytes, size_t len, size_t *used,
                              struct wr_resp_command *command)
{
    static const struct wr_resp_limits known = {WR_RESP_ARGS_MAX, WR_RESP_BULK_MAX};
    static const struct wr_resp_limits unknown = {WR_RESP_ARGS_UNKNOWN, WR_RESP_BULK_UNKNOWN};
    const struct wr_resp_limits *limits = wr_resp_trusted(session) ? &known : &unknown;

    while (batch->count < WR_RESP_BATCH && batch->args_used + limits->args <= BATCH_ARGS) {
        enum wr_resp_step step =
            wr_resp_parse(bytes + *used, len - *used, limits, session->door->scratch,
                          batch->args + batch->args_used, command);
        if (step == WR_RESP_MORE || step == WR_RESP_BAD)
            return step;
        *used += command->consumed;
        if (step == WR_RESP_NOTHING)
            continue;
        add(session, batch, command, *used);
        /* An inline command's arguments lie in the scratch; behind AUTH other limits hold. */
        if (command->is_inline || limits == &unknown)
            return WR_RESP_COMMAND;
    }
    return WR_RESP_COMMAND;
}

static void refresh(struct wr_resp_door *door)
{
    const struct wr_handle *handle = door->loop->handle;

    if (door->generation == handle->generation)
        return;
    door->generation = handle->generation;
    wr_throttle_init(&door->throttle, handle->weir->arena);
}

static int64_t on_read(void *context, const uint8_t *bytes, size_t len)
{
    struct wr_resp_session *session = context;
    struct wr_resp_command command;
    struct batch batch;
    enum wr_resp_step step;
    size_t used = 0;

    if (wr_asks_waits(&session->asks))
        return 0;
    refresh(session->door);
    wr_asks_again(&session->asks);
    batch.count = 0;
    batch.args_used = 0;
    session->out.full = false;
    do {
        batch.begin = used;
        step = fill(session, &batch, (const char *)bytes, len, &used, &command);
        run(session, &batch, &used);
        if (wr_asks_waits(&session->asks))
            return (int64_t)used;
        if (session->quitting || session->out.full)
            return -1;
        if (step == WR_RESP_BAD) {
            refuse(session, command.error);
            return -1;
        }
    } while (step == WR_RESP_COMMAND && !wr_conn_is_full(session->conn));
    /* In a drain, who is answered all that came whole is let go. */
    return session->door->loop->draining && used > 0 && used == len ? -1 : (int64_t)used;
}

static void on_asked(void *context)
{
    struct wr_resp_session *session = context;

    wr_conn_again(session->conn);
}

/* ---- sessions ---------------------------------------------------------------------------- */

static void *on_accept(void *context, struct wr_conn *conn)
{
    struct wr_resp_door *door = context;
    struct wr_resp_session *session = calloc(1, sizeof *session);

    if (session == NULL)
        return NULL;
    session->conn = conn;
    session->door = door;
    session->asks = (struct wr_asks){.loop = door->loop, .resume = on_asked, .context = session};
    session->out = (struct wr_resp_out){.bytes = door->out, .size = sizeof door->out};
    /* Loops number their sessions apart from each other. */
    session->id = ++door->next_id * 256 + door->loop->index;
    return session;
}

static void on_closed(void *context)
{
    struct wr_resp_session *session = context;

    wr_asks_abandon(&session->asks);
    free(session);
}

/* ---- the door ---------------------------------------------------------------------------- */

/* In a drain. What is left unread waits for a store, for room, or for the rest of it: it is
 * answered, then closed. */
static void close_session(void *context, struct wr_conn *conn)
{
    (void)context;
    if (wr_conn_unread(conn) == 0)
        wr_conn_close(conn);
}

static int open_door(struct wr_loop *loop, int fd, const struct wr_listener *listener, void **out)
{
    static const struct wr_conn_events events = {on_read, NULL, on_closed};
    struct wr_resp_door *door = calloc(1, sizeof *door);
    struct wr_acceptor_options options = {
        .accept = on_accept,
        .door = door,
        .events = &events,
        .limits = {.input_max = WR_RESP_COMMAND_MAX + (128U << 10),
                   .output_max = WR_RESP_OUTPUT_MAX,
                   .idle_ns = IDLE_NS,
                   .write_ns = SLOW_NS,
                   .message_ns = SLOW_NS,
                   .handshake_ns = HANDSHAKE_NS},
        .metrics = WR_DOOR_RESP,
    };

    if (door != NULL) {
        door->stream.end = close_session;
        door->loop = loop;
    }
    return wr_stream_door_open(loop, fd, listener, &options, out);
}

const struct wr_door wr_door_resp = {"resp", open_door, wr_stream_door_drain,
                                     wr_stream_door_connections, wr_stream_door_close};
