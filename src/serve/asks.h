/* asks.h - decisions that may have to wait for a store, for doors that decode, decide and answer in
 * one go: by stopping, and doing it again.
 *
 * A door handles a request and asks for its decision. Where it is false the answer is not there
 * yet: the door then stops, uses nothing up of its input, and is resumed when all that it asked for
 * is there. It handles the same input again, and gets the same decisions in the same order. When
 * the answer is out it says so, and they are forgotten.
 *
 *     wr_asks_again(asks)                at the beginning, each time
 *     wr_asks_decide(asks, ...)          true: answered. False: stop, after asking for what else
 *                                        the input at hand needs
 *     wr_asks_answered(asks)             what was given out is answered
 *     wr_asks_abandon(asks)              the caller has gone: what was taken goes back
 *
 * Where a policy shares nothing this is weir_decide and no more. */
#ifndef WR_SERVE_ASKS_H
#define WR_SERVE_ASKS_H

#include "policy/policy.h"
#include "serve/serve.h"

#define WR_ASKS_BATCH 64U

struct wr_question;

/* Of one connection, or of one call of it. All zeros but loop, resume and context at first. */
struct wr_asks {
    struct wr_loop *loop;
    void (*resume)(void *context); /* all is there; from the loop, never from within a call here */
    void *context;
    /* Remember what is decided at once too: the door asks for several before it takes any. */
    bool keep;
    /* private */
    struct wr_question *first, **last, **at; /* in order; *at: to be given out next */
    unsigned outstanding;
    bool ready; /* among the broker's that go on */
    struct wr_asks *previous_ready, *next_ready;
    uint64_t since_ns; /* uv_hrtime of the first that was not there at once; 0: all were */
};

/* Is it waiting? */
static inline bool wr_asks_waits(const struct wr_asks *asks)
{
    return asks->outstanding > 0;
}

/* When what is at hand was begun, if it had to wait; else |now_ns|. Both of uv_hrtime. */
static inline uint64_t wr_asks_since(const struct wr_asks *asks, uint64_t now_ns)
{
    return asks->since_ns != 0 ? asks->since_ns : now_ns;
}

/* Does the loop's policy share limits at all, limit |limit| of it? */
bool wr_asks_shares(const struct wr_loop *loop);
bool wr_asks_shares_limit(const struct wr_loop *loop, unsigned limit);

void wr_asks_again(struct wr_asks *asks);
void wr_asks_answered(struct wr_asks *asks);
void wr_asks_abandon(struct wr_asks *asks);

/* As weir_decide by the loop's policy, of a request that is valid. */
bool wr_asks_decide(struct wr_asks *asks, const struct weir_request *request,
                    struct weir_answer *answer);
/* The same for a reservation; the caller sets answer->expires_ns. */
bool wr_asks_reserve(struct wr_asks *asks, const struct weir_request *request,
                     struct weir_answer *answer);
/* As many requests in a row, for a door that answers all of them at once; |keep| is not needed.
 * False: what there is is remembered, and all are asked again, from the first. |n| <=
 * WR_ASKS_BATCH. */
bool wr_asks_decide_all(struct wr_asks *asks, const struct weir_request *requests, size_t n,
                        struct weir_answer *answers);
/* One limit and one key under the default plan. */
bool wr_asks_check(struct wr_asks *asks, unsigned limit, struct weir_slice key, int64_t cost,
                   struct weir_answer *answer);
/* As many in a row, limits that share nothing among them. Returns how many from the first on can be
 * asked no more: |n|, and all are in |verdicts|, given out, and nothing is remembered; or fewer, of
 * which the shared ones are remembered, and from there on each is for wr_asks_check. 0 where
 * anything is remembered already. |n| <= WR_ASKS_BATCH. */
unsigned wr_asks_check_all(struct wr_asks *asks, const struct weir_charge *charges, unsigned n,
                           struct weir_verdict *verdicts);
/* The same under |plan| for a key of parts, by the store itself and not by what it has leased: to
 * reserve, and, with a cost of 0, to look. */
bool wr_asks_one(struct wr_asks *asks, const struct wr_selected *key, unsigned plan, int64_t cost,
                 struct weir_answer *answer);

/* What the store has counted of a quota in its window of now: *|used|, or -1 where it cannot be
 * asked. By the plan that admits most, as the others' numbers hide what is beyond them. |keep| is
 * needed, and all that is asked is to be asked again when it is false. */
bool wr_asks_counted(struct wr_asks *asks, const struct wr_selected *key, int64_t *used);

/* The next of those that are remembered, each of them decided; false: there is none. Also under
 * another policy than they were asked under. */
bool wr_asks_next(struct wr_asks *asks, struct weir_answer *answer);

/* A key of one plain part, as wr_asks_check has it. */
struct wr_selected wr_asks_plain_key(unsigned limit, struct weir_slice key);

#endif
