/* ring_names.c - what one loop has found, all others read once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "remote/ring_names.h"

static struct wr_ring_name_list list_of(unsigned count, const char *const hosts[])
{
    struct wr_ring_name_list list = {.count = count};

    for (unsigned i = 0; i < count; i++)
        memcpy(list.host[i], hosts[i], strlen(hosts[i]));
    return list;
}

static void what_is_set_is_read_once(void **state)
{
    static const char *const hosts[] = {"192.0.2.1", "2001:db8::1"};
    struct wr_ring_names *names = wr_ring_names_new();
    struct wr_ring_name_list list = list_of(2, hosts), out = {0};
    uint64_t mine = 0, other = 0;

    (void)state;
    assert_non_null(names);
    assert_false(wr_ring_names_is_new(names, "weir.example", 0));
    assert_false(wr_ring_names_read(names, "weir.example", &mine, &out));
    wr_ring_names_set(names, "weir.example", &list);
    assert_true(wr_ring_names_is_new(names, "weir.example", mine));
    assert_true(wr_ring_names_read(names, "weir.example", &mine, &out));
    assert_int_equal(out.count, 2);
    assert_string_equal(out.host[1], "2001:db8::1");
    assert_false(wr_ring_names_read(names, "weir.example", &mine, &out));
    assert_true(wr_ring_names_read(names, "weir.example", &other, &out));
    wr_ring_names_set(names, "weir.example", &list); /* the same is nothing new */
    assert_false(wr_ring_names_is_new(names, "weir.example", mine));
    list.count = 1;
    wr_ring_names_set(names, "weir.example", &list);
    assert_true(wr_ring_names_read(names, "weir.example", &mine, &out));
    assert_int_equal(out.count, 1);
    wr_ring_names_free(names);
}

static void another_name_has_addresses_of_its_own(void **state)
{
    static const char *const hosts[] = {"192.0.2.1"};
    struct wr_ring_names *names = wr_ring_names_new();
    struct wr_ring_name_list list = list_of(1, hosts), out = {0};
    uint64_t version = 0;

    (void)state;
    wr_ring_names_set(names, "weir.example", &list);
    assert_false(wr_ring_names_is_new(names, "other.example", 0));
    assert_false(wr_ring_names_read(names, "other.example", &version, &out));
    wr_ring_names_set(names, "other.example", &list); /* a reload's */
    assert_true(wr_ring_names_read(names, "other.example", &version, &out));
    wr_ring_names_free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_set_is_read_once),
        cmocka_unit_test(another_name_has_addresses_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
