/* cas16.h - the few atomic operations on the arena's memory, which other processes change at will.
 *
 * The 16-byte compare-and-swap is __sync_*, never __atomic_* or _Atomic: for those gcc calls
 * libatomic even with -mcx16, and Debian's arm64 libatomic uses locks private to the process, which
 * on shared memory compiles, passes single-process tests and is wrong. x86-64 needs -mcx16 (inline
 * lock cmpxchg16b); arm64 gets CASP, or LDXP/STXP through libgcc. tests/layers.py holds this. Reads
 * are of 8 bytes: a 16-byte load would be a cmpxchg16b too, and fault on a read-only map. */
#ifndef WR_STORE_CAS16_H
#define WR_STORE_CAS16_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"
#include "store/layout.h"

#if defined(__SANITIZE_THREAD__)
#define WR_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WR_UNDER_TSAN 1
#endif
#endif

#define WR_LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define WR_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define WR_ADD(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)

/* May alias any object, as a pair of words is two uint64_t to everybody else. */
typedef wr_u128 __attribute__((may_alias)) wr_u128_alias;

/* ThreadSanitizer's runtime does 16-byte operations under a mutex of its process: not atomic
 * between processes. There the instruction itself is used, unseen by it; all that depends on its
 * order are other atomic operations, which it sees. */
#if defined(WR_UNDER_TSAN) && defined(__clang__)
#define WR_CAS16_LINKAGE static __attribute__((noinline, disable_sanitizer_instrumentation, unused))
#elif defined(WR_UNDER_TSAN)
#define WR_CAS16_LINKAGE static __attribute__((noinline, no_sanitize("thread"), unused))
#else
#define WR_CAS16_LINKAGE static inline
#endif

/* Change both words of |slot| if neither differs from what is expected. A full barrier. */
WR_CAS16_LINKAGE bool wr_cas16(struct wr_slot *slot, uint64_t word, uint64_t state,
                               uint64_t new_word, uint64_t new_state)
{
    return __sync_bool_compare_and_swap((wr_u128_alias *)(void *)slot, (wr_u128)state << 64 | word,
                                        (wr_u128)new_state << 64 | new_word);
}

static inline bool wr_cas8(uint64_t *p, uint64_t expected, uint64_t desired)
{
    return __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

static inline bool wr_cas4(uint32_t *p, uint32_t expected, uint32_t desired)
{
    return __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

#endif
