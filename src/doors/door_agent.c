/* door_agent.c - the door for other processes of this host: nginx's workers, programs with libweir.
 *
 * Problem. They decide in the arena by themselves; what only the store can decide they ask here,
 * many at once over one connection, and none may wait for another's answer.
 *
 * Idea. A request that the store must be asked for is copied, with asks of its own (asks.h), and
 * handled again when its answer is there: answers leave in the order in which they come.
 *
 * Invariants:
 *   1. All connections of a loop together have at most WAITING_MAX requests under way, each no
 * longer than a frame, and one of them no more than are left for the others: what is beyond is
 * answered "busy" at once, and its sender decides alone.
 *   2. What is not answered when its connection ends is abandoned: what it took goes back.
 *   3. Places that an answer holds are kept as a reservation, which their holder names to release
 *      them; if it never does they expire with the longest hold among them.
 *
 * Why so few: what is under way waits in line at the store. A client that floods would fill the
 * line until all time out, and the breaker opens for all doors; 512 are some milliseconds of a
 * Redis. Whoever floods is told busy from half of it on, two of them from a third each on (dynamic
 * thresholds: Choudhury and Hahne, 1998), so that who comes next still finds room.
 *
 * Rejected: one asks for a connection, as RESP has it: answers would be in order, and one slow slot
 * of a cluster would hold up all of a worker's requests. */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/hex.h"
#include "base/units.h"
#include "doors/doors.h"
#include "lib/handle.h"
#include "serve/asks.h"
#include "serve/bad_input.h"
#include "serve/broker.h"
#include "serve/refused.h"
#include "serve/reservations.h"
#include "serve/stream_door.h"
#include "wire/agent.h"

#define WAITING_MAX 512U           /* of a loop */
#define OUTPUT_MAX (1U << 20)      /* unsent bytes at which a connection is read no more */
#define SLOW_NS (10 * WR_NS_PER_S) /* for a frame to come whole, or output to be taken */

struct door {
    struct wr_stream_door stream;
    struct wr_loop *loop;
    unsigned waiting; /* of all sessions */
};
WR_STREAM_DOOR(struct door);

struct session {
    struct wr_conn *conn;
    struct door *door;
    struct waiting *first;
    unsigned count;
    bool ending; /* to be closed when nothing is under way */
};

/* A request under way. */
struct waiting {
    struct waiting *previous, *next;
    struct session *session;
    struct wr_asks asks;
    size_t len;
    uint8_t frame[];
};

/* ---- answers ------------------------------------------------------------------------------- */

static void send_status(struct session *session, uint64_t id, enum wr_agent_status status)
{
    uint8_t out[WR_AGENT_ANSWER_MAX];
    size_t len = wr_agent_put_answer(out, id, session->door->loop->handle->weir->fingerprint,
                                     status, NULL, NULL);

    (void)wr_conn_write(session->conn, out, len);
}

/* How long the places in |answer| are held at most. */
static int64_t longest_hold(const struct wr_handle *handle, const struct weir_answer *answer)
{
    int64_t hold_ns = 0;

    for (unsigned i = 0; i < answer->count; i++) {
        const struct weir_verdict *verdict = &answer->verdicts[i];
        const struct wr_limit *limit =
            &wr_policy_limit(handle->policy, verdict->limit)->by[verdict->plan];
        if (limit->algo == WR_CONCURRENCY)
            hold_ns = wr_max_i64(hold_ns, limit->window_ns);
    }
    return hold_ns;
}

/* Keep what |answer| holds, and name it in |hold|. */
static void keep_places(struct wr_loop *loop, const struct weir_answer *answer,
                        uint8_t hold[WR_AGENT_HOLD_BYTES])
{
    char id[WR_RESERVATION_ID + 1];

    memset(hold, 0, WR_AGENT_HOLD_BYTES);
    if (!weir_holds(loop->handle->weir, answer) ||
        wr_reservations_put(wr_server_reservations(loop->server), loop->handle, answer,
                            answer->decided_ns + longest_hold(loop->handle, answer), NULL, id) != 0)
        return;
    for (size_t i = 0; i < WR_AGENT_HOLD_BYTES; i++)
        hold[i] = (uint8_t)wr_hex_byte(id + 2 * i);
}

static void release_places(struct wr_loop *loop, const uint8_t hold[WR_AGENT_HOLD_BYTES])
{
    char id[WR_RESERVATION_ID + 1];

    wr_hex_write(id, hold, WR_AGENT_HOLD_BYTES);
    id[WR_RESERVATION_ID] = '\0';
    (void)wr_reservations_release(wr_server_reservations(loop->server), loop, id,
                                  wr_loop_now(loop));
}

static void send_answer(struct session *session, struct wr_asks *asks, uint64_t id,
                        const struct weir_request *request, struct weir_answer *answer)
{
    struct wr_loop *loop = session->door->loop;
    uint8_t out[WR_AGENT_ANSWER_MAX], hold[WR_AGENT_HOLD_BYTES];
    uint64_t since_ns = wr_asks_since(asks, 0);
    size_t len;

    keep_places(loop, answer, hold);
    wr_refused_answer(loop, WR_DOOR_AGENT, request, answer);
    len = wr_weir_write_answer(loop->handle->weir, answer, id, hold, out);
    (void)wr_conn_write(session->conn, out, len);
    wr_metrics_request(&loop->metrics, WR_DOOR_AGENT,
                       since_ns > 0 ? (int64_t)(uv_hrtime() - since_ns)
                                    : weir_now(loop->handle->weir) - wr_loop_now(loop));
}

enum step { ANSWERED, WAITS, BAD };

/* Answer the request in the whole frame |bytes|. */
static enum step answer(struct session *session, struct wr_asks *asks, const uint8_t *bytes,
                        size_t len)
{
    struct weir_slice fields[WR_AGENT_FIELDS_MAX];
    struct weir_request request;
    struct weir_answer decided;
    struct wr_agent_frame frame;
    int result = wr_weir_read_ask(session->door->loop->handle->weir, bytes, len, fields, &request);

    (void)wr_agent_find(bytes, len, &frame);
    if (result == WEIR_EPOLICY) { /* also of one under way, when the policy has changed since */
        wr_asks_abandon(asks);
        send_status(session, frame.id, WR_AGENT_OTHER_POLICY);
        return ANSWERED;
    }
    if (result != 0)
        return BAD;
    wr_asks_again(asks);
    if (!wr_asks_decide(asks, &request, &decided))
        return WAITS;
    send_answer(session, asks, frame.id, &request, &decided);
    wr_asks_answered(asks);
    return ANSWERED;
}

/* ---- requests under way -------------------------------------------------------------------- */

static void add(struct session *session, struct waiting *waiting)
{
    waiting->next = session->first;
    if (waiting->next != NULL)
        waiting->next->previous = waiting;
    session->first = waiting;
    session->count++;
    session->door->waiting++;
}

static void drop(struct waiting *waiting)
{
    struct session *session = waiting->session;

    if (waiting->previous != NULL)
        waiting->previous->next = waiting->next;
    else
        session->first = waiting->next;
    if (waiting->next != NULL)
        waiting->next->previous = waiting->previous;
    session->count--;
    session->door->waiting--;
    wr_asks_abandon(&waiting->asks);
    free(waiting);
}

static void on_asked(void *context)
{
    struct waiting *waiting = context;
    struct session *session = waiting->session;
    enum step step = answer(session, &waiting->asks, waiting->frame, waiting->len);

    if (step == WAITS)
        return;
    drop(waiting);
    if (step == BAD || (session->ending && session->count == 0))
        wr_conn_close(session->conn);
}

/* Who asks and hangs up again and again has what he left under way on his account, too. */
static bool has_room(const struct session *session)
{
    const struct door *door = session->door;

    return session->count + door->waiting + wr_broker_abandoned(door->loop->broker) < WAITING_MAX;
}

/* Take up a request. False: it is malformed. */
static bool take_up(struct session *session, const uint8_t *bytes,
                    const struct wr_agent_frame *frame)
{
    struct waiting *waiting = NULL;
    enum step step;

    if (has_room(session))
        waiting = calloc(1, sizeof *waiting + frame->len);
    if (waiting == NULL) {
        send_status(session, frame->id, WR_AGENT_BUSY);
        return true;
    }
    waiting->session = session;
    waiting->asks =
        (struct wr_asks){.loop = session->door->loop, .resume = on_asked, .context = waiting};
    waiting->len = frame->len;
    memcpy(waiting->frame, bytes, frame->len);
    add(session, waiting);
    step = answer(session, &waiting->asks, waiting->frame, waiting->len);
    if (step != WAITS)
        drop(waiting);
    return step != BAD;
}

static bool handle(struct session *session, const uint8_t *bytes,
                   const struct wr_agent_frame *frame)
{
    uint8_t hold[WR_AGENT_HOLD_BYTES];

    if (frame->kind == WR_AGENT_ASK)
        return take_up(session, bytes, frame);
    if (!wr_agent_get_release(bytes, frame->len, hold))
        return false;
    release_places(session->door->loop, hold);
    return true;
}

static int64_t on_read(void *context, const uint8_t *bytes, size_t len)
{
    struct session *session = context;
    struct wr_loop *loop = session->door->loop;
    struct wr_agent_frame frame;
    size_t used = 0;
    int found;

    while ((found = wr_agent_find(bytes + used, len - used, &frame)) > 0) {
        if (!handle(session, bytes + used, &frame)) {
            found = WEIR_EFORMAT;
            break;
        }
        used += frame.len;
    }
    if (found == 0)
        return (int64_t)used;
    wr_metrics_bad_request(&loop->metrics, WR_DOOR_AGENT);
    wr_bad_input(loop, WR_DOOR_AGENT, "", (struct weir_slice){"malformed frame", 15});
    return -1;
}

/* ---- sessions ------------------------------------------------------------------------------ */

static void *on_accept(void *context, struct wr_conn *conn)
{
    struct session *session = calloc(1, sizeof *session);

    if (session == NULL)
        return NULL;
    session->conn = conn;
    session->door = context;
    return session;
}

static void on_closed(void *context)
{
    struct session *session = context;

    for (struct waiting *at = session->first, *next; at != NULL; at = next) {
        next = at->next;
        session->door->waiting--;
        wr_asks_abandon(&at->asks);
        free(at);
    }
    free(session);
}

/* ---- the door ------------------------------------------------------------------------------ */

static void close_idle(void *context, struct wr_conn *conn)
{
    struct session *session = context;

    session->ending = true;
    if (session->count == 0)
        wr_conn_close(conn);
}

static int open_door(struct wr_loop *loop, int fd, const struct wr_listener *listener, void **out)
{
    static const struct wr_conn_events events = {on_read, NULL, on_closed};
    struct door *door = calloc(1, sizeof *door);
    struct wr_acceptor_options options = {
        .accept = on_accept,
        .door = door,
        .events = &events,
        .limits = {.input_max = (size_t)2 * WR_AGENT_FRAME_MAX,
                   .output_max = OUTPUT_MAX,
                   .write_ns = SLOW_NS,
                   .message_ns = SLOW_NS},
        .metrics = WR_DOOR_AGENT,
    };

    if (door != NULL) {
        door->stream.end = close_idle;
        door->loop = loop;
    }
    return wr_stream_door_open(loop, fd, listener, &options, out);
}

const struct wr_door wr_door_agent = {"agent", open_door, wr_stream_door_drain,
                                      wr_stream_door_connections, wr_stream_door_close};
