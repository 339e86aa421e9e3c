/* fixture.h - what the tests of src/meter share: a directory of their own, a database in it, and
 * somebody who makes changes. */
#ifndef TESTS_METER_FIXTURE_H
#define TESTS_METER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/units.h"
#include "meter/customers.h"
#include "meter/database.h"
#include "meter/schema.h"

#define NOW (INT64_C(1700000000) * WR_NS_PER_S) /* 2023-11-14T22:13:20Z */
#define ROOM 64U

static char test_folder[256];
static char test_path[300]; /* of the database */

static inline int make_folder(void **state)
{
    (void)state;
    (void)snprintf(test_folder, sizeof test_folder, "/tmp/weir-meter-XXXXXX");
    assert_non_null(mkdtemp(test_folder));
    (void)snprintf(test_path, sizeof test_path, "%s/%s", test_folder, WR_DATABASE_NAME);
    return 0;
}

static inline int remove_folder(void **state)
{
    char command[512];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", test_folder);
    return system(command) == 0 ? 0 : -1;
}

static inline struct wr_database *open_database(void)
{
    const struct wr_database_options options = {.path = test_path, .create = true};
    struct wr_database *database;
    struct wr_fault fault;
    int result = wr_database_open(&database, &options, &fault);

    if (result != 0)
        fail_msg("%s", fault.text);
    return database;
}

static const struct wr_author somebody = {"test:somebody", "because", NOW};

/* The customer |name| on |plan|. */
static inline struct wr_customer make_customer(struct wr_database *database, const char *name,
                                               const char *plan)
{
    const struct wr_customer_new made = {.name = name, .plan = plan, .room = ROOM};
    struct wr_customer customer;
    int result = wr_customer_create(database, &made, &somebody, &customer);

    if (result != 0)
        fail_msg("%s: %s", name, wr_database_fault(database)->text);
    return customer;
}

static inline struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

/* The only number that |sql| gives. */
static inline int64_t ask(struct wr_database *database, const char *sql)
{
    sqlite3_stmt *statement = wr_database_statement(database, sql);
    int64_t number;

    assert_int_equal(wr_database_step(database, statement), 1);
    number = sqlite3_column_int64(statement, 0);
    (void)sqlite3_reset(statement);
    return number;
}

#endif
