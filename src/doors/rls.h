/* rls.h - answering a question of Envoy's rate limit service by the policy that a loop has,
 * whichever door it came through (gRPC, POST /json). */
#ifndef WR_DOORS_RLS_H
#define WR_DOORS_RLS_H

#include "base/descriptor.h"
#include "serve/asks.h"
#include "serve/serve.h"

#define WR_RLS_WAITS 1 /* for a store: see asks.h */
#define WR_RLS_STORE 2 /* it is gone, and a limit wants to be closed then */

/* What answers are written with; one a door. */
struct wr_rls_scratch {
    char headers[WEIR_HEADERS_BYTES];
    char body[WEIR_PROBLEM_BYTES];
    struct weir_answer answer;
    enum wr_door_id door; /* that it is of; set once */
    struct wr_asks *asks; /* of the question at hand */
};

/* Decide |request|. Texts in |out| live until |scratch| is used again or the policy changes.
 *
 * Returns: 0; WR_RLS_WAITS, there is no answer yet; WR_RLS_STORE, and |*why|; WEIR_EINVAL or
 * WEIR_EFULL, and |*why| (static) says what is wrong with the request.
 */
int wr_rls_answer(struct wr_loop *loop, const struct wr_rate_request *request,
                  struct wr_rls_scratch *scratch, struct wr_rate_response *out, const char **why);

#endif
