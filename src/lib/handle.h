/* handle.h - what a struct weir is: a policy, an arena, and the engine that binds them. */
#ifndef WR_LIB_HANDLE_H
#define WR_LIB_HANDLE_H

#include "engine/engine.h"

#define WR_ASK_LINKS 16 /* connections to the host's weir serve that a handle keeps */

struct weir {
    struct wr_policy *policy;
    struct wr_arena *arena;
    struct wr_engine *engine;
    uint64_t fingerprint;        /* of the order of its fields, limits and plans */
    uint64_t link[WR_ASK_LINKS]; /* atomic; ask_link.h's */
};

/* In weir_answer.flags: decided by the host's weir serve. It has what was taken; receipts[0] has
 * the name of the places among that, zeros where there are none. */
#define WR_ANSWER_ASKED 0x80

static inline bool wr_asked_holds(const struct weir_answer *answer)
{
    return (answer->receipts[0].word[0] | answer->receipts[0].word[1]) != 0;
}

/* The verdict to speak of to a caller: answer->decisive, but never a shadow limit's: instead the
 * enforced one nearest its end. -1: none. */
int wr_answer_spoken(const struct weir_answer *answer);

/* Are all arguments of a decision within their ranges? */
bool wr_weir_is_request(const struct weir *w, const struct weir_request *request, int64_t now);

/* Of its fields, limits and plans; see wire/agent.h. */
uint64_t wr_weir_fingerprint(const struct wr_policy *policy);

/* Read the request |bytes|, a whole frame. Returns 0; WEIR_EPOLICY: its sender has another policy;
 * WEIR_EFORMAT. |fields| has room for WR_AGENT_FIELDS_MAX. */
int wr_weir_read_ask(const struct weir *w, const void *bytes, size_t len, struct weir_slice *fields,
                     struct weir_request *out);

/* Write |answer|, decided here, to request |id|; |hold| names its places. As wr_agent_put_answer.
 */
size_t wr_weir_write_answer(const struct weir *w, const struct weir_answer *answer, uint64_t id,
                            const uint8_t hold[16], uint8_t *out);

/* As weir_open, for a policy that takes the place of |before|'s: the arena of |before| is shared
 * where the policy names the same one (or none, as before). |before| NULL: as weir_open. */
int wr_weir_open(struct weir **out, const char *policy_path, const struct weir_options *options,
                 const struct weir *before, char *errors, size_t errors_size);

#endif
