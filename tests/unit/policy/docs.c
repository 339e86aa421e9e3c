/* docs.c - docs/policy.md against the code: each of its examples loads without a warning, and it
 * names every key there is. The first argument is its path. */
#include <stdlib.h>

#include "requests.h"

static const char *docs_path;
static char docs[200000];

static void read_docs(void)
{
    FILE *file = fopen(docs_path, "r");

    assert_non_null(file);
    docs[fread(docs, 1, sizeof docs - 1, file)] = '\0';
    assert_true(feof(file));
    (void)fclose(file);
}

static void test_examples(void **state)
{
    static const char fence[] = "\n```yaml\n";
    unsigned count = 0;
    char *at = docs, *end;
    (void)state;

    for (; (at = strstr(at, fence)) != NULL; at = end) {
        char text[8192];
        at += sizeof fence - 1;
        end = strstr(at, "\n```");
        assert_non_null(end);
        (void)snprintf(text, sizeof text, "%s%.*s\n",
                       strncmp(at, "version:", 8) == 0 ? "" : "version: 1\n", (int)(end - at), at);
        expect_warnings(text, "");
        count++;
    }
    assert_in_range(count, 8, 50);
}

/* Each name in "a, b or c" at |list|, up to a ")" or what was found, must be in the page. Returns
 * how many there are. */
static unsigned require_names(const char *list)
{
    unsigned count = 0;

    while (*list != '\0' && *list != ')' && strncmp(list, ", found", 7) != 0) {
        size_t len = strcspn(list, " ,)");
        char name[64] = "`";
        assert_in_range(len, 0, sizeof name - 3);
        memcpy(name + 1, list, len);
        name[len + 1] = '`';
        if (len > 0 && strcmp(name, "`or`") != 0) {
            if (strstr(docs, name) == NULL)
                fail_msg("%s is not in %s", name, docs_path);
            count++;
        }
        list += len;
        if (strncmp(list, ", found", 7) != 0)
            list += strspn(list, " ,");
    }
    return count;
}

/* A policy with an unknown key in each kind of map: the messages list what is known there. */
static void test_every_key_is_named(void **state)
{
    static const char text[] =
        "version: 1\n"
        "'#': 1\n"
        "arena: {'#': 1}\n"
        "answers: {'#': 1, headers: ['#']}\n"
        "identity: {ip: {'#': 1}, plan: {'#': 1}, user: {'#': 1, header: H, trust: '#'}}\n"
        "costs: [{cost: 1, '#': 1}]\n"
        "listen: {'#': 1, http: {'#': 1, tls: {'#': 1}}}\n"
        "store: {'#': 1, redis: {'#': 1, sentinel: {'#': 1}}, memcached: {'#': 1}, ring: {'#': 1}, "
        "mode: '#', when_gone: '#'}\n"
        "limits:\n"
        "  - {name: a, '#': 1, match: {'#': 1}, rate: 5/s}\n"
        "  - {name: b, when_missing: '#', mode: '#', store_mode: '#', algorithm: '#', rate: 5/s}\n";
    static const char before[] = "xpected ";
    const char *messages, *at;
    unsigned count = 0;
    int result;
    (void)state;

    messages = messages_of(text, sizeof text - 1, &result);
    assert_int_equal(result, WEIR_EPOLICY);
    for (at = strstr(messages, before); at != NULL; at = strstr(at, before)) {
        char line[1024];
        at += sizeof before - 1;
        (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        count += require_names(line);
    }
    assert_in_range(count, 100, 200);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_every_key_is_named),
    };
    if (argc != 2)
        return 2;
    docs_path = argv[1];
    read_docs();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
