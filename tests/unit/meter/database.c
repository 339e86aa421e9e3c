/* database.c - the file: made, opened again, refused, damaged, missing, full, read-only; and
 * transactions. */
#include "fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "meter/schema.h"

static int open_with(bool create, bool read_only, struct wr_fault *fault)
{
    const struct wr_database_options options = {
        .path = test_path, .create = create, .read_only = read_only, .busy_ms = 50};
    struct wr_database *database;
    int result = wr_database_open(&database, &options, fault);

    assert_int_equal(result == 0, database != NULL);
    wr_database_close(database);
    return result;
}

static void makes_and_reopens(void **state)
{
    struct wr_database *database = open_database();

    (void)state;
    assert_int_equal(ask(database, "PRAGMA application_id"), WR_SCHEMA_APPLICATION);
    assert_int_equal(ask(database, "PRAGMA synchronous"), 2); /* FULL */
    assert_int_equal(ask(database, "PRAGMA foreign_keys"), 1);
    (void)make_customer(database, "acme", "free");
    assert_int_equal(wr_database_check(database, true), 0);
    wr_database_close(database);
    database = open_database();
    assert_int_equal(ask(database, "SELECT count(*) FROM customer"), 1);
    wr_database_close(database);
}

static void is_not_readable_by_others(void **state)
{
    struct stat st;

    (void)state;
    wr_database_close(open_database());
    assert_int_equal(stat(test_path, &st), 0);
    assert_int_equal(st.st_mode & 0007, 0);
}

static void missing_is_not_made(void **state)
{
    struct wr_fault fault;

    (void)state;
    assert_int_equal(open_with(false, false, &fault), WEIR_ENOENT);
    assert_int_equal(fault.disk, WR_DISK_MISSING);
    assert_int_equal(access(test_path, F_OK), -1);
    assert_int_equal(open_with(true, true, &fault), WEIR_ENOENT); /* to be read only */
    assert_int_equal(access(test_path, F_OK), -1);
}

static void no_folder(void **state)
{
    struct wr_fault fault;

    (void)state;
    (void)snprintf(test_path, sizeof test_path, "%s/none/customers.db", test_folder);
    assert_int_equal(open_with(true, false, &fault), WEIR_EIO);
    assert_int_equal(fault.disk, WR_DISK_FAILED);
    assert_non_null(strstr(fault.text, "No such file or directory"));
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void no_database(void **state)
{
    struct wr_fault fault;
    char text[4097];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    write_file(test_path, text);
    assert_int_equal(open_with(true, false, &fault), WEIR_ECORRUPT);
    assert_int_equal(fault.disk, WR_DISK_CORRUPT);
}

/* Pages in the middle are overwritten: opening may not see it, checking does. */
static void damaged(void **state)
{
    struct wr_database *database = open_database();
    char junk[4096];
    int fd;

    (void)state;
    for (int i = 0; i < 50; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "customer-%d", i);
        (void)make_customer(database, name, "free");
    }
    wr_database_close(database);
    memset(junk, 0x5a, sizeof junk);
    fd = open(test_path, O_WRONLY | O_CLOEXEC);
    for (off_t page = 2; page < 12; page++)
        assert_int_equal(pwrite(fd, junk, sizeof junk, page * 4096), sizeof junk);
    (void)close(fd);
    database = open_database();
    assert_int_equal(wr_database_check(database, false), WEIR_ECORRUPT);
    assert_int_equal(wr_database_fault(database)->disk, WR_DISK_CORRUPT);
    wr_database_close(database);
}

static void of_another_program(void **state)
{
    struct wr_fault fault;
    sqlite3 *sqlite;

    (void)state;
    assert_int_equal(sqlite3_open(test_path, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite, "CREATE TABLE music(title)", NULL, NULL, NULL), 0);
    (void)sqlite3_close(sqlite);
    assert_int_equal(open_with(true, false, &fault), WEIR_EFORMAT);
    assert_int_equal(fault.disk, WR_DISK_FOREIGN);
}

static void of_a_newer_weir(void **state)
{
    struct wr_database *database = open_database();
    struct wr_fault fault;

    (void)state;
    assert_int_equal(wr_database_exec(database, "PRAGMA user_version = 1000"), 0);
    wr_database_close(database);
    assert_int_equal(open_with(true, false, &fault), WEIR_EFORMAT);
    assert_non_null(strstr(fault.text, "newer"));
}

static void busy(void **state)
{
    struct wr_database *first = open_database();
    const struct wr_database_options options = {.path = test_path, .busy_ms = 20};
    struct wr_database *second;
    struct wr_fault fault;

    (void)state;
    assert_int_equal(wr_database_open(&second, &options, &fault), 0);
    assert_int_equal(wr_database_begin(first), 0);
    assert_int_equal(wr_database_begin(second), WEIR_EBUSY);
    assert_int_equal(wr_database_fault(second)->disk, WR_DISK_BUSY);
    assert_int_equal(wr_database_commit(first), 0);
    assert_int_equal(wr_database_begin(second), 0);
    wr_database_rollback(second);
    wr_database_close(first);
    wr_database_close(second);
}

static void rolls_back(void **state)
{
    struct wr_database *database = open_database();

    (void)state;
    assert_int_equal(wr_database_begin(database), 0);
    (void)make_customer(database, "acme", "free");
    wr_database_rollback(database);
    assert_int_equal(ask(database, "SELECT count(*) FROM customer"), 0);
    assert_int_equal(ask(database, "SELECT count(*) FROM audit"), 0);
    wr_database_close(database);
}

static void sets_aside(void **state)
{
    char aside[512], again[512], path[600];

    (void)state;
    write_file(test_path, "damaged");
    (void)snprintf(path, sizeof path, "%s-wal", test_path);
    write_file(path, "its log");
    assert_int_equal(wr_database_set_aside(test_path, NOW, aside, sizeof aside), 0);
    assert_string_equal(aside + strlen(test_path), ".corrupt-20231114T221320Z");
    assert_int_equal(access(test_path, F_OK), -1);
    assert_int_equal(access(aside, F_OK), 0);
    (void)snprintf(path, sizeof path, "%s-wal", aside);
    assert_int_equal(access(path, F_OK), 0);
    /* The same second again: nothing is overwritten. */
    write_file(test_path, "damaged again");
    assert_int_equal(wr_database_set_aside(test_path, NOW, again, sizeof again), 0);
    assert_string_not_equal(aside, again);
    assert_int_equal(access(aside, F_OK), 0);
    assert_int_equal(access(again, F_OK), 0);
}

static void moved(void **state)
{
    struct wr_database *database = open_database();
    char path[512];

    (void)state;
    assert_false(wr_database_moved(database));
    (void)snprintf(path, sizeof path, "%s.old", test_path);
    assert_int_equal(rename(test_path, path), 0);
    assert_true(wr_database_moved(database));
    write_file(test_path, "");
    assert_true(wr_database_moved(database));
    wr_database_close(database);
}

/* In a child, with no file longer than what is there: the disk is full. */
static int fill(void)
{
    const struct rlimit limit = {256 << 10, 256 << 10};
    struct wr_database *database = open_database();
    struct wr_customer_new made = {.plan = "free", .room = 1U << 24};
    char name[32];
    int result = 0, kept = 0;

    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    made.name = name;
    while (result == 0 && kept < 10000) {
        (void)snprintf(name, sizeof name, "customer-%d", kept);
        result = wr_customer_create(database, &made, &somebody, NULL);
        kept += result == 0;
    }
    if (result != WEIR_EIO || wr_database_fault(database)->disk != WR_DISK_FULL)
        return 2;
    /* What was committed is there, by the same connection. */
    if (ask(database, "SELECT count(*) FROM customer") != kept)
        return 3;
    wr_database_close(database);
    return 0;
}

static void full(void **state)
{
    struct wr_database *database;
    pid_t pid;
    int status;

    (void)state;
    wr_database_close(open_database());
    pid = fork();
    if (pid == 0)
        _exit(fill());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    database = open_database();
    assert_int_equal(wr_database_check(database, true), 0);
    wr_database_close(database);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(makes_and_reopens),
        TEST(is_not_readable_by_others),
        TEST(missing_is_not_made),
        TEST(no_folder),
        TEST(no_database),
        TEST(damaged),
        TEST(of_another_program),
        TEST(of_a_newer_weir),
        TEST(busy),
        TEST(rolls_back),
        TEST(sets_aside),
        TEST(moved),
        TEST(full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
