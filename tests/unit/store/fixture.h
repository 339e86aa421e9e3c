/* fixture.h - what the tests of the store share: an arena, and a judge of their own. A class's
 * params begin with {limit, window_ns}; a word is a plain count, a list counts its stamps; class
 * params of zeros are not valid. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "store/arena.h"
#include "weir/weir.h"

#define NOW (INT64_C(1700000000) * WR_NS_PER_S)

struct test_params {
    uint64_t limit;
    int64_t window_ns;
};

static inline bool test_judge(const unsigned char params[WR_CLASS_PARAMS], uint64_t value,
                              int64_t now_ns, struct wr_worth *out)
{
    struct test_params p;

    (void)now_ns;
    memcpy(&p, params, sizeof p);
    *out = (struct wr_worth){0, 0};
    if (p.limit == 0)
        return false;
    out->window_ns = p.window_ns;
    out->used_q32 = value >= p.limit ? UINT64_C(1) << 32 : (value << 32) / p.limit;
    return true;
}

static inline struct wr_class test_class(uint64_t limit, int64_t window_ns, int64_t tick_ns)
{
    struct wr_class class;
    struct test_params p = {limit, window_ns};

    memset(&class, 0, sizeof class);
    memcpy(class.params, &p, sizeof p);
    class.log_window_ns = tick_ns == 0 ? 0 : window_ns;
    class.log_tick_ns = tick_ns;
    return class;
}

static inline struct wr_arena *test_arena(const char *path, uint64_t bytes, unsigned share)
{
    static struct wr_diag diag;
    struct wr_arena_options options = {
        .path = path, .size_bytes = bytes, .node_share = share, .judge = test_judge};
    struct wr_arena *arena;
    char text[2048];

    wr_diag_init(&diag, path);
    if (wr_arena_open(&arena, &options, &diag) != 0) {
        (void)wr_diag_format(&diag, text, sizeof text);
        fail_msg("%s", text);
    }
    return arena;
}

static inline uint16_t test_class_make(struct wr_arena *arena, uint64_t limit, int64_t window_ns,
                                       int64_t tick_ns)
{
    struct wr_class class = test_class(limit, window_ns, tick_ns);
    uint16_t number;

    assert_int_equal(wr_arena_class(arena, &class, &number), 0);
    return number;
}

/* A well mixed number for |i|: stands in for the hash of a key (splitmix64). */
static inline uint64_t test_hash(uint64_t i)
{
    i += UINT64_C(0x9e3779b97f4a7c15);
    i = (i ^ (i >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    i = (i ^ (i >> 27)) * UINT64_C(0x94d049bb133111eb);
    return i ^ (i >> 31);
}

#endif
