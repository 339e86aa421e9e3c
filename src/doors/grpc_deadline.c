/* grpc_deadline.c - what a connection waits for, and for how long: the client's preface, the rest
 * of a question, room for an answer in the client's window, and the end of a drain.
 *
 * Bytes prove nothing here: who sends a ping a second keeps a connection busy and its calls
 * unfinished. So each call has its own time, and the session is asked about once a second, by its
 * door, as long as it waits for anything.
 *
 * Rejected: a timer for each call (nearly all are answered in the turn in which they begin);
 * closing the connection for a question that is never ended (the others on it are honest: a
 * proxy's). */
#include "doors/grpc_stream.h"

void wr_grpc_set_patience(struct wr_grpc *g, int64_t stall_ns)
{
    g->greeting_ns = g->question_ns = g->answer_ns = stall_ns;
}

bool wr_grpc_waits(const struct wr_grpc *g)
{
    return !g->greeted || g->open != NULL;
}

/* The other side is to go, now; GOAWAY says why. */
static int give_up(struct wr_grpc *g, bool *late)
{
    *late = true;
    g->events->bad(g->context);
    if (!g->closing)
        (void)nghttp2_session_terminate_session(g->session, NGHTTP2_ENHANCE_YOUR_CALM);
    g->closing = true;
    (void)wr_grpc_pump(g);
    return -1;
}

int wr_grpc_tick(struct wr_grpc *g, int64_t now_ns, bool *late)
{
    struct wr_grpc_stream *next;

    *late = false;
    g->now_ns = now_ns;
    if (!g->greeted && now_ns - g->opened_ns >= g->greeting_ns)
        return give_up(g, late);
    for (struct wr_grpc_stream *s = g->open; s != NULL; s = next) {
        next = s->next;
        if (now_ns < s->due_ns)
            continue;
        if (s->answered && s->sent < s->len) /* its window has been shut all the time */
            return give_up(g, late);
        g->events->bad(g->context);
        s->due_ns = INT64_MAX; /* once */
        s->answered = true;
        (void)nghttp2_submit_rst_stream(g->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
    }
    return wr_grpc_pump(g);
}

int wr_grpc_drain(struct wr_grpc *g)
{
    if (g->draining)
        return 0;
    g->draining = true;
    if (nghttp2_submit_shutdown_notice(g->session) != 0 ||
        nghttp2_submit_ping(g->session, NGHTTP2_FLAG_NONE, NULL) != 0)
        return -1;
    return wr_grpc_pump(g);
}

void wr_grpc_say_last(struct wr_grpc *g)
{
    g->closing = true;
    (void)nghttp2_submit_goaway(g->session, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(g->session),
                                NGHTTP2_NO_ERROR, NULL, 0);
}

int wr_grpc_drain_end(struct wr_grpc *g)
{
    if (!g->closing)
        wr_grpc_say_last(g);
    return wr_grpc_pump(g);
}
