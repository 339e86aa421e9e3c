/* conn_drain.c - the end of a drain: a connection that is kept is closed between two requests.
 *
 * Problem. Whoever asks all the time over one connection has, at any moment, a request on its way.
 * Closing what looks idle throws that request away, and a client does not know whether it counted.
 *
 * Idea. For a moment nothing is closed that is not told so: what asks in it is answered as the last
 * (Connection: close; RESP cannot say it, and closes behind the answer). What has not asked by then
 * is closed, but first what has come since is read.
 *
 * Invariant: what has come before the connection's end is begun is handed to the door.
 *
 * Rejected: to half-close the read side: what is on its way then is lost all the same. */
#include <errno.h>
#include <unistd.h>

#include "base/units.h"
#include "serve/connection.h"

#define GRACE_NS (500 * WR_NS_PER_MS)
#define READS_MAX 16U /* of what a connection has sent by then */

/* Take in what the kernel has of it. */
static void read_now(struct wr_conn *conn)
{
    struct wr_acceptor *acceptor = conn->acceptor;
    uv_os_fd_t fd;

    if (uv_fileno((uv_handle_t *)&conn->uv.stream, &fd) != 0)
        return;
    for (unsigned i = 0; i < READS_MAX; i++) {
        ssize_t n;
        if (conn->closing || conn->paused || conn->full)
            return;
        n = read(fd, acceptor->scratch, sizeof acceptor->scratch);
        if (n < 0)
            return; /* nothing, or an error, which the loop finds as well */
        wr_conn_arrive(conn, n == 0 ? UV_EOF : n, (const char *)acceptor->scratch);
    }
}

static void on_grace(uv_timer_t *timer)
{
    struct wr_acceptor *acceptor = timer->data;

    /* Closing takes effect in the loop: the list stands still meanwhile. */
    for (struct wr_conn *conn = acceptor->conns; conn != NULL; conn = conn->next)
        if (!conn->closing)
            read_now(conn);
    wr_acceptor_each(acceptor, acceptor->end);
}

void wr_acceptor_drain(struct wr_acceptor *acceptor,
                       void (*end)(void *context, struct wr_conn *conn))
{
    int64_t half_ns = wr_policy_settings(acceptor->loop->handle->policy)->drain_ns / 2;
    int64_t grace_ns = half_ns < GRACE_NS ? half_ns : GRACE_NS;

    wr_acceptor_stop(acceptor);
    acceptor->end = end;
    (void)uv_timer_start(&acceptor->grace, on_grace, (uint64_t)(grace_ns / WR_NS_PER_MS), 0);
}
