/* create.c - many processes make one arena at once, and are killed while they do: whoever opens it
 * gets the same whole one, nothing is left lying about, and what the killed have lost is given back
 * to the first who opens it alone. */
#include "process.h"

#include <dirent.h>

#include "store/check.h"
#include "store/node.h"

#define PROCESSES 6
#define ROUNDS 15
#define KILLS 60
#define SIZE WR_ARENA_BYTES_MIN

static char dir[] = "/tmp/weir-create-XXXXXX";
static char path[64];

static struct shared {
    unsigned go;
    uint64_t secret[PROCESSES];
} * shared;

static int set_up(void **unused)
{
    (void)unused;
    strcpy(dir + sizeof dir - 7, "XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    (void)snprintf(path, sizeof path, "%s/arena", dir);
    shared = (struct shared *)shared_memory(sizeof *shared);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    (void)unlink(path);
    return rmdir(dir); /* fails if anything else lies there */
}

static unsigned files_in_dir(void)
{
    DIR *d = opendir(dir);
    unsigned count = 0;

    assert_non_null(d);
    while (readdir(d) != NULL)
        count++;
    (void)closedir(d);
    return count - 2; /* . and .. */
}

static struct wr_arena *open_here(void)
{
    struct wr_arena_options options = {
        .path = path, .size_bytes = SIZE, .node_share = 50, .judge = test_judge};
    struct wr_arena *arena = NULL;

    (void)wr_arena_open(&arena, &options, NULL);
    return arena;
}

static int open_at_once(struct wr_arena *unused, unsigned index)
{
    struct wr_arena *arena;

    (void)unused;
    while (__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST) == 0)
        continue;
    arena = open_here();
    if (arena == NULL)
        return 1;
    shared->secret[index] = wr_arena_secret(arena).k[0];
    wr_arena_close(arena);
    return 0;
}

static void all_get_the_same_arena(void **unused)
{
    pid_t pids[PROCESSES];

    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        memset(shared, 0, sizeof *shared);
        for (unsigned i = 0; i < PROCESSES; i++)
            pids[i] = spawn(open_at_once, NULL, i);
        __atomic_store_n(&shared->go, 1, __ATOMIC_SEQ_CST);
        for (unsigned i = 0; i < PROCESSES; i++)
            assert_int_equal(wait_for(pids[i], 30), 0);
        for (unsigned i = 1; i < PROCESSES; i++)
            assert_true(shared->secret[i] == shared->secret[0]);
        assert_int_equal(files_in_dir(), 1);
        assert_int_equal(unlink(path), 0);
    }
}

static int open_for_ever(struct wr_arena *unused, unsigned index)
{
    (void)unused;
    (void)index;
    for (;;) {
        struct wr_arena *arena = open_here();
        if (arena == NULL)
            return 1;
        wr_arena_close(arena);
        (void)unlink(path);
    }
}

static void a_killed_maker_leaves_nothing_or_all(void **unused)
{
    uint64_t random = test_seed();

    (void)unused;
    for (int i = 0; i < KILLS; i++) {
        pid_t pid = spawn(open_for_ever, NULL, 0);
        struct wr_arena *arena;

        nap_us((long)(next_random(&random) % 3000));
        kill_and_wait(pid);
        assert_in_range(files_in_dir(), 0, 1);
        arena = open_here();
        assert_non_null(arena);
        wr_arena_close(arena);
    }
}

static int lose_nodes(struct wr_arena *unused, unsigned index)
{
    struct wr_arena *arena = open_here();

    (void)unused;
    (void)index;
    for (int i = 0; i < 5; i++)
        (void)wr_node_take(arena);
    (void)wr_head_take(arena);
    (void)raise(SIGKILL);
    return 0;
}

static void what_the_killed_lost_is_given_back(void **unused)
{
    static struct wr_arena_report report;
    struct wr_arena *arena, *second;

    (void)unused;
    assert_int_equal(wait_for(spawn(lose_nodes, NULL, 0), 30), 128 + SIGKILL);
    arena = open_here(); /* alone, after somebody was killed */
    assert_int_equal(wr_arena_check(arena, NOW, &report, NULL), 0);
    assert_int_equal(report.nodes_lost, 0);
    assert_int_equal(report.heads_lost, 0);
    assert_int_equal(wait_for(spawn(lose_nodes, NULL, 0), 30), 128 + SIGKILL);
    second = open_here(); /* not alone: nothing is touched */
    assert_int_equal(wr_arena_check(second, NOW, &report, NULL), 0);
    assert_int_equal(report.nodes_lost, 5);
    assert_int_equal(report.heads_lost, 1);
    assert_int_equal(wr_arena_repair(second, NOW), WEIR_EBUSY);
    wr_arena_close(second);
    wr_arena_close(arena);
}

int main(void)
{
#define WITH_DIR(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_DIR(all_get_the_same_arena),
        WITH_DIR(a_killed_maker_leaves_nothing_or_all),
        WITH_DIR(what_the_killed_lost_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
