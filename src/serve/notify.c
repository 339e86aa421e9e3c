/* notify.c - sd_notify(3) without its library: one datagram, documented and stable.
 *
 * Rejected: libsystemd, a dependency for sixty lines. */
#include "serve/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void wr_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len;
    size_t path_len;
    int fd;

    if (path == NULL || (path[0] != '/' && path[0] != '@'))
        return;
    path_len = strlen(path);
    if (path_len >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, path_len);
    if (path[0] == '@') /* an abstract name begins with NUL */
        address.sun_path[0] = '\0';
    len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path_len);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, len);
    (void)close(fd);
}

void wr_notify_reloading(void)
{
    struct timespec now;
    char text[64];

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld",
                   (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    wr_notify(text);
}

uint64_t wr_notify_watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    unsigned long long value;

    if (usec == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    value = strtoull(usec, NULL, 10) / 2000;
    return value > 0 ? value : 1;
}
