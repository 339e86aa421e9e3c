/* disk.c - a disk that is really full, and one that is really read-only: a small tmpfs in a
 * namespace of the test's own. Needs to be root, and says so without it. */
#include "../unit/meter/keeping.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

static void shell(const char *command)
{
    char line[1000];

    (void)snprintf(line, sizeof line, "cd '%s' && %s", test_folder, command);
    assert_int_equal(system(line), 0);
}

/* The database is on a disk of its own, disk/, and the mapped files are not. */
static bool mount_disk(void)
{
    char path[512];

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    shell("mkdir disk");
    (void)snprintf(path, sizeof path, "%s/disk", test_folder);
    if (mount("none", path, "tmpfs", 0, "size=8m") != 0)
        return false;
    shell("ln -s disk/customers.db customers.db && touch disk/customers.db");
    return true;
}

static void remount(unsigned long flags)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/disk", test_folder);
    assert_int_equal(mount("none", path, NULL, MS_REMOUNT | flags, "size=8m"), 0);
}

static void unmount_disk(void)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/disk", test_folder);
    assert_int_equal(umount2(path, MNT_DETACH), 0);
}

static void later(void)
{
    __atomic_add_fetch(&test_clock_ns, 16 * WR_NS_PER_S, __ATOMIC_SEQ_CST);
}

static uint32_t some_customers(unsigned count)
{
    struct wr_database *database = open_database();
    char name[32];

    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "customer-%u", i);
        (void)make_customer(database, name, "free");
    }
    wr_database_close(database);
    return count;
}

static void is_full(void)
{
    struct wr_keeper *keeper = start_keeper();
    uint32_t count = some_customers(40);
    struct wr_usage *daily;
    struct wr_database *database;

    pass(keeper);
    daily = open_usage_file("daily", WR_PER_DAY);
    shell("cat /dev/zero > disk/filler 2>/dev/null; true");
    for (unsigned i = 0; i < 5; i++) {
        for (uint32_t number = 0; number < count; number++)
            charge(daily, number, TODAY, 1, 0);
        later();
        assert_false(wr_keeper_pass(keeper, 20000));
    }
    assert_int_equal(state_of(keeper).disk, WR_DISK_FULL);
    assert_int_equal(times_said("cannot be written"), 1);
    assert_int_equal(state_of(keeper).waiting, count);
    shell("rm disk/filler");
    later();
    pass(keeper);
    assert_int_equal(times_said("is written again"), 1);
    database = open_database();
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 5 * count);
    assert_int_equal(wr_database_check(database, true), 0);
    wr_database_close(database);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
}

static void is_read_only(void)
{
    struct wr_keeper *keeper = start_keeper();
    struct wr_usage *daily;
    struct wr_database *database;

    (void)some_customers(1);
    pass(keeper);
    wr_keeper_stop(keeper); /* nobody can take the right to write from who has the file open */
    remount(MS_RDONLY);
    keeper = start_keeper();
    daily = open_usage_file("daily", WR_PER_DAY);
    for (unsigned i = 0; i < 3; i++) {
        charge(daily, 0, TODAY, 1, 0);
        later();
        assert_false(wr_keeper_pass(keeper, 20000));
    }
    assert_int_equal(state_of(keeper).disk, WR_DISK_READ_ONLY);
    assert_int_equal(times_said("cannot be written"), 1);
    remount(0);
    later();
    pass(keeper);
    assert_int_equal(times_said("is written again"), 1);
    database = open_database();
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 3);
    wr_database_close(database);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
}

/* In a child, as the namespace is for good. Its failures are its exit. */
static void in_a_child(void (*body)(void))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        if (!mount_disk())
            _exit(77);
        body();
        unmount_disk();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("needs root, for a disk of its own\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void full(void **state)
{
    (void)state;
    in_a_child(is_full);
}

static void read_only(void **state)
{
    (void)state;
    in_a_child(is_read_only);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(full, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(read_only, make_folder, remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
