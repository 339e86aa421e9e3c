/* siphash.c - against a second implementation, written from the paper byte by byte, that knows
 * nothing of parts: it hashes the encoding that siphash.h promises, as one string. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"

/* ---- SipHash-c-d as in the paper, section 2 ---------------------------------------------- */

typedef unsigned char byte;

/* Words are kept as eight bytes, least significant first, so that nothing here depends on the
 * machine. */
static uint64_t word_at(const byte *p)
{
    uint64_t w = 0;
    for (int i = 7; i >= 0; i--)
        w = w * 256 + p[i];
    return w;
}

static uint64_t left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void paper_round(uint64_t v[4])
{
    v[0] += v[1], v[2] += v[3];
    v[1] = left(v[1], 13), v[3] = left(v[3], 16);
    v[1] ^= v[0], v[3] ^= v[2];
    v[0] = left(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = left(v[1], 17), v[3] = left(v[3], 21);
    v[1] ^= v[2], v[3] ^= v[0];
    v[2] = left(v[2], 32);
}

/* |m| of |len| bytes, a multiple of eight where |bare|: then without the paper's last block (the
 * length), as siphash.h, whose parts carry their lengths, leaves it out. */
static uint64_t paper_hash(const byte key[16], const byte *m, size_t len, int c, int d, bool bare)
{
    uint64_t k0 = word_at(key), k1 = word_at(key + 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575U, k1 ^ 0x646f72616e646f6dU, k0 ^ 0x6c7967656e657261U,
                     k1 ^ 0x7465646279746573U};
    size_t blocks = len / 8 + (bare ? 0 : 1);

    for (size_t i = 0; i < blocks; i++) {
        byte block[8] = {0};
        size_t left_over = len - i * 8 < 8 ? len - i * 8 : 8;
        memcpy(block, m + i * 8, left_over);
        if (!bare && i + 1 == blocks)
            block[7] = (byte)len;
        v[3] ^= word_at(block);
        for (int r = 0; r < c; r++)
            paper_round(v);
        v[0] ^= word_at(block);
    }
    v[2] ^= 0xff;
    for (int r = 0; r < d; r++)
        paper_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static const byte paper_key[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Is the second implementation right? The worked example of the paper's appendix A: SipHash-2-4 of
 * the fifteen bytes 00 .. 0e. */
static void test_second_implementation_gives_the_papers_example(void **state)
{
    byte m[15];
    (void)state;

    for (byte i = 0; i < sizeof m; i++)
        m[i] = i;
    assert_true(paper_hash(paper_key, m, sizeof m, 2, 4, false) == UINT64_C(0xa129ca6149be45e5));
}

/* ---- parts ------------------------------------------------------------------------------- */

/* The encoding of one part, appended at |to|: {length | kind << 56}, the bytes, zeros up to a
 * multiple of eight. Returns its length. */
static size_t encode(byte *to, byte kind, const byte *bytes, size_t len)
{
    size_t padded = (len + 7) / 8 * 8;

    memset(to, 0, 8 + padded);
    for (size_t i = 0, rest = len; i < 7; i++, rest /= 256)
        to[i] = (byte)(rest % 256);
    to[7] = kind;
    if (len > 0)
        memcpy(to + 8, bytes, len);
    return 8 + padded;
}

static struct wr_sip_key key_of(const byte key[16])
{
    return (struct wr_sip_key){{word_at(key), word_at(key + 8)}};
}

static void test_every_length_of_one_part(void **state)
{
    byte bytes[70], encoded[96];
    (void)state;

    for (size_t len = 0; len < sizeof bytes; len++) {
        struct wr_sip sip = wr_sip_init(key_of(paper_key));
        bytes[len] = (byte)(len * 37 + 11);
        wr_sip_part(&sip, (uint8_t)len, bytes, len);
        assert_true(wr_sip_finish(sip) == paper_hash(paper_key, encoded,
                                                     encode(encoded, (byte)len, bytes, len), 1, 3,
                                                     true));
    }
}

static void test_random_lists_of_parts(void **state)
{
    byte key[16], bytes[64], encoded[8 * 80];
    (void)state;

    srand(20260601);
    for (int round = 0; round < 2000; round++) {
        struct wr_sip sip;
        size_t at = 0;
        for (size_t i = 0; i < sizeof key; i++)
            key[i] = (byte)rand();
        sip = wr_sip_init(key_of(key));
        for (int parts = rand() % 8; parts > 0; parts--) {
            size_t len = (size_t)rand() % sizeof bytes;
            byte kind = (byte)rand();
            for (size_t i = 0; i < len; i++)
                bytes[i] = (byte)rand();
            wr_sip_part(&sip, kind, bytes, len);
            at += encode(encoded + at, kind, bytes, len);
        }
        assert_true(wr_sip_finish(sip) == paper_hash(key, encoded, at, 1, 3, true));
    }
}

static uint64_t hash_two(const char *a, const char *b, uint8_t kind)
{
    struct wr_sip sip = wr_sip_init(key_of(paper_key));
    wr_sip_part(&sip, 0, a, strlen(a));
    wr_sip_part(&sip, kind, b, strlen(b));
    return wr_sip_finish(sip);
}

static void test_lists_do_not_collide_by_concatenation(void **state)
{
    struct wr_sip one = wr_sip_init(key_of(paper_key));
    (void)state;

    assert_true(hash_two("a", "bc", 0) != hash_two("ab", "c", 0));
    assert_true(hash_two("abc", "", 0) != hash_two("", "abc", 0));
    assert_true(hash_two("a", "b", 0) != hash_two("a", "b", 1)); /* kinds differ */
    wr_sip_part(&one, 0, "a", 1);
    assert_true(wr_sip_finish(one) != hash_two("a", "", 0)); /* an empty part is a part */
}

static void test_zeros_at_the_end_count(void **state)
{
    struct wr_sip a = wr_sip_init(key_of(paper_key)), b = a;
    (void)state;

    wr_sip_part(&a, 0, "x", 1);
    wr_sip_part(&b, 0, "x\0", 2);
    assert_true(wr_sip_finish(a) != wr_sip_finish(b));
}

static void test_a_state_is_a_value(void **state)
{
    struct wr_sip prefix = wr_sip_init(key_of(paper_key)), copy, whole;
    (void)state;

    wr_sip_part(&prefix, 3, "prefix", 6);
    whole = prefix;
    copy = prefix;
    wr_sip_part(&copy, 0, "first", 5);
    wr_sip_part(&whole, 0, "second", 6);
    wr_sip_part(&prefix, 0, "first", 5);
    assert_true(wr_sip_finish(prefix) == wr_sip_finish(copy));
    assert_true(wr_sip_finish(prefix) != wr_sip_finish(whole));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_implementation_gives_the_papers_example),
        cmocka_unit_test(test_every_length_of_one_part),
        cmocka_unit_test(test_random_lists_of_parts),
        cmocka_unit_test(test_lists_do_not_collide_by_concatenation),
        cmocka_unit_test(test_zeros_at_the_end_count),
        cmocka_unit_test(test_a_state_is_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
