/* shared_fixture.h - a request through begin, a store in memory, and finish. */
#ifndef TEST_ENGINE_SHARED_FIXTURE_H
#define TEST_ENGINE_SHARED_FIXTURE_H

#include "fixture.h"

#include "engine/shared.h"
#include "lib/handle.h"
#include "store_in_memory.h"

/* One node. */
struct node {
    struct weir *weir;
    struct memory_store *store; /* NULL: it is gone */
    int64_t extra, ttl_ns;      /* of the leases it asks for */
    unsigned nodes;
    struct wr_pending pending; /* of the last request */
    uint32_t refund;           /* what finish returned */
    bool asked;                /* the store was */
};

static inline bool begin_call(struct node *node, int64_t now, struct call call,
                              struct weir_answer *answer)
{
    struct weir_slice fields[FIELDS_MAX];
    struct weir_request request = request_of(node->weir, &call, fields);

    return wr_engine_begin(node->weir->engine, &request, now, answer, &node->pending);
}

/* What follows a begin that returned false. */
static inline void ask_store(struct node *node, int64_t now, struct weir_answer *answer)
{
    struct wr_remote_call *call = &node->pending.call;
    enum wr_remote_result result = WR_REMOTE_GONE;

    assert_int_equal(answer->outcome, WEIR_ASK);
    node->asked = true;
    for (unsigned i = 0; i < call->count; i++) {
        if (wr_engine_lease_key(&node->pending, i) == 0)
            continue;
        call->charge[i].extra = node->extra;
        call->charge[i].ttl_ns = node->ttl_ns;
    }
    if (node->store != NULL) {
        memory_store_take(node->store, call, now);
        result = WR_REMOTE_DONE;
    }
    node->refund =
        wr_engine_finish(node->weir->engine, &node->pending, result, node->nodes, now, answer);
    for (unsigned i = 0; i < call->count && node->store != NULL; i++)
        if ((node->refund >> i & 1) != 0)
            memory_store_refund(node->store, &call->charge[i], call->charge[i].cost, now);
}

static inline struct weir_answer request(struct node *node, int64_t now, struct call call)
{
    struct weir_answer answer;

    node->asked = false;
    node->refund = 0;
    if (!begin_call(node, now, call, &answer))
        ask_store(node, now, &answer);
    assert_int_not_equal(answer.outcome, WEIR_ASK);
    return answer;
}

#endif
