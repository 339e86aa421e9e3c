/* scale.c - choosing how finely a limit measures time in units. */
#include "algo/scale.h"

/* now and a whole burst after it must fit in 64 bits: half the range for each. */
#define HALF_BITS 63U

bool wr_scale_make(struct wr_scale *out, int64_t units, int64_t window_ns, int64_t burst)
{
    uint64_t gcd = wr_gcd_u64((uint64_t)units, (uint64_t)window_ns);
    uint64_t n = (uint64_t)units / gcd;
    uint64_t w = (uint64_t)window_ns / gcd;
    uint64_t span; /* units from the epoch to the end of time */
    unsigned used;

    if (n == 1 && wr_bit_length(w) + wr_bit_length((uint64_t)burst) <= HALF_BITS) {
        *out = (struct wr_scale){1, 1, w};
        return true;
    }
    span = wr_muldiv_ceil((uint64_t)WR_TIME_MAX_NS, n, w);
    used = wr_bit_length(wr_max_u64(span, (uint64_t)burst));
    if (used > HALF_BITS)
        return false;
    /* n < 2^40 and unit <= 2^63: the numerator may pass 64 bits only where w is large as well, and
     * then span is small; shorten the fraction until it fits. */
    for (unsigned f = HALF_BITS - used;; f--) {
        if (wr_bit_length(n) + f <= 64) {
            *out = (struct wr_scale){n << f, w, UINT64_C(1) << f};
            return true;
        }
    }
}
