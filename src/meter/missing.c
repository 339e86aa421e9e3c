/* missing.c - a database that is not there: was there ever one? customers.map knows. */
#include "meter/missing.h"

#include <stdio.h>
#include <unistd.h>

#include "store/customers.h"

bool wr_database_may_begin(const char *directory)
{
    char path[4096];
    const struct wr_customers_options options = {.path = path, .must_exist = true};
    struct wr_customers *map;
    bool may;
    int result;

    (void)snprintf(path, sizeof path, "%s/customers.map", directory);
    result = wr_customers_open(&map, &options, NULL);
    if (result != 0)
        return result == WEIR_ENOENT;
    may = wr_customers_mark(map) == 0;
    wr_customers_close(map);
    return may;
}

int wr_fault_set_missing(struct wr_fault *fault, const char *path)
{
    return wr_fault_set(fault, WEIR_ENOENT, WR_DISK_MISSING,
                        "%.200s is %s, but customers.map beside it knows customers: if weir serve "
                        "has run since it was well, restart that first, as it may have all of it. "
                        "Otherwise put a copy in its place, or begin a new one with `weir customer "
                        "recover`",
                        path, access(path, F_OK) == 0 ? "empty" : "not there");
}
