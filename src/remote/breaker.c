/* breaker.c - a circuit breaker.
 *
 * A server that is gone costs every request its deadline, and one that comes back is drowned by all
 * who waited. So after a few failures nobody asks any more; single probes do, at growing distances.
 *
 * Idea. Two reasons open it: WR_BREAKER_ROW failures in a row (it is dead), or half of the calls of
 * a span (it is sick). A pause of 200 ms doubles to 5 s with each probe that fails; its second half
 * is random. A probe that succeeds closes it on trial: the next failure opens it again with the
 * longer pause, the next success forgets the pauses.
 *
 * Invariants.
 *   1. WR_BREAKER_PAUSE_NS <= pause <= WR_BREAKER_PAUSE_MAX_NS, by the clock passed in.
 *   2. Between two probes lies a pause; there is one probe at a time.
 *   3. Counts are of one span, started by its first call.
 *
 * Rejected: letting one request through as the probe (it pays the deadline; connecting and
 * greeting, with a trial of what decisions need, is a probe that nobody waits for); forgetting the
 * pauses at the first successful probe (a server that greets and then stalls would be probed every
 * 100 ms for ever). */
#include "remote/breaker.h"

#include "base/arith.h"

#define FIRST_PAUSE_NS (2 * WR_BREAKER_PAUSE_NS)
#define LEVEL_MAX 5 /* 200 ms << 5 is above 5 s */

void wr_breaker_init(struct wr_breaker *breaker, uint64_t seed)
{
    *breaker = (struct wr_breaker){.random = seed == 0 ? 1 : seed};
}

/* xorshift64 (Marsaglia 2003): jitter needs no more. */
static uint64_t roll(struct wr_breaker *breaker)
{
    breaker->random ^= breaker->random << 13;
    breaker->random ^= breaker->random >> 7;
    breaker->random ^= breaker->random << 17;
    return breaker->random;
}

void wr_breaker_trip(struct wr_breaker *breaker, int64_t now_ns)
{
    uint64_t pause_ns =
        wr_min_u64((uint64_t)FIRST_PAUSE_NS << breaker->level, (uint64_t)WR_BREAKER_PAUSE_MAX_NS);

    if (breaker->state == WR_BREAKER_OPEN)
        return;
    breaker->state = WR_BREAKER_OPEN;
    breaker->until_ns = now_ns + (int64_t)(pause_ns / 2 + roll(breaker) % (pause_ns / 2 + 1));
    if (breaker->level < LEVEL_MAX)
        breaker->level++;
    breaker->row = breaker->calls = breaker->failures = 0;
}

bool wr_breaker_probe(struct wr_breaker *breaker, int64_t now_ns)
{
    if (breaker->state != WR_BREAKER_OPEN || now_ns < breaker->until_ns)
        return false;
    breaker->state = WR_BREAKER_PROBING;
    return true;
}

static void count(struct wr_breaker *breaker, int64_t now_ns, uint32_t failures)
{
    if (breaker->calls == 0 || now_ns - breaker->span_ns >= WR_BREAKER_SPAN_NS) {
        breaker->span_ns = now_ns;
        breaker->calls = breaker->failures = 0;
    }
    breaker->calls++;
    breaker->failures += failures;
}

void wr_breaker_succeeded(struct wr_breaker *breaker, int64_t now_ns)
{
    if (breaker->state == WR_BREAKER_OPEN)
        return;
    if (breaker->state == WR_BREAKER_PROBING) {
        breaker->state = WR_BREAKER_CLOSED;
        breaker->trial = true;
        return;
    }
    breaker->trial = false;
    breaker->row = 0;
    breaker->level = 0;
    count(breaker, now_ns, 0);
}

void wr_breaker_failed(struct wr_breaker *breaker, int64_t now_ns)
{
    if (breaker->state == WR_BREAKER_OPEN)
        return;
    breaker->row++;
    count(breaker, now_ns, 1);
    if (breaker->state == WR_BREAKER_PROBING || breaker->trial || breaker->row >= WR_BREAKER_ROW ||
        (breaker->calls >= WR_BREAKER_CALLS && breaker->failures * 2 >= breaker->calls))
        wr_breaker_trip(breaker, now_ns);
}

int64_t wr_breaker_wait_ns(const struct wr_breaker *breaker, int64_t now_ns)
{
    return breaker->state == WR_BREAKER_OPEN ? wr_max_i64(0, breaker->until_ns - now_ns) : 0;
}
