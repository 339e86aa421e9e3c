/* moment.c - LD_PRELOAD=moment.so WEIR_MOMENT=FILE: what time it is, for a program under test.
 *
 * The file's first 8 bytes are nanoseconds since the epoch in the machine's order; whoever writes
 * them moves the clocks by which weir decides (src/base/clock.c: CLOCK_REALTIME and
 * CLOCK_BOOTTIME). They stand still in between. Timers go by other clocks and run as ever. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

static const int64_t *moment_ns;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("WEIR_MOMENT");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at;

    if (fd < 0)
        return;
    at = mmap(NULL, sizeof *moment_ns, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED)
        moment_ns = at;
    (void)close(fd);
}

/* The C library's, replaced. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *out)
{
    int64_t now_ns;

    if (moment_ns == NULL || (id != CLOCK_REALTIME && id != CLOCK_BOOTTIME))
        return (int)syscall(SYS_clock_gettime, id, out);
    now_ns = __atomic_load_n(moment_ns, __ATOMIC_RELAXED);
    *out = (struct timespec){now_ns / NS_PER_S, now_ns % NS_PER_S};
    return 0;
}
