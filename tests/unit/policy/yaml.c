/* yaml.c - what a policy's text may be, and what is refused before anybody reads it. */
#include "policy/yaml.h"

#include "requests.h"

static void test_places_and_kinds(void **state)
{
    static const char text[] = "a: 1\n"
                               "b: [x, 'y z', {c: d}]\n"
                               "  \n"
                               "é: \"q\"\n"
                               "f:\n"
                               "  - >\n"
                               "   folded\n";
    struct wr_region region = {0};
    const struct wr_yaml *root, *node;
    (void)state;

    assert_true(wr_yaml_parse(&root, text, sizeof text - 1, &region, NULL));
    assert_int_equal(root->kind, WR_YAML_MAP);
    assert_int_equal(root->count, 4);
    node = root->first;
    assert_string_equal(node->key->text, "a");
    assert_string_equal(node->text, "1");
    assert_true(node->plain);
    assert_int_equal(node->line, 1);
    assert_int_equal(node->column, 4);
    node = node->next;
    assert_int_equal(node->kind, WR_YAML_LIST);
    assert_int_equal(node->count, 3);
    assert_string_equal(node->first->next->text, "y z");
    assert_false(node->first->next->plain);
    assert_int_equal(node->first->next->column, 8);
    assert_int_equal(node->first->next->next->kind, WR_YAML_MAP);
    assert_string_equal(node->first->next->next->first->key->text, "c");
    node = node->next;
    assert_string_equal(node->key->text, "é");
    assert_int_equal(node->line, 4);
    assert_int_equal(node->column, 4); /* in characters, not bytes */
    node = node->next;
    assert_false(node->first->plain);
    assert_null(node->next);
    wr_region_fini(&region);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    expect_errors("a: &x 1\nb: *x\n",
                  "1:4: error: expected a value, found an anchor (&name): anchors and aliases are "
                  "not part of a policy; write the value where it is needed\n"
                  "2:4: error: expected a value, found an alias (*name): anchors and aliases are "
                  "not part of a policy; quote the text if it begins with a star\n");
    expect_errors("a: &x [1]\n",
                  "1:4: error: expected a value, found an anchor (&name): anchors and aliases are "
                  "not part of a policy; write the value where it is needed\n");
    expect_errors("a: !!str 1\nb: !x {}\nc: !<y> []\n",
                  "1:4: error: expected a value, found a tag (!name): tags are not part of a "
                  "policy\n"
                  "2:4: error: expected a value, found a tag (!name): tags are not part of a "
                  "policy\n"
                  "3:4: error: expected a value, found a tag (!name): tags are not part of a "
                  "policy\n");
    expect_errors("a: 1\n---\nb: 1\n",
                  "2:1: error: expected the end of the file, found a second document (---)\n");
    expect_errors("[a, b]: 1\n",
                  "1:1: error: expected a key, found a list or a map in its place\n");
    expect_errors("a: \"x\\0y\"\n", "1:4: error: expected text, found a NUL character in it\n");
}

static void test_keys_given_twice(void **state)
{
    (void)state;
    /* The key is not quoted: it may be an API key. */
    expect_errors("a: {s3cret: 1, b: 2, s3cret: 3, c: 4, s3cret: 5}\nb: 1\nb: 2\n",
                  "1:22: error: expected each key once, found this one again (first on line 1)\n"
                  "1:39: error: expected each key once, found this one again (first on line 1)\n"
                  "3:1: error: expected each key once, found this one again (first on line 2)\n");
}

static void test_syntax(void **state)
{
    int result;
    (void)state;

    assert_non_null(strstr(messages_of("a: [1,\nb: 2\n", 12, &result),
                           "needs quotes")); /* a hint where flow style goes wrong */
    assert_int_equal(result, WEIR_EPOLICY);
    (void)messages_of("\tx: 1\n", 6, &result);
    assert_int_equal(result, WEIR_EPOLICY);
    assert_non_null(strstr(messages_of("a: 'b\n", 6, &result), "expected YAML, "));
    assert_int_equal(result, WEIR_EPOLICY);
}

static void expect_bytes(const char *text, size_t len, const char *expected)
{
    int result;

    assert_string_equal(messages_of(text, len, &result), expected);
    assert_int_equal(result, WEIR_EPOLICY);
}

static void test_bytes_that_are_no_text(void **state)
{
    (void)state;
    expect_bytes("a: 1\nb: \xff\n", 10,
                 "2:4: error: expected UTF-8 text without control characters, found byte 0xff\n");
    expect_bytes("\xff\xfe"
                 "a",
                 3, " error: expected UTF-8 text, found UTF-16 (a byte order mark)\n");
    /* The UTF-8 mark that some editors write first is passed over: places count from behind it. */
    expect_bytes("\xef\xbb\xbf"
                 "a: \x01",
                 7,
                 "1:4: error: expected UTF-8 text without control characters, found byte 0x01\n");
    expect_bytes("a: \xc3", 4,
                 "1:4: error: expected UTF-8 text without control characters, found byte 0xc3\n");
    expect_bytes("a: \x01", 4,
                 "1:4: error: expected UTF-8 text without control characters, found byte 0x01\n");
    expect_bytes("é: \0x", 6, "1:4: error: expected text, found a NUL byte\n");
}

static void test_bounds(void **state)
{
    static char text[WR_POLICY_BYTES_MAX + 2];
    int result;
    (void)state;

    memset(text, '[', 64);
    assert_string_equal(messages_of(text, 64, &result),
                        "1:41: error: expected at most 40 levels of lists and maps, found more\n");
    memset(text, ' ', sizeof text);
    assert_non_null(strstr(messages_of(text, WR_POLICY_BYTES_MAX + 1, &result),
                           "expected a policy of at most 4194304 bytes, found more"));
    assert_int_equal(result, WEIR_EPOLICY);
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, i == 0 ? "[x" : ",x", 2);
    assert_non_null(strstr(messages_of(text, WR_POLICY_BYTES_MAX, &result),
                           "expected at most 200000 values in a policy, found more"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_and_kinds),       cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_keys_given_twice),       cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_bytes_that_are_no_text), cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
