/* path.c - one path, however it is spelt. */
#include "policy/path.h"

#include "requests.h"

static struct wr_path path;
static enum wr_slashes slashes = WR_SLASH_IN_SEGMENT;

/* The segments of |raw|, each after a slash; "/" for the root. */
static const char *split(struct weir_slice raw)
{
    static char out[65536];
    size_t at = 0;

    wr_path_split(raw, slashes, &path);
    out[0] = '\0';
    for (uint32_t i = 0; i < path.count; i++)
        at += (size_t)snprintf(out + at, sizeof out - at, "/%.*s", (int)path.segment[i].len,
                               path.segment[i].ptr);
    return path.count == 0 ? "/" : out;
}

static void expect(const char *raw, const char *expected)
{
    const char *got = split(slice(raw));

    if (strcmp(got, expected) != 0)
        fail_msg("\"%s\" became \"%s\", not \"%s\"", raw, got, expected);
}

static void test_spellings_of_one_path(void **state)
{
    static const char *const same[] = {
        "/a/b",        "/a/b/",         "//a/b",         "/a//b",        "/./a/./b",
        "/a/x/../b",   "/a/b/.",        "/a/b/x/..",     "/%61/b",       "/a/%62",
        "/a/b?q=/c",   "/a/b#f",        "/../a/b",       "/../../a/b",   "a/b",
        "/%2e/a/b",    "/a/c/%2E%2e/b", "/a/c/.%2e/b",   "http://h/a/b", "HTTPS://h:1/a/b?x",
        "///a///b///", "/a/b/%2e",      "/x/../../a/b/",
    };
    (void)state;

    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        expect(same[i], "/a/b");
}

static void test_roots(void **state)
{
    static const char *const roots[] = {
        "",    "/",  "//",          "/.",           "/..",           "/a/..",   "?",
        "/?a", "/#", "http://host", "http://host/", "http://host?q", "/%2e%2e/"};
    (void)state;

    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
        expect(roots[i], "/");
    assert_string_equal(split((struct weir_slice){NULL, 0}), "/");
}

static void test_percent_encoding(void **state)
{
    (void)state;
    expect("/%41%5A%61%7a%30%39%2d%2E%5f%7E", "/AZaz09-._~");
    expect("/items%3Abatch%21%40", "/items:batch!@");
    expect("/caf%c3%a9", "/caf\xc3\xa9");
    expect("/a%20b%3fc%23d", "/a b?c#d");
    expect("/%25%36%31", "/%61"); /* decoded once: this is not "a" */
    expect("/%", "/%");
    expect("/%a", "/%a");
    expect("/%zz/%6", "/%zz/%6");
    expect("/%%61", "/%a");
    expect("/a%/b", "/a%/b"); /* never beyond the segment */
    expect("/a%2/f", "/a%2/f");
    expect("/A/a", "/A/a"); /* case counts */
    expect("/a+b", "/a+b");
    (void)split(slice("/%00x"));
    assert_int_equal(path.segment[0].len, 2);
    assert_memory_equal(path.segment[0].ptr, "\0x", 2);
}

/* Routers disagree on it: both readings are there. */
static void test_encoded_slashes(void **state)
{
    static const struct {
        const char *raw, *within, *separate;
    } cases[] = {
        {"/a%2fb", "/a%2Fb", "/a/b"},
        {"/a%2Fb/c", "/a%2Fb/c", "/a/b/c"},
        {"/x/..%2fa/b", "/x/..%2Fa/b", "/a/b"},
        {"/%2f%2F/", "/%2F%2F", "/"},
        {"%2fa", "/%2Fa", "/a"},
        {"/a%252fb", "/a%2fb", "/a%2fb"}, /* an encoded '%', no slash */
        {"/a/%2e%2e%2f%61", "/a/..%2Fa", "/a"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(cases[i].raw, cases[i].within);
        assert_int_equal(path.encoded_slash, strstr(cases[i].raw, "%25") == NULL);
        slashes = WR_SLASH_SEPARATES;
        expect(cases[i].raw, cases[i].separate);
        slashes = WR_SLASH_IN_SEGMENT;
    }
    expect("/a/b?c=%2f", "/a/b");
    assert_false(path.encoded_slash);
}

static void test_odd_targets(void **state)
{
    (void)state;
    expect("*", "/*");
    expect("example.com:443", "/example.com:443");
    expect("://x/y", "/:/x/y");
    expect("a b://x/y", "/a b:/x/y");
    expect("a_b://x/y", "/a_b:/x/y");
    expect("http:/x/y", "/http:/x/y");
    expect("/http://x/y", "/http:/x/y");
    expect("/...", "/...");
    expect("/..a/.b", "/..a/.b");
}

static void test_bytes(void **state)
{
    (void)state;
    assert_string_equal(split((struct weir_slice){"/a\0b/\xff", 6}), "/a/\xff");
    assert_int_equal(path.segment[0].len, 3);
}

static void test_more_segments_than_kept(void **state)
{
    char raw[4096] = "";
    (void)state;

    for (int i = 0; i < 70; i++)
        (void)snprintf(raw + strlen(raw), sizeof raw - strlen(raw), "/s%d", i);
    (void)split(slice(raw));
    assert_int_equal(path.count, WR_PATH_SEGMENTS_MAX);
    assert_int_equal(path.segment[63].len, 3);
    assert_memory_equal(path.segment[63].ptr, "s63", 3);

    /* Seven ".." take back the six that were not kept, and one that was. */
    for (int i = 0; i < 7; i++)
        (void)snprintf(raw + strlen(raw), sizeof raw - strlen(raw), "/%%2e.");
    (void)snprintf(raw + strlen(raw), sizeof raw - strlen(raw), "/end");
    (void)split(slice(raw));
    assert_int_equal(path.count, WR_PATH_SEGMENTS_MAX);
    assert_memory_equal(path.segment[62].ptr, "s62", 3);
    assert_memory_equal(path.segment[63].ptr, "end", 3);
}

static void test_no_path_exhausts_the_room_for_decoding(void **state)
{
    static char raw[200000];
    size_t at = 0;
    (void)state;

    while (at < sizeof raw - 32)
        at += (size_t)snprintf(raw + at, sizeof raw - at, "/%%61%%62/..");
    (void)snprintf(raw + at, sizeof raw - at, "/%%61/b");
    assert_string_equal(split(slice(raw)), "/a/b");
}

static void test_long_segments(void **state)
{
    static char raw[70000];
    (void)state;

    memset(raw, 'x', sizeof raw - 1);
    raw[0] = '/';
    (void)split(slice(raw));
    assert_int_equal(path.count, 1);
    assert_int_equal(path.segment[0].len, sizeof raw - 2);
    memcpy(raw + 1, "%61", 3);
    (void)split(slice(raw));
    assert_int_equal(path.segment[0].len, WR_SEGMENT_CUT); /* longer than any literal */
}

/* An encoding at the cut is left out whole; what is left must still be longer than any literal. */
static void test_a_cut_makes_no_literal(void **state)
{
    char raw[600];
    (void)state;

    for (size_t len = 250; len <= 260; len++) {
        memset(raw, 'x', sizeof raw);
        raw[0] = '/';
        memcpy(raw + 1, "%61", 3);
        memcpy(raw + 3 + len, "%2f", 3);
        wr_path_split((struct weir_slice){raw, 6 + len}, slashes, &path);
        assert_int_equal(path.count, 1);
        assert_in_range(path.segment[0].len, len + 3 <= WR_SEGMENT_CUT ? len + 3 : 256,
                        WR_SEGMENT_CUT);
    }
}

/* The 65th segment has no room to be decoded in; it is still told from "..". */
static void test_segments_without_room_are_told_from_dots(void **state)
{
    char raw[1024];
    size_t at = 0;
    (void)state;

    for (int i = 0; i < 65; i++)
        at += (size_t)snprintf(raw + at, sizeof raw - at, "/s%d", i);
    (void)snprintf(raw + at, sizeof raw - at, "/..%%2f/%%2e%%2e/%%2e%%2e/%%2e%%2e/%%65nd");
    (void)split(slice(raw));
    assert_int_equal(path.count, WR_PATH_SEGMENTS_MAX);
    assert_memory_equal(path.segment[62].ptr, "s62", 3); /* s63, s64 and "..%2f" were taken back */
    assert_memory_equal(path.segment[63].ptr, "end", 3);
}

static void test_decoding_never_cuts_an_encoding(void **state)
{
    char out[4];
    (void)state;

    assert_int_equal(wr_segment_decode(slice("ab%2f"), out, sizeof out), 2);
    assert_int_equal(wr_segment_decode(slice("a%2f"), out, sizeof out), 4);
    assert_memory_equal(out, "a%2F", 4);
    assert_int_equal(wr_segment_decode(slice("abc%61x"), out, sizeof out), 4);
    assert_memory_equal(out, "abca", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spellings_of_one_path),
        cmocka_unit_test(test_roots),
        cmocka_unit_test(test_percent_encoding),
        cmocka_unit_test(test_encoded_slashes),
        cmocka_unit_test(test_odd_targets),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_more_segments_than_kept),
        cmocka_unit_test(test_no_path_exhausts_the_room_for_decoding),
        cmocka_unit_test(test_long_segments),
        cmocka_unit_test(test_a_cut_makes_no_literal),
        cmocka_unit_test(test_segments_without_room_are_told_from_dots),
        cmocka_unit_test(test_decoding_never_cuts_an_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
