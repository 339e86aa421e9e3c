/* match.c - the tree of patterns, by hand and against a matcher that tries every pattern. */
#include "policy/match.h"

#include <stdlib.h>

#include "requests.h"

static struct wr_region region;
static struct wr_tree tree;
static uint32_t added;

static void start(void)
{
    wr_region_fini(&region);
    tree = (struct wr_tree){0};
    added = 0;
}

static void add(const char *pattern)
{
    size_t at;
    const char *wrong = wr_tree_add(&tree, &region, pattern, WR_USE_ROUTE, added++, &at);

    if (wrong != NULL)
        fail_msg("%s: %s", pattern, wrong);
}

/* All patterns that match, the most specific first, joined by blanks; |*visited| counts nodes. */
static const char *matches(const char *raw, size_t *visited)
{
    static char out[65536];
    static const struct wr_pattern_end *found[4096];
    static struct wr_path path;
    struct wr_walk walk;
    const struct wr_tree_node *node;
    size_t n = 0, at = 0;

    wr_path_split(slice(raw), WR_SLASH_IN_SEGMENT, &path);
    wr_walk_start(&walk, &tree, &path);
    while ((node = wr_walk_next(&walk)) != NULL) {
        assert_non_null(node->ends);
        for (const struct wr_pattern_end *end = node->ends; end != NULL; end = end->next) {
            size_t i = n++;
            assert_in_range(n, 1, sizeof found / sizeof found[0]);
            for (; i > 0 && found[i - 1]->rank > end->rank; i--)
                found[i] = found[i - 1];
            found[i] = end;
        }
    }
    out[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, sizeof out - at, "%s%s", i > 0 ? " " : "",
                               found[i]->pattern);
    if (visited != NULL)
        *visited = walk.visited;
    return out;
}

static void test_kinds_of_segments(void **state)
{
    (void)state;
    start();
    add("/a");
    add("/a/{x}");
    add("/a/**");
    add("/a/*/c");
    add("/**");
    add("/");
    assert_true(wr_tree_finish(&tree));
    assert_string_equal(matches("/", NULL), "/ /**");
    assert_string_equal(matches("/a", NULL), "/a /a/** /**");
    assert_string_equal(matches("/a/b", NULL), "/a/{x} /a/** /**");
    assert_string_equal(matches("/a/b/c", NULL), "/a/*/c /a/** /**");
    assert_string_equal(matches("/a/b/d", NULL), "/a/** /**");
    assert_string_equal(matches("/b", NULL), "/**");
    start();
}

static void test_any_number_in_the_middle(void **state)
{
    (void)state;
    start();
    add("/a/**/z");
    add("/a/**/y/z");
    add("/**/z");
    add("/a/**/{last}");
    add("/a/**/a/z");
    assert_true(wr_tree_finish(&tree));
    assert_string_equal(matches("/a/z", NULL), "/a/**/z /a/**/{last} /**/z");
    assert_string_equal(matches("/a/y/z", NULL), "/a/**/y/z /a/**/z /a/**/{last} /**/z");
    assert_string_equal(matches("/a/b/c/y/z", NULL), "/a/**/y/z /a/**/z /a/**/{last} /**/z");
    assert_string_equal(matches("/z", NULL), "/**/z");
    assert_string_equal(matches("/a", NULL), ""); /* what follows ** must be there */
    assert_string_equal(matches("/a/a/z", NULL), "/a/**/a/z /a/**/z /a/**/{last} /**/z");
    start();
}

static void test_normalised_alike(void **state)
{
    (void)state;
    start();
    add("/caf%c3%a9/%61b/"); /* normalised as paths are, the slash at the end dropped */
    assert_true(wr_tree_finish(&tree));
    assert_string_equal(matches("/caf%C3%A9/ab", NULL), "/caf%c3%a9/%61b/");
    assert_string_equal(matches("/caf\xc3\xa9/ab", NULL), "/caf%c3%a9/%61b/");
    start();
}

static void test_equally_specific_ones_keep_their_order(void **state)
{
    (void)state;
    start();
    add("/a/{y}");
    add("/a/{x}");
    add("/a/*");
    assert_true(wr_tree_finish(&tree));
    assert_string_equal(matches("/a/1", NULL), "/a/{y} /a/{x} /a/*");
    start();
}

static void test_wrong_patterns(void **state)
{
    static const struct {
        const char *pattern;
        size_t at;
        const char *says;
    } cases[] = {
        {"", 0, "begins with /"},
        {"a/b", 0, "begins with /"},
        {"*", 0, "begins with /"},
        {"/a//b", 3, "between two slashes"},
        {"//", 1, "between two slashes"},
        {"/a/**/b/**", 8, "a second"},
        {"/a*", 1, "whole segment"},
        {"/***", 1, "whole segment"},
        {"/a/{x", 3, "whole segment"},
        {"/a/{}", 3, "a name"},
        {"/a/{x y}", 3, "a name"},
        {"/a?b", 1, "without a query"},
        {"/a#b", 1, "without a query"},
        {"/a b", 1, "no blanks"},
        {"/./a", 1, "without . and .."},
        {"/a/..", 3, "without . and .."},
        {"/a/%2e%2E", 3, "without . and .."},
    };
    (void)state;

    start();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t at;
        const char *wrong = wr_tree_add(&tree, &region, cases[i].pattern, WR_USE_ROUTE, 0, &at);
        if (wrong == NULL || strstr(wrong, cases[i].says) == NULL || at != cases[i].at)
            fail_msg("\"%s\": at %zu \"%s\"", cases[i].pattern, at, wrong);
    }
    start();
}

static void test_bounds_of_patterns(void **state)
{
    char pattern[2048];
    size_t at;
    (void)state;

    start();
    for (size_t n = 1; n <= 33; n++) {
        memset(pattern, 0, sizeof pattern);
        for (size_t i = 0; i < n; i++)
            memcpy(pattern + 2 * i, "/x", 2);
        assert_int_equal(wr_tree_add(&tree, &region, pattern, WR_USE_ROUTE, 0, &at) == NULL,
                         n <= WR_PATTERN_SEGMENTS_MAX);
    }
    memset(pattern, 'x', sizeof pattern);
    pattern[0] = '/';
    pattern[256] = '\0'; /* 255 bytes */
    assert_null(wr_tree_add(&tree, &region, pattern, WR_USE_ROUTE, 0, &at));
    pattern[256] = 'x';
    pattern[257] = '\0';
    assert_non_null(wr_tree_add(&tree, &region, pattern, WR_USE_ROUTE, 0, &at));
    pattern[257] = 'x';
    pattern[1025] = '\0';
    assert_non_null(wr_tree_add(&tree, &region, pattern, WR_USE_ROUTE, 0, &at));
    start();
}

/* ---- the other matcher ------------------------------------------------------------------- */

#define ALPHABET 3 /* literals a, b, c */

/* A pattern or path as a list of segments: 'a'..'c', '*' for one, '#' for any number. */
static bool slow_match(const char *pattern, const char *path)
{
    if (*pattern == '\0')
        return *path == '\0';
    if (*pattern == '#')
        return slow_match(pattern + 1, path) || (*path != '\0' && slow_match(pattern, path + 1));
    return *path != '\0' && (*pattern == '*' || *pattern == *path) &&
           slow_match(pattern + 1, path + 1);
}

/* Is |a| more specific than |b|, as docs/policy.md defines it: at the first segment where they
 * differ in kind, a literal goes before one segment, that before the end, that before any number.
 */
static int slow_kind(char c)
{
    return c == '\0' ? 3 : c == '#' ? 4 : c == '*' ? 2 : 1;
}

static int slow_compare(const char *a, const char *b)
{
    for (;; a++, b++) {
        if (slow_kind(*a) != slow_kind(*b))
            return slow_kind(*a) - slow_kind(*b);
        if (*a == '\0')
            return 0;
    }
}

static void as_text(const char *segments, char *out)
{
    *out = '\0';
    if (*segments == '\0')
        memcpy(out, "/", 2);
    for (; *segments != '\0'; segments++, out += strlen(out))
        (void)sprintf(out, "/%s",
                      *segments == '#'   ? "**"
                      : *segments == '*' ? "{x}"
                      : *segments == 'a' ? "a"
                      : *segments == 'b' ? "b"
                                         : "c");
}

static void generate(char *segments, bool pattern)
{
    int len = rand() % 7;
    bool rest = false;

    for (int i = 0; i < len; i++) {
        int kind = rand() % (pattern ? ALPHABET + 2 : ALPHABET);
        segments[i] = (char)('a' + kind);
        if (kind == ALPHABET || (kind > ALPHABET && rest))
            segments[i] = '*';
        else if (kind > ALPHABET)
            segments[i] = '#', rest = true;
    }
    segments[len] = '\0';
}

static void test_against_trying_every_pattern(void **state)
{
    static char patterns[60][8], texts[60][64];
    (void)state;

    srand(20260602);
    for (int round = 0; round < 500; round++) {
        size_t count = (size_t)rand() % 60;
        start();
        for (size_t i = 0; i < count; i++) {
            generate(patterns[i], true);
            as_text(patterns[i], texts[i]);
            add(texts[i]);
        }
        assert_true(wr_tree_finish(&tree));
        for (int tries = 0; tries < 40; tries++) {
            char path[8], raw[64], expected[8192] = "";
            const char *got;
            size_t order[60], n = 0, at = 0;
            generate(path, false);
            as_text(path, raw);
            for (size_t i = 0; i < count; i++) {
                size_t j = n;
                if (!slow_match(patterns[i], path))
                    continue;
                for (; j > 0 && slow_compare(patterns[order[j - 1]], patterns[i]) > 0; j--)
                    order[j] = order[j - 1];
                order[j] = i;
                n++;
            }
            for (size_t i = 0; i < n; i++)
                at += (size_t)snprintf(expected + at, sizeof expected - at, "%s%s",
                                       i > 0 ? " " : "", texts[order[i]]);
            got = matches(raw, NULL);
            if (strcmp(got, expected) != 0)
                fail_msg("%s: found \"%s\", expected \"%s\"", raw, got, expected);
        }
    }
    start();
}

/* A thousand patterns cost a path no more than the three it meets. */
static void test_cost_follows_what_matches(void **state)
{
    static char texts[2000][40];
    size_t few, many;
    (void)state;

    start();
    add("/api/v1/users/{id}");
    add("/api/**");
    add("/api/v1/{kind}/{id}");
    assert_true(wr_tree_finish(&tree));
    assert_string_equal(matches("/api/v1/users/7", &few),
                        "/api/v1/users/{id} /api/v1/{kind}/{id} /api/**");
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(texts[i], sizeof texts[i], i % 2 ? "/api/v1/k%d/{id}" : "/r%d/**", i);
        add(texts[i]);
    }
    assert_true(wr_tree_finish(&tree));
    assert_string_equal(matches("/api/v1/users/7", &many),
                        "/api/v1/users/{id} /api/v1/{kind}/{id} /api/**");
    assert_int_equal(few, many);
    assert_in_range(few, 1, 10);
    start();
}

/* The deepest patterns, with every choice open at every segment: as many steps wait as ever can. */
static void test_the_most_steps_that_can_wait(void **state)
{
    static char texts[200][WR_PATTERN_BYTES_MAX];
    size_t count = 0, visited;
    char raw[200] = "";
    (void)state;

    start();
    for (size_t depth = 1; depth <= WR_PATTERN_SEGMENTS_MAX; depth++) {
        for (int kind = 0; kind < 3; kind++) {
            char *text = texts[count++];
            for (size_t i = 0; i + 1 < depth; i++)
                memcpy(text + 2 * i, "/x", 2);
            (void)snprintf(text + 2 * (depth - 1), 8, "%s",
                           kind == 0   ? "/x"
                           : kind == 1 ? "/*"
                                       : "/**");
            add(text);
        }
    }
    for (size_t depth = 1; depth < WR_PATTERN_SEGMENTS_MAX; depth++) {
        char *text = texts[count++];
        memcpy(text, "/**", 3);
        for (size_t i = 0; i < depth; i++)
            memcpy(text + 3 + 2 * i, i + 1 < depth ? "/x" : "/*", 2);
        add(text);
    }
    assert_true(wr_tree_finish(&tree));
    for (int i = 0; i < 64; i++)
        memcpy(raw + 2 * i, "/x", 2);
    (void)matches(raw, &visited);
    assert_in_range(visited, 64, 300);
    start();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_of_segments),
        cmocka_unit_test(test_any_number_in_the_middle),
        cmocka_unit_test(test_normalised_alike),
        cmocka_unit_test(test_equally_specific_ones_keep_their_order),
        cmocka_unit_test(test_wrong_patterns),
        cmocka_unit_test(test_bounds_of_patterns),
        cmocka_unit_test(test_against_trying_every_pattern),
        cmocka_unit_test(test_cost_follows_what_matches),
        cmocka_unit_test(test_the_most_steps_that_can_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
