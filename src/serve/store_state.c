/* store_state.c - the store was lost, the store is back: once each, however many loops see it. */
#include "serve/store_state.h"

#include <stdio.h>

#include <uv.h>

#include "base/units.h"
#include "serve/log.h"

void wr_store_state_init(struct wr_store_state *state)
{
    *state = (struct wr_store_state){.lost = 0};
    (void)pthread_mutex_init(&state->mutex, NULL);
}

void wr_store_state_fini(struct wr_store_state *state)
{
    (void)pthread_mutex_destroy(&state->mutex);
}

void wr_store_state_lost(struct wr_store_state *state, const char *name, const char *detail)
{
    bool first;

    (void)pthread_mutex_lock(&state->mutex);
    first = state->lost++ == 0;
    if (first) {
        state->since_ns = uv_hrtime();
        (void)snprintf(state->detail, sizeof state->detail, "%s: %s", name, detail);
    }
    (void)pthread_mutex_unlock(&state->mutex);
    if (first)
        wr_log(WR_LOG_WARNING, "store lost", wr_log_text("store", name),
               wr_log_text("reason", detail));
}

void wr_store_state_back(struct wr_store_state *state, bool back, uint64_t at_ns)
{
    uint64_t elapsed_ns;
    bool last;

    (void)pthread_mutex_lock(&state->mutex);
    last = state->lost > 0 && --state->lost == 0;
    elapsed_ns = at_ns > state->since_ns ? at_ns - state->since_ns : 0;
    if (last)
        state->detail[0] = '\0';
    (void)pthread_mutex_unlock(&state->mutex);
    if (last && back)
        wr_log(WR_LOG_INFO, "store back",
               wr_log_number("gone_ms", (int64_t)(elapsed_ns / WR_NS_PER_MS)));
}

bool wr_store_state_gone(struct wr_store_state *state, char *detail, size_t size)
{
    bool gone;

    (void)pthread_mutex_lock(&state->mutex);
    gone = state->lost > 0;
    (void)snprintf(detail, size, "%s", state->detail);
    (void)pthread_mutex_unlock(&state->mutex);
    return gone;
}
