/* hmac.c - the vectors of RFC 4231 (cases 1, 2, 6: a short key, a word as key, a key longer than a
 * block), and one made with `openssl dgst -sha256 -hmac`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/hmac.h"

static const char *hmac_of(const void *key, size_t len, const char *message)
{
    static char text[2 * WR_SHA256_BYTES + 1];
    unsigned char digest[WR_SHA256_BYTES];
    size_t half = strlen(message) / 2;
    struct wr_hmac hmac;

    wr_hmac_init(&hmac, key, len);
    wr_hmac_add(&hmac, message, half);
    wr_hmac_add(&hmac, message + half, strlen(message) - half);
    wr_hmac_finish(&hmac, digest);
    for (unsigned i = 0; i < sizeof digest; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

static void test_vectors(void **state)
{
    unsigned char key[131];

    (void)state;
    memset(key, 0x0b, 20);
    assert_string_equal(hmac_of(key, 20, "Hi There"),
                        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_string_equal(hmac_of("Jefe", 4, "what do ya want for nothing?"),
                        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    assert_string_equal(
        hmac_of(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First"),
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    /* printf '' | openssl dgst -sha256 -hmac '' does without a key: HMAC("", ""). */
    assert_string_equal(hmac_of("", 0, ""),
                        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
