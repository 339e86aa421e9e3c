/* sha256.c - the vectors of FIPS 180-4 (its examples "abc", two blocks, a million), and every way
 * to cut a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/sha256.h"

static const char *finish(struct wr_sha256 *sha)
{
    static char text[2 * WR_SHA256_BYTES + 1];
    unsigned char digest[WR_SHA256_BYTES];

    wr_sha256_finish(sha, digest);
    for (unsigned i = 0; i < sizeof digest; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

static const char *sha256_of(const char *message)
{
    struct wr_sha256 sha;

    wr_sha256_init(&sha);
    wr_sha256_add(&sha, message, strlen(message));
    return finish(&sha);
}

static void test_vectors(void **state)
{
    struct wr_sha256 sha;
    char thousand[1000];
    (void)state;

    assert_string_equal(sha256_of(""),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(sha256_of("abc"),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(thousand, 'a', sizeof thousand);
    wr_sha256_init(&sha);
    for (int i = 0; i < 1000; i++)
        wr_sha256_add(&sha, thousand, sizeof thousand);
    assert_string_equal(finish(&sha),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Lengths around a block and around where the length no longer fits; cut anywhere, the same. */
static void test_cuts(void **state)
{
    unsigned char message[130];
    (void)state;

    for (unsigned i = 0; i < sizeof message; i++)
        message[i] = (unsigned char)(7 * i);
    for (size_t len = 0; len <= sizeof message; len++) {
        char whole[2 * WR_SHA256_BYTES + 1];
        struct wr_sha256 sha;
        wr_sha256_init(&sha);
        wr_sha256_add(&sha, message, len);
        (void)snprintf(whole, sizeof whole, "%s", finish(&sha));
        for (size_t cut = 0; cut <= len; cut++) {
            wr_sha256_init(&sha);
            wr_sha256_add(&sha, message, cut);
            wr_sha256_add(&sha, message + cut, len - cut);
            assert_string_equal(finish(&sha), whole);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
