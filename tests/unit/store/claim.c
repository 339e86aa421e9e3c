/* claim.c - claims across fork, death and reuse. */
#include "fixture.h"

#include <grp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/claim.h"

/* Run |body| in a child; returns what it returns (0..127). */
static int in_child(int (*body)(struct wr_arena *), struct wr_arena *arena)
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body(arena));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void one_handle_is_alone(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);

    (void)unused;
    assert_false(wr_claim_others(arena));
    assert_int_equal(wr_claim_count(arena), 1);
    assert_true(wr_claim_held(arena, arena->claim));
    assert_false(wr_claim_held(arena, arena->claim + 1));
    assert_false(wr_claim_dead(arena, wr_claim_owner(arena)));
    wr_arena_close(arena);
}

static int claim_of_its_own(struct wr_arena *arena)
{
    uint32_t parent = arena->process->owner; /* wiped: 0 */

    if (parent != 0 || wr_arena_after_fork(arena) != 0)
        return 1;
    if (wr_arena_after_fork(arena) != 0) /* twice is once */
        return 2;
    if (wr_claim_count(arena) != 2 || !wr_claim_others(arena))
        return 3;
    return (int)arena->claim;
}

static void a_child_claims_for_itself_and_lets_go(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);

    (void)unused;
    assert_int_equal(in_child(claim_of_its_own, arena), 1);
    assert_int_equal(wr_claim_count(arena), 1);
    assert_int_equal(in_child(claim_of_its_own, arena), 1);
    wr_arena_close(arena);
}

static int claim_unasked(struct wr_arena *arena)
{
    uint32_t owner = wr_claim_owner(arena); /* no wr_arena_after_fork */

    return owner != 0 && wr_claim_count(arena) == 2 ? 0 : 1;
}

static void a_child_that_forgot_claims_when_it_must(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);

    (void)unused;
    assert_int_equal(in_child(claim_unasked, arena), 0);
    wr_arena_close(arena);
}

static uint32_t *shared_owner;

static int tell_owner(struct wr_arena *arena)
{
    *shared_owner = wr_claim_owner(arena);
    return 0;
}

static void a_successor_is_not_its_predecessor(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);
    uint32_t first, next;

    (void)unused;
    shared_owner = (uint32_t *)mmap(NULL, sizeof *shared_owner, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared_owner != MAP_FAILED);
    assert_int_equal(in_child(tell_owner, arena), 0);
    first = *shared_owner;
    assert_int_not_equal(first, 0);
    assert_true(wr_claim_dead(arena, first));
    assert_int_equal(in_child(tell_owner, arena), 0);
    next = *shared_owner;
    assert_int_not_equal(first, next); /* same claim, later generation */
    assert_int_equal(first & 0x1ff, next & 0x1ff);
    assert_true(wr_claim_dead(arena, first));
    (void)munmap(shared_owner, sizeof *shared_owner);
    wr_arena_close(arena);
}

static void nonsense_owners_are_dead(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);

    (void)unused;
    assert_true(wr_claim_dead(arena, 257 + 1));
    assert_true(wr_claim_dead(arena, 0x1ff));
    assert_true(wr_claim_dead(arena, UINT32_MAX));
    assert_true(wr_claim_dead(arena, wr_claim_owner(arena) + 0x200));
    wr_arena_close(arena);
}

static int without_proc(struct wr_arena *arena)
{
    /* As where /proc/self/fd cannot be opened: a privilege given up. */
    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
        return 77;
    if (wr_arena_after_fork(arena) != 0)
        return 1;
    if (!arena->posix_locks)
        return 2;
    if (wr_claim_count(arena) != 2 || !wr_claim_others(arena))
        return 3;
    return wr_claim_dead(arena, wr_claim_owner(arena)) ? 4 : 0;
}

static void a_child_without_privileges_takes_the_other_kind_of_lock(void **unused)
{
    char path[40];
    struct wr_arena *arena;
    int rc;

    (void)unused;
    (void)snprintf(path, sizeof path, "/tmp/weir-claim-%d", (int)getpid());
    arena = test_arena(path, WR_ARENA_BYTES_MIN, 10);
    rc = geteuid() == 0 ? in_child(without_proc, arena) : 0;
    (void)unlink(path);
    assert_int_equal(rc, 0);
    assert_int_equal(wr_claim_count(arena), 1);
    wr_arena_close(arena);
}

static void claims_run_out_and_come_back(void **unused)
{
    char path[40];
    static struct wr_arena *arenas[WR_CLAIMS + 1];
    static struct wr_diag diag;
    struct wr_arena_options options = {.path = path, .judge = test_judge};
    int rc;

    (void)unused;
    (void)snprintf(path, sizeof path, "/tmp/weir-claim-%d", (int)getpid());
    arenas[0] = test_arena(path, WR_ARENA_BYTES_MIN, 0);
    for (int i = 1; i < WR_CLAIMS; i++) {
        wr_diag_init(&diag, path);
        assert_int_equal(wr_arena_open(&arenas[i], &options, &diag), 0);
    }
    assert_int_equal(wr_claim_count(arenas[0]), WR_CLAIMS);
    rc = wr_arena_open(&arenas[WR_CLAIMS], &options, &diag);
    assert_int_equal(rc, WEIR_EFULL);
    wr_arena_close(arenas[7]);
    assert_int_equal(wr_arena_open(&arenas[7], &options, &diag), 0);
    assert_int_equal(arenas[7]->claim, 7);
    for (int i = 0; i < WR_CLAIMS; i++)
        wr_arena_close(arenas[i]);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_handle_is_alone),
        cmocka_unit_test(a_child_claims_for_itself_and_lets_go),
        cmocka_unit_test(a_child_that_forgot_claims_when_it_must),
        cmocka_unit_test(a_successor_is_not_its_predecessor),
        cmocka_unit_test(nonsense_owners_are_dead),
        cmocka_unit_test(a_child_without_privileges_takes_the_other_kind_of_lock),
        cmocka_unit_test(claims_run_out_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
