/* process.h - children of a test: spawned, watched, killed. A test signals only a pid that it
 * spawned and has not waited for. */
#ifndef TESTS_STORE_PROCESS_H
#define TESTS_STORE_PROCESS_H

#include "../unit/store/fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Memory that children share with the test, zeros at first. */
static inline void *shared_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(p != MAP_FAILED);
    return p;
}

static inline void nap_us(long us)
{
    const struct timespec t = {us / 1000000, us % 1000000 * 1000};

    (void)nanosleep(&t, NULL);
}

/* A child that runs |body| and exits with its result. */
static inline pid_t spawn(int (*body)(struct wr_arena *, unsigned), struct wr_arena *arena,
                          unsigned index)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body(arena, index));
    return pid;
}

static inline void kill_and_wait(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Wait for |pid| for at most |seconds|; a child that does not end is stuck, and the test fails.
 * Returns its exit status, or 128 + the signal that ended it. */
static inline int wait_for(pid_t pid, int seconds)
{
    int64_t start = wr_clock_mono().ns;
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (wr_clock_mono().ns - start > seconds * WR_NS_PER_S) {
            kill_and_wait(pid);
            fail_msg("a child was stuck for %d s", seconds);
        }
        nap_us(200);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Numbers from a seed that is printed: WEIR_SEED repeats a run (of what one process does). */
static inline uint64_t test_seed(void)
{
    const char *given = getenv("WEIR_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 20261130;

    print_message("WEIR_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static inline uint64_t next_random(uint64_t *state)
{
    return test_hash((*state)++);
}

#endif
