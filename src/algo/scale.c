/* scale.c - choosing how finely a limit measures time in units.
 *
 * Problem. A cost of c units must move a state by exactly c * W/N, and W/N is seldom a whole number
 * of ns. Idea. Count time in quanta of which a unit holds a whole number and which are about a ns:
 *
 *   N divides W:  a quantum is a ns, a unit is W/N of them.
 *   otherwise:    a unit is 2^f quanta, W is N * 2^f of them; f is the largest for which a quantum
 * is not shorter than a ns, so it is shorter than two.
 *
 * Invariants.
 *   1. den == 1 exactly where num == den == 1 (N and W without common factors, W = 1 means N = 1).
 *   2. num <= den: quanta(t) <= t, so 63 bits of ns are at most 63 bits of quanta.
 *   3. quanta(t + W) = quanta(t) + N * unit for every t: W * num / den = N * unit is whole.
 *
 * Rejected: ns and a rounded W/N (3/second becomes 333333333 ns and gains a unit every three years;
 * 7/second loses one; a refill at exactly 1 s is missed by a ns). A fraction as fine as the word
 * allows (nothing gains, and the head room for queues and debts is lost). */
#include "algo/scale.h"

struct wr_scale wr_scale_make(int64_t units, int64_t window_ns)
{
    uint64_t gcd, n, w;
    unsigned f;

    if (units == 0)
        return (struct wr_scale){1, 1, 1};
    gcd = wr_gcd_u64((uint64_t)units, (uint64_t)window_ns);
    n = (uint64_t)units / gcd;
    w = (uint64_t)window_ns / gcd;
    if (n == 1)
        return (struct wr_scale){1, 1, w};
    f = wr_bit_length(w / n | 1) - 1; /* floor(log2(w / n)); WR_RATE_PER_S_MAX means n <= w */
    return (struct wr_scale){n << f, w, UINT64_C(1) << f};
}
