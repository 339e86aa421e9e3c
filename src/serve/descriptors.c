/* descriptors.c - the descriptors of this process, and how many of them connections may have. */
#include "serve/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "serve/log.h"

#define SPARE 32     /* for files of a reload, and what is accepted to be refused */
#define FOR_ADMIN 16 /* connections, of which the other doors take none */
#define CROWDED_EVERY_S 10

void wr_descriptors_raise(struct wr_descriptors *descriptors)
{
    struct rlimit limit = {0};

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    descriptors->limit = limit.rlim_cur < INT64_MAX ? (int64_t)limit.rlim_cur : INT64_MAX;
}

bool wr_descriptors_count(struct wr_descriptors *descriptors)
{
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);

    descriptors->connections_max = descriptors->limit - next - SPARE;
    if (next >= 0)
        (void)close(next);
    return next >= 0 && descriptors->connections_max > 0;
}

/* Once in a while, whoever comes first. */
static void say_crowded(struct wr_descriptors *descriptors, int64_t most)
{
    int64_t now_s = (int64_t)time(NULL);
    int64_t said_s = __atomic_load_n(&descriptors->crowded_s, __ATOMIC_RELAXED);

    if (now_s - said_s >= CROWDED_EVERY_S &&
        __atomic_compare_exchange_n(&descriptors->crowded_s, &said_s, now_s, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        wr_log(WR_LOG_WARNING, "connections refused",
               wr_log_text("reason", "no descriptors are left"), wr_log_number("open", most));
}

bool wr_descriptors_take(struct wr_descriptors *descriptors, bool for_admin)
{
    int64_t quarter = descriptors->connections_max / 4;
    int64_t kept = quarter < FOR_ADMIN ? quarter : FOR_ADMIN;
    int64_t most = descriptors->connections_max - (for_admin ? 0 : kept);

    if (__atomic_add_fetch(&descriptors->connections, 1, __ATOMIC_RELAXED) <= most)
        return true;
    wr_descriptors_leave(descriptors);
    say_crowded(descriptors, most);
    return false;
}

void wr_descriptors_leave(struct wr_descriptors *descriptors)
{
    (void)__atomic_sub_fetch(&descriptors->connections, 1, __ATOMIC_RELAXED);
}
