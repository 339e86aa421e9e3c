/* Any bytes as frames between processes of a host: what is read lies within them, and what was read
 * is written as it came. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

static void check_text(const uint8_t *bytes, size_t len, struct weir_slice text)
{
    const uint8_t *at = (const uint8_t *)text.ptr;

    must(at >= bytes && text.len <= len && (size_t)(at - bytes) <= len - text.len);
}

static void check_ask(const uint8_t *bytes, const struct wr_agent_frame *frame)
{
    struct weir_slice fields[WR_AGENT_FIELDS_MAX];
    struct weir_request request;
    struct wr_agent_ask ask;

    if (!wr_agent_get_ask(bytes, frame->len, fields, &request))
        return;
    must(request.cost_units >= -1 && request.cost_units <= WEIR_COST_MAX && request.plan >= -1);
    must(request.field_count <= WR_AGENT_FIELDS_MAX);
    check_text(bytes, frame->len, request.method);
    check_text(bytes, frame->len, request.path);
    check_text(bytes, frame->len, request.peer);
    for (size_t i = 0; i < request.field_count; i++)
        if (fields[i].ptr != NULL)
            check_text(bytes, frame->len, fields[i]);
    must(wr_agent_put_ask(&ask, frame->id, frame->fingerprint, &request) == 0);
    must(ask.len <= frame->len); /* without a query string */
}

static void check_answer(const uint8_t *bytes, const struct wr_agent_frame *frame)
{
    enum wr_agent_status status;
    struct weir_answer answer;
    struct wr_agent_more more;
    uint8_t again[WR_AGENT_ANSWER_MAX], hold[WR_AGENT_HOLD_BYTES];

    if (wr_agent_get_release(bytes, frame->len, hold)) {
        wr_agent_put_release(again, frame->fingerprint, hold);
        must(memcmp(again + 16, bytes + 16, frame->len - 16) == 0);
    }
    if (!wr_agent_get_answer(bytes, frame->len, &status, &answer, &more))
        return;
    must(answer.outcome <= WEIR_SHADOW && answer.count <= WEIR_LIMITS_MAX);
    must(answer.decisive >= -1 && answer.decisive < (int)answer.count);
    must(wr_agent_put_answer(again, frame->id, frame->fingerprint, status, &answer, &more) ==
         frame->len);
    if (status == WR_AGENT_DECIDED)
        must(memcmp(again + 8, bytes + 8, frame->len - 8) == 0); /* 6 and 7 are reserved */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wr_agent_frame frame;
    size_t at = 0;

    while (at < size) {
        uint8_t *copy;
        int len = wr_agent_find(data + at, size - at, &frame);
        must(len <= (int)WR_AGENT_FRAME_MAX && (len <= 0 || (size_t)len <= size - at));
        if (len <= 0)
            break;
        must(wr_agent_find(data + at, (size_t)len - 1, &(struct wr_agent_frame){0}) == 0);
        copy = malloc((size_t)len); /* exactly as long, so that a sanitizer sees its end */
        must(copy != NULL);
        memcpy(copy, data + at, (size_t)len);
        check_ask(copy, &frame);
        check_answer(copy, &frame);
        free(copy);
        at += (size_t)len;
    }
    return 0;
}
