/* ask.c - asking the host's weir serve, as bytes: what a caller sends and what it gets, and the
 * same from the daemon's side.
 *
 * Invariants:
 *   1. Numbers of limits and plans in an answer are within the handle's policy, whatever came.
 *   2. An answer's moments are counted from when it is read, by this arena's clock: the daemon's
 *      may be another arena with another clock.
 *   3. What the daemon took is given back by the daemon. An answer from it is marked, and
 *      weir_release does nothing here.
 *
 * The fingerprint covers names and their order, and no rates: while a new policy is rolled out, one
 * of both has the new rates already, and its decisions are as good as they will be afterwards.
 *
 * Rejected: names instead of numbers in the protocol (a look-up for each verdict and field, for
 * what differs for a moment after a reload). */
#include <string.h>

#include "base/arith.h"
#include "base/sha256.h"
#include "base/units.h"
#include "engine/bound.h"
#include "lib/handle.h"
#include "wire/agent.h"

#define SLACK_NS (10 * WR_NS_PER_MS) /* from weir serve to here, and a turn of its loop */

/* ---- the fingerprint ----------------------------------------------------------------------- */

static void add_name(struct wr_sha256 *sha, char kind, const char *name)
{
    wr_sha256_add(sha, &kind, 1);
    wr_sha256_add(sha, name, strlen(name) + 1);
}

uint64_t wr_weir_fingerprint(const struct wr_policy *policy)
{
    struct wr_sha256 sha;
    unsigned char sum[WR_SHA256_BYTES];
    uint64_t value = 0;

    wr_sha256_init(&sha);
    for (size_t i = 0; i < wr_policy_field_count(policy); i++) {
        enum weir_field_kind kind;
        const char *name = wr_policy_field(policy, i, &kind);
        add_name(&sha, kind == WEIR_FIELD_HEADER ? 'h' : 'k', name);
    }
    for (size_t i = 0; i < wr_policy_limit_count(policy); i++)
        add_name(&sha, 'l', wr_policy_limit(policy, i)->name);
    for (size_t i = 0; i < wr_policy_plan_count(policy); i++)
        add_name(&sha, 'p', wr_policy_plan(policy, i));
    wr_sha256_finish(&sha, sum);
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)sum[i] << (8 * i);
    return value;
}

/* ---- the caller ---------------------------------------------------------------------------- */

static const struct wr_policy_store *store_of(const struct weir *w)
{
    return w->engine->shares ? wr_policy_settings(w->policy)->store : NULL;
}

const char *weir_ask_socket(const struct weir *w)
{
    const struct wr_policy_store *store = store_of(w);
    return store != NULL ? store->agent_path : NULL;
}

int64_t weir_ask_deadline(const struct weir *w)
{
    const struct wr_policy_store *store = store_of(w);
    return store != NULL ? store->deadline_ns + SLACK_NS : 0;
}

int weir_ask_begin(const struct weir *w, const struct weir_request *request, uint64_t id,
                   void *buffer, size_t size)
{
    struct wr_agent_ask ask;
    uint8_t *at = buffer;
    int result;

    if (!wr_weir_is_request(w, request, 0))
        return WEIR_EINVAL;
    result = wr_agent_put_ask(&ask, id, w->fingerprint, request);
    if (result != 0 || ask.len > size)
        return WEIR_EFULL;
    memcpy(at, ask.head, ask.head_len);
    at += ask.head_len;
    for (unsigned i = 0; i < ask.text_count; i++) {
        if (ask.text[i].len > 0)
            memcpy(at, ask.text[i].ptr, ask.text[i].len);
        at += ask.text[i].len;
    }
    return (int)ask.len;
}

/* Invariant 1. */
static bool is_known(const struct weir *w, const struct weir_answer *answer)
{
    size_t limits = wr_policy_limit_count(w->policy), plans = wr_policy_plan_count(w->policy);

    for (unsigned i = 0; i < answer->count; i++)
        if (answer->verdicts[i].limit >= limits || answer->verdicts[i].plan >= plans)
            return false;
    return answer->plan < plans;
}

/* Returns as weir_asked.status, or WEIR_EFORMAT. */
static int read_answer(const struct weir *w, const void *bytes, const struct wr_agent_frame *frame,
                       int64_t now, struct weir_answer *out)
{
    enum wr_agent_status status;
    struct wr_agent_more more;

    if (!wr_agent_get_answer(bytes, frame->len, &status, out, &more))
        return WEIR_EFORMAT;
    if (status == WR_AGENT_BUSY)
        return WEIR_EBUSY;
    if (status == WR_AGENT_OTHER_POLICY || frame->fingerprint != w->fingerprint)
        return WEIR_EPOLICY;
    if (!is_known(w, out))
        return WEIR_EFORMAT;
    out->flags = WR_ANSWER_ASKED;
    out->decided_ns = now;
    memcpy(out->receipts[0].word, more.hold, sizeof more.hold);
    for (unsigned i = 0; i < out->count; i++) {
        out->verdicts[i].flags = WR_VERDICT_MOMENTS;
        out->verdicts[i].priv[0] = (uint64_t)(now + more.next_ns[i]);
        out->verdicts[i].priv[1] = (uint64_t)(now + more.reset_ns[i]);
    }
    return 0;
}

int weir_ask_next(const struct weir *w, const void *bytes, size_t len, int64_t now,
                  struct weir_asked *out)
{
    struct wr_agent_frame frame;
    int used = wr_agent_find(bytes, len, &frame);

    memset(out, 0, sizeof *out);
    out->status = WEIR_EBUSY;
    out->id = frame.id;
    if (used <= 0)
        return used;
    if (frame.kind != WR_AGENT_ANSWER)
        return WEIR_EFORMAT;
    out->status = read_answer(w, bytes, &frame, now, &out->answer);
    return out->status == WEIR_EFORMAT ? WEIR_EFORMAT : used;
}

int weir_ask_release(const struct weir *w, struct weir_answer *answer, void *buffer, size_t size)
{
    if ((answer->flags & WR_ANSWER_ASKED) == 0 || !wr_asked_holds(answer))
        return 0;
    if (size < WR_AGENT_RELEASE_BYTES)
        return WEIR_EFULL;
    wr_agent_put_release(buffer, w->fingerprint, (const uint8_t *)answer->receipts[0].word);
    wr_receipt_clear(&answer->receipts[0]);
    return WR_AGENT_RELEASE_BYTES;
}

/* ---- the daemon ---------------------------------------------------------------------------- */

size_t wr_weir_write_answer(const struct weir *w, const struct weir_answer *answer, uint64_t id,
                            const uint8_t hold[16], uint8_t *out)
{
    struct wr_agent_more more = {0};

    memcpy(more.hold, hold, sizeof more.hold);
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++)
        wr_engine_times(w->engine, &answer->verdicts[i], answer->decided_ns, &more.next_ns[i],
                        &more.reset_ns[i]);
    return wr_agent_put_answer(out, id, w->fingerprint, WR_AGENT_DECIDED, answer, &more);
}

int wr_weir_read_ask(const struct weir *w, const void *bytes, size_t len, struct weir_slice *fields,
                     struct weir_request *out)
{
    struct wr_agent_frame frame;

    if (!wr_agent_get_ask(bytes, len, fields, out))
        return WEIR_EFORMAT;
    (void)wr_agent_find(bytes, len, &frame);
    if (frame.fingerprint != w->fingerprint)
        return WEIR_EPOLICY;
    return wr_weir_is_request(w, out, 0) ? 0 : WEIR_EFORMAT;
}
