/* door_resp_throttle.c - CL.THROTTLE over RESP, as redis-cell answers it: a limit whose rate stands
 * in the command, whatever the policy says. What the numbers mean is docs/resp.md. */
#include "base/units.h"
#include "doors/door_resp.h"
#include "lib/handle.h"

#define SHOWN_BYTES 128U

/* Read the numbers. False: |*bad| is the argument that is none, or NULL when |*error| says what is
 * wrong; both NULL: a count or period of 0. */
static bool read_rate(const struct wr_resp_call *call, struct wr_throttle_rate *rate,
                      const struct weir_slice **bad, const char **error)
{
    int64_t number[4] = {0, 0, 0, 1};

    *bad = NULL;
    *error = NULL;
    for (unsigned i = 2; i < call->argc; i++) {
        if (!wr_resp_integer(call->args[i], &number[i - 2])) {
            *bad = &call->args[i];
            return false;
        }
    }
    if (number[1] == 0 || number[2] == 0)
        return false;
    *error = wr_throttle_rate_make(rate, number[0], number[1], number[2], number[3]);
    return *error == NULL;
}

void wr_resp_throttle_prepare(struct wr_resp_session *session, struct wr_resp_call *call)
{
    struct wr_throttle *throttle = &session->door->throttle;
    const struct weir_slice *bad;
    const char *error;

    if (call->argc < 5 || call->argc > 6 || !read_rate(call, &call->as.throttle.rate, &bad, &error))
        return;
    call->as.throttle.hash = wr_throttle_hash(throttle, call->args[1]);
    wr_slot_prefetch(throttle->arena, call->as.throttle.hash);
    call->prepared = true;
}

static void refuse_throttle(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct wr_throttle_rate rate;
    const struct weir_slice *bad = NULL;
    const char *error = NULL;

    if (call->argc < 5 || call->argc > 6) {
        wr_resp_error(&session->out,
                      "Cell error: Store error: Usage: cl.throttle <key> <max_burst> "
                      "<count per period> <period> [<quantity>]");
        return;
    }
    (void)read_rate(call, &rate, &bad, &error);
    if (bad != NULL) {
        wr_resp_error_begin(&session->out, "Cell error: Store error: Couldn't parse as integer: ");
        wr_resp_error_bytes(&session->out, *bad, SHOWN_BYTES);
        wr_resp_error_end(&session->out, "");
    } else if (error != NULL) {
        wr_resp_error_begin(&session->out, "ERR ");
        wr_resp_error_end(&session->out, error);
    } else {
        wr_resp_error(&session->out, "Cell error: Store error: Zero rates are not supported");
    }
}

/* Whole seconds, rounded up: a caller who comes back then passes. -1 stays. */
static int64_t seconds(int64_t ns)
{
    return ns < 0 ? -1 : ns / WR_NS_PER_S + (ns % WR_NS_PER_S > 0 ? 1 : 0);
}

void wr_resp_throttle(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct wr_loop *loop = session->door->loop;
    struct wr_throttle_reply reply;

    if (!call->prepared) {
        refuse_throttle(session, call);
        return;
    }
    if (wr_throttle_take(&session->door->throttle, call->as.throttle.hash, &call->as.throttle.rate,
                         wr_loop_now(loop), &reply) != 0) {
        wr_resp_error(&session->out, "ERR the arena's table of classes is full of other limits");
        return;
    }
    wr_metrics_outcome(&loop->metrics, reply.limited ? WEIR_DENY : WEIR_ALLOW);
    if (reply.limited)
        wr_refused_tell(loop, &(struct wr_refusal){.door = WR_DOOR_RESP,
                                                   .limit = "CL.THROTTLE",
                                                   .reason = "limit",
                                                   .retry_after_ns = reply.retry_after_ns,
                                                   .cost_units = call->as.throttle.rate.quantity});
    wr_resp_array(&session->out, 5);
    wr_resp_int(&session->out, reply.limited ? 1 : 0);
    wr_resp_int(&session->out, reply.limit);
    wr_resp_int(&session->out, reply.remaining);
    wr_resp_int(&session->out, seconds(reply.retry_after_ns));
    wr_resp_int(&session->out, seconds(reply.reset_after_ns));
}
