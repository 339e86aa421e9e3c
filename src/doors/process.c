/* process.c - /proc/self, read for a scrape.
 *
 * It is read on a loop that decides, so it must be cheap: four system calls, and for the open
 * descriptors one more from Linux 6.2 on, where the folder's size is their number; before, the
 * folder is read, 50 000 connections in some milliseconds.
 *
 * The time of the start is told in ticks since the boot. Client libraries add the boot time of
 * /proc/stat, which a unit with ProcSubset=pid hides; two clocks say the same. Asked once: a clock
 * that is set later does not move the start. */
#include "doors/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"

#define START_FIELD 22 /* of /proc/self/stat: ticks from the boot to the start */

static void read_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : 0;

    if (fd >= 0)
        (void)close(fd);
    out[n > 0 ? n : 0] = '\0';
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * WR_NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t read_start(void)
{
    long hz = sysconf(_SC_CLK_TCK);
    char text[1024];
    const char *at;
    uint64_t after_boot_ns;

    read_file("/proc/self/stat", text, sizeof text);
    at = strrchr(text, ')'); /* a program's name may hold anything; field 3 is behind it */
    for (int field = 2; at != NULL && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL || hz <= 0)
        return 0;
    after_boot_ns = strtoull(at, NULL, 10) * (WR_NS_PER_S / (uint64_t)hz);
    return now_ns(CLOCK_REALTIME) - now_ns(CLOCK_BOOTTIME) + after_boot_ns;
}

static uint64_t count_fds(void)
{
    struct stat st;
    uint64_t count = 0;
    DIR *folder;

    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return (uint64_t)st.st_size;
    folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(folder);
    return count > 0 ? count - 1 : 0; /* the folder itself was one */
}

static uint64_t ns_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * WR_NS_PER_S + (uint64_t)t.tv_usec * WR_NS_PER_US;
}

void wr_process_look(struct wr_process_use *out)
{
    static uint64_t start_unix_ns;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start;
    struct rusage use;
    struct rlimit fds;
    char text[128], *end;

    *out = (struct wr_process_use){.open_fds = count_fds()};
    if (getrusage(RUSAGE_SELF, &use) == 0)
        out->cpu_ns = ns_of(use.ru_utime) + ns_of(use.ru_stime);
    read_file("/proc/self/statm", text, sizeof text);
    out->virtual_bytes = strtoull(text, &end, 10) * page;
    out->resident_bytes = strtoull(end, NULL, 10) * page;
    if (getrlimit(RLIMIT_NOFILE, &fds) == 0)
        out->max_fds = fds.rlim_cur;
    start = __atomic_load_n(&start_unix_ns, __ATOMIC_RELAXED);
    if (start == 0) {
        start = read_start();
        __atomic_store_n(&start_unix_ns, start, __ATOMIC_RELAXED);
    }
    out->start_unix_ns = start;
}
