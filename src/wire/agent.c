/* agent.c - frames between processes of one host.
 *
 * Problem. nginx's workers and programs with libweir ask weir serve for what only a store can
 * decide. The two are separate packages and are restarted apart: after an update one of them is of
 * yesterday's build, with other structs and another policy.
 *
 * Idea. No struct leaves a process. A frame is a table of integers at fixed offsets, little-endian,
 * then texts; its first word is its length, its first byte its version.
 *
 * Invariants:
 *   1. A frame is read only when it is there whole, and its parts add up to exactly its length.
 *   2. Whatever the bytes, what is read is within the range that weir.h gives it: who uses it need
 *      not look again, but at the numbers of limits and plans, which are the policy's.
 *   3. What was taken stays with who took it: a caller gets a name to release it by, no receipts.
 *
 * Rejected: RESP or protobuf (a parser for text, or another library in every worker of nginx, for a
 * dozen integers); shared memory rings (a wake-up is needed all the same, and a peer that dies in
 * the middle of one leaves it broken). */
#include "wire/agent.h"

#include <string.h>

#define PREFIX 4U /* the length itself */
#define HEAD 24U  /* length, version, kind, id, fingerprint */
#define ASK_HEAD 52U
#define ANSWER_HEAD 72U
#define VERDICT_BYTES ((size_t)56)
#define ABSENT UINT32_MAX
#define FAR_NS (INT64_MAX / 4) /* no duration of a limit is longer */

_Static_assert(WR_AGENT_HEAD_BYTES == ASK_HEAD + 4U * WR_AGENT_FIELDS_MAX, "head of a request");
_Static_assert(WR_AGENT_ANSWER_MAX == ANSWER_HEAD + VERDICT_BYTES * WEIR_LIMITS_MAX, "answer");
_Static_assert(WEIR_ANSWER_BYTES >= WR_AGENT_ANSWER_MAX, "weir.h promises room for it");
_Static_assert(WR_AGENT_RELEASE_BYTES == HEAD + WR_AGENT_HOLD_BYTES, "release");

/* ---- integers ------------------------------------------------------------------------------ */

static void put(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static int64_t get_signed(const uint8_t *at)
{
    return (int64_t)get(at, 8);
}

static void put_head(uint8_t *out, enum wr_agent_kind kind, size_t len, uint64_t id,
                     uint64_t fingerprint)
{
    put(out, len - PREFIX, 4);
    out[4] = WR_AGENT_VERSION;
    out[5] = (uint8_t)kind;
    put(out + 6, 0, 2);
    put(out + 8, id, 8);
    put(out + 16, fingerprint, 8);
}

int wr_agent_find(const uint8_t *bytes, size_t len, struct wr_agent_frame *out)
{
    uint64_t rest;

    memset(out, 0, sizeof *out);
    if (len < PREFIX + 2)
        return 0;
    rest = get(bytes, 4);
    if (rest < HEAD - PREFIX || rest > WR_AGENT_FRAME_MAX - PREFIX ||
        bytes[4] != WR_AGENT_VERSION || bytes[5] < WR_AGENT_ASK || bytes[5] > WR_AGENT_RELEASE)
        return WEIR_EFORMAT;
    if (len < PREFIX + rest)
        return 0;
    out->kind = (enum wr_agent_kind)bytes[5];
    out->len = PREFIX + (size_t)rest;
    out->id = get(bytes + 8, 8);
    out->fingerprint = get(bytes + 16, 8);
    return (int)out->len;
}

/* ---- requests ------------------------------------------------------------------------------ */

/* What the library would cut off itself need not be sent. */
static struct weir_slice without_query(struct weir_slice path)
{
    const char *query = path.len > 0 ? memchr(path.ptr, '?', path.len) : NULL;

    if (query != NULL)
        path.len = (size_t)(query - path.ptr);
    return path;
}

static bool add_text(struct wr_agent_ask *out, struct weir_slice text)
{
    if (text.len > WR_AGENT_FRAME_MAX - out->len)
        return false;
    out->len += text.len;
    out->text[out->text_count++] = text;
    return true;
}

int wr_agent_put_ask(struct wr_agent_ask *out, uint64_t id, uint64_t fingerprint,
                     const struct weir_request *request)
{
    const struct weir_slice first[3] = {request->method, without_query(request->path),
                                        request->peer};

    out->text_count = 0;
    out->head_len = 0;
    out->len = 0;
    if (request->field_count > WR_AGENT_FIELDS_MAX)
        return WEIR_EFULL;
    out->head_len = ASK_HEAD + 4U * (unsigned)request->field_count;
    out->len = out->head_len;
    for (size_t i = 0; i < 3; i++) {
        if (!add_text(out, first[i]))
            return WEIR_EFULL;
        put(out->head + 40 + 4 * i, first[i].len, 4);
    }
    for (size_t i = 0; i < request->field_count; i++) {
        struct weir_slice field = request->fields[i];
        if (field.ptr != NULL && !add_text(out, field))
            return WEIR_EFULL;
        put(out->head + ASK_HEAD + 4 * i, field.ptr != NULL ? field.len : ABSENT, 4);
    }
    put_head(out->head, WR_AGENT_ASK, out->len, id, fingerprint);
    put(out->head + 24, (uint64_t)request->cost_units, 8);
    put(out->head + 32, (uint64_t)(int64_t)request->plan, 4);
    out->head[36] = request->peek ? 1 : 0;
    out->head[37] = 0;
    put(out->head + 38, request->field_count, 2);
    return 0;
}

/* The next |len| bytes at |*at|. False: there are not as many. */
static bool take_text(const uint8_t *bytes, size_t frame_len, size_t *at, uint64_t len,
                      struct weir_slice *out)
{
    if (len > frame_len - *at)
        return false;
    *out = (struct weir_slice){(const char *)bytes + *at, (size_t)len};
    *at += (size_t)len;
    return true;
}

static bool get_texts(const uint8_t *bytes, size_t len, struct weir_slice *fields,
                      struct weir_request *out)
{
    size_t at = ASK_HEAD + 4 * out->field_count;
    struct weir_slice *first[3] = {&out->method, &out->path, &out->peer};

    for (size_t i = 0; i < 3; i++)
        if (!take_text(bytes, len, &at, get(bytes + 40 + 4 * i, 4), first[i]))
            return false;
    for (size_t i = 0; i < out->field_count; i++) {
        uint64_t field_len = get(bytes + ASK_HEAD + 4 * i, 4);
        fields[i] = (struct weir_slice){NULL, 0};
        if (field_len != ABSENT && !take_text(bytes, len, &at, field_len, &fields[i]))
            return false;
    }
    return at == len;
}

bool wr_agent_get_ask(const uint8_t *bytes, size_t len, struct weir_slice *fields,
                      struct weir_request *out)
{
    struct wr_agent_frame frame;

    memset(out, 0, sizeof *out);
    if (wr_agent_find(bytes, len, &frame) != (int)len || frame.kind != WR_AGENT_ASK ||
        len < ASK_HEAD)
        return false;
    out->cost_units = get_signed(bytes + 24);
    out->plan = (int32_t)(uint32_t)get(bytes + 32, 4);
    out->peek = bytes[36] != 0;
    out->field_count = (size_t)get(bytes + 38, 2);
    out->fields = fields;
    if (bytes[36] > 1 || bytes[37] != 0 || out->field_count > WR_AGENT_FIELDS_MAX ||
        len < ASK_HEAD + 4 * out->field_count || out->cost_units < -1 ||
        out->cost_units > WEIR_COST_MAX || out->plan < -1)
        return false;
    return get_texts(bytes, len, fields, out);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void put_verdict(uint8_t *out, const struct weir_verdict *verdict, int64_t next_ns,
                        int64_t reset_ns)
{
    out[0] = verdict->outcome;
    out[1] = verdict->reason;
    out[2] = verdict->shadow;
    out[3] = verdict->plan;
    put(out + 4, verdict->limit, 2);
    put(out + 6, 0, 2);
    put(out + 8, (uint64_t)verdict->capacity_units, 8);
    put(out + 16, (uint64_t)verdict->remaining_units, 8);
    put(out + 24, (uint64_t)verdict->retry_after_ns, 8);
    put(out + 32, (uint64_t)verdict->delay_ns, 8);
    put(out + 40, (uint64_t)next_ns, 8);
    put(out + 48, (uint64_t)reset_ns, 8);
}

size_t wr_agent_put_answer(uint8_t *out, uint64_t id, uint64_t fingerprint,
                           enum wr_agent_status status, const struct weir_answer *answer,
                           const struct wr_agent_more *more)
{
    unsigned count = status == WR_AGENT_DECIDED ? answer->count : 0;
    size_t len = ANSWER_HEAD + VERDICT_BYTES * count;

    put_head(out, WR_AGENT_ANSWER, len, id, fingerprint);
    memset(out + HEAD, 0, ANSWER_HEAD - HEAD);
    out[24] = (uint8_t)status;
    put(out + 28, (uint64_t)INT64_C(-1), 2);
    if (status != WR_AGENT_DECIDED)
        return len;
    out[25] = answer->outcome;
    out[26] = answer->reason;
    out[27] = answer->plan;
    put(out + 28, (uint64_t)(int64_t)answer->decisive, 2);
    out[30] = (uint8_t)count;
    if (answer->reason == WEIR_REASON_PLAN)
        out[31] = (uint8_t)(answer->upgrade_to + 1);
    put(out + 32, (uint64_t)answer->cost_units, 8);
    put(out + 40, (uint64_t)answer->delay_ns, 8);
    put(out + 48, (uint64_t)answer->retry_after_ns, 8);
    memcpy(out + 56, more->hold, WR_AGENT_HOLD_BYTES);
    for (unsigned i = 0; i < count; i++)
        put_verdict(out + ANSWER_HEAD + VERDICT_BYTES * i, &answer->verdicts[i], more->next_ns[i],
                    more->reset_ns[i]);
    return len;
}

static bool is_span(int64_t ns)
{
    return ns >= 0 && ns <= FAR_NS;
}

static bool is_retry(int64_t ns)
{
    return ns == WEIR_NEVER || is_span(ns);
}

static bool get_verdict(const uint8_t *at, struct weir_verdict *verdict, int64_t *next_ns,
                        int64_t *reset_ns)
{
    verdict->outcome = at[0];
    verdict->reason = at[1];
    verdict->shadow = at[2];
    verdict->plan = at[3];
    verdict->limit = (uint16_t)get(at + 4, 2);
    verdict->capacity_units = get_signed(at + 8);
    verdict->remaining_units = get_signed(at + 16);
    verdict->retry_after_ns = get_signed(at + 24);
    verdict->delay_ns = get_signed(at + 32);
    *next_ns = get_signed(at + 40);
    *reset_ns = get_signed(at + 48);
    return verdict->outcome <= WEIR_DENY && verdict->reason <= WEIR_REASON_PLAN &&
           verdict->shadow <= 1 && get(at + 6, 2) == 0 && verdict->remaining_units >= 0 &&
           verdict->remaining_units <= verdict->capacity_units &&
           is_retry(verdict->retry_after_ns) && is_span(verdict->delay_ns) && is_span(*next_ns) &&
           is_span(*reset_ns);
}

/* The head, and whether all is in range. */
static bool get_answer_head(const uint8_t *bytes, size_t len, struct weir_answer *answer)
{
    answer->outcome = bytes[25];
    answer->reason = bytes[26];
    answer->plan = bytes[27];
    answer->decisive = (int16_t)(uint16_t)get(bytes + 28, 2);
    answer->count = bytes[30];
    answer->upgrade_to = (int16_t)(bytes[31] - 1);
    answer->cost_units = get_signed(bytes + 32);
    answer->delay_ns = get_signed(bytes + 40);
    answer->retry_after_ns = get_signed(bytes + 48);
    return answer->outcome <= WEIR_SHADOW && answer->reason <= WEIR_REASON_PLAN &&
           answer->count <= WEIR_LIMITS_MAX &&
           bytes[31] <= (answer->reason == WEIR_REASON_PLAN ? INT8_MAX : 0) &&
           len == ANSWER_HEAD + VERDICT_BYTES * answer->count && answer->decisive >= -1 &&
           answer->decisive < (int)answer->count && answer->cost_units >= 0 &&
           answer->cost_units <= WEIR_COST_MAX && is_span(answer->delay_ns) &&
           is_retry(answer->retry_after_ns);
}

bool wr_agent_get_answer(const uint8_t *bytes, size_t len, enum wr_agent_status *status,
                         struct weir_answer *answer, struct wr_agent_more *more)
{
    struct wr_agent_frame frame;

    *status = WR_AGENT_BUSY;
    memset(answer, 0, sizeof *answer);
    memset(more, 0, sizeof *more);
    if (wr_agent_find(bytes, len, &frame) != (int)len || frame.kind != WR_AGENT_ANSWER ||
        len < ANSWER_HEAD || bytes[24] > WR_AGENT_BUSY || !get_answer_head(bytes, len, answer))
        return false;
    *status = (enum wr_agent_status)bytes[24];
    if (*status != WR_AGENT_DECIDED && answer->count > 0)
        return false;
    memcpy(more->hold, bytes + 56, WR_AGENT_HOLD_BYTES);
    for (unsigned i = 0; i < answer->count; i++)
        if (!get_verdict(bytes + ANSWER_HEAD + VERDICT_BYTES * i, &answer->verdicts[i],
                         &more->next_ns[i], &more->reset_ns[i]))
            return false;
    return true;
}

/* ---- releases ------------------------------------------------------------------------------ */

void wr_agent_put_release(uint8_t out[WR_AGENT_RELEASE_BYTES], uint64_t fingerprint,
                          const uint8_t hold[WR_AGENT_HOLD_BYTES])
{
    put_head(out, WR_AGENT_RELEASE, WR_AGENT_RELEASE_BYTES, 0, fingerprint);
    memcpy(out + HEAD, hold, WR_AGENT_HOLD_BYTES);
}

bool wr_agent_get_release(const uint8_t *bytes, size_t len, uint8_t hold[WR_AGENT_HOLD_BYTES])
{
    struct wr_agent_frame frame;

    memset(hold, 0, WR_AGENT_HOLD_BYTES);
    if (wr_agent_find(bytes, len, &frame) != (int)len || frame.kind != WR_AGENT_RELEASE ||
        len != WR_AGENT_RELEASE_BYTES)
        return false;
    memcpy(hold, bytes + HEAD, WR_AGENT_HOLD_BYTES);
    return true;
}
