/* ask_link.c - asking the host's weir serve and waiting for it, with a deadline.
 *
 * Idea. A handle keeps a few connections in a row of atomic words. Who asks takes one out, so it is
 * alone with it, and puts it back when the answer has come; who finds none opens another, and
 * closes it when the row is full. No lock, nothing of a thread's.
 *
 * Invariants:
 *   1. A connection in the row has nothing under way: a deadline that passes closes it, so no
 * answer is ever taken for another's.
 *   2. A word of the row is a process and its descriptor: a forked child closes what it inherits
 *      and never speaks on it.
 *   3. No call raises SIGPIPE, and none but poll waits. */
#include "lib/ask_link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/units.h"
#include "lib/handle.h"
#include "wire/agent.h"

/* ---- the row ------------------------------------------------------------------------------- */

/* 0: empty. */
static uint64_t word_of(int fd)
{
    return (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)(fd + 1);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd;

    if (len >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, len);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd); /* not there, or its queue is full: both are no */
        return -1;
    }
    return fd;
}

/* One that is open; -1: none. |fresh|: it has just been opened. */
static int take_link(struct weir *w, bool *fresh)
{
    *fresh = false;
    for (unsigned i = 0; i < WR_ASK_LINKS; i++) {
        uint64_t word = __atomic_exchange_n(&w->link[i], 0, __ATOMIC_ACQ_REL);
        int fd = (int)(uint32_t)word - 1;
        if (word == 0)
            continue;
        if (word == word_of(fd))
            return fd;
        (void)close(fd); /* of the parent */
    }
    *fresh = true;
    return connect_to(weir_ask_socket(w));
}

static void put_link(struct weir *w, int fd)
{
    for (unsigned i = 0; i < WR_ASK_LINKS; i++) {
        uint64_t empty = 0;
        if (__atomic_compare_exchange_n(&w->link[i], &empty, word_of(fd), false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return;
    }
    (void)close(fd);
}

void wr_ask_links_close(struct weir *w)
{
    for (unsigned i = 0; i < WR_ASK_LINKS; i++) {
        uint64_t word = __atomic_exchange_n(&w->link[i], 0, __ATOMIC_ACQ_REL);
        if (word != 0)
            (void)close((int)(uint32_t)word - 1);
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Until |fd| is ready for |events|. False: the deadline has passed, or the connection has ended. */
static bool wait_for(const struct weir *w, int fd, short events, int64_t until)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};
    int64_t left;
    int n;

    do {
        left = until - weir_now(w);
        if (left <= 0)
            return false;
        n = ppoll(&poll_fd, 1, &(struct timespec){left / WR_NS_PER_S, (long)(left % WR_NS_PER_S)},
                  NULL);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

/* Drop the first |n| bytes of |message|. */
static void advance(struct msghdr *message, size_t n)
{
    while (message->msg_iovlen > 0 && n >= message->msg_iov->iov_len) {
        n -= message->msg_iov->iov_len;
        message->msg_iov++;
        message->msg_iovlen--;
    }
    if (message->msg_iovlen == 0)
        return;
    message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + n;
    message->msg_iov->iov_len -= n;
}

static bool send_ask(const struct weir *w, int fd, struct wr_agent_ask *ask, int64_t until)
{
    struct iovec iov[1 + WR_AGENT_TEXTS_MAX];
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 1 + ask->text_count};

    iov[0] = (struct iovec){ask->head, ask->head_len};
    for (unsigned i = 0; i < ask->text_count; i++) {
        iov[1 + i].iov_len = ask->text[i].len;
        memcpy(&iov[1 + i].iov_base, &ask->text[i].ptr, sizeof(void *)); /* sendmsg only reads */
    }
    while (message.msg_iovlen > 0) {
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            advance(&message, (size_t)n);
        else if (errno != EINTR && (errno != EAGAIN || !wait_for(w, fd, POLLOUT, until)))
            return false;
    }
    return true;
}

/* The answer, and nothing behind it. */
static bool receive(const struct weir *w, int fd, int64_t until, struct weir_asked *out)
{
    uint8_t bytes[WEIR_ANSWER_BYTES];
    size_t len = 0;

    while (len < sizeof bytes) {
        ssize_t n = recv(fd, bytes + len, sizeof bytes - len, MSG_DONTWAIT);
        int used;
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            return false;
        if (n < 0) {
            if (errno == EAGAIN && !wait_for(w, fd, POLLIN, until))
                return false;
            continue;
        }
        len += (size_t)n;
        used = weir_ask_next(w, bytes, len, weir_now(w), out);
        if (used != 0)
            return used > 0 && (size_t)used == len && out->id == 0;
    }
    return false;
}

/* ---- asking -------------------------------------------------------------------------------- */

/* Ask over one connection after another: those that were kept may have ended meanwhile, which shows
 * when they are used. */
static bool ask(struct weir *w, struct wr_agent_ask *question, int64_t until,
                struct weir_asked *out)
{
    bool fresh;

    do {
        int fd = take_link(w, &fresh);
        if (fd < 0)
            return false;
        if (send_ask(w, fd, question, until) && receive(w, fd, until, out)) {
            put_link(w, fd);
            return out->status == 0;
        }
        (void)close(fd);
    } while (!fresh && weir_now(w) < until);
    return false;
}

int weir_ask(struct weir *w, const struct weir_request *request, int64_t deadline_ns,
             struct weir_answer *answer)
{
    int64_t now = weir_now(w), until;
    int result = weir_decide(w, request, now, answer);
    struct wr_agent_ask question;
    struct weir_asked asked;

    if (result != 0 || answer->outcome != WEIR_ASK)
        return result;
    if (deadline_ns == 0)
        deadline_ns = weir_ask_deadline(w);
    if (deadline_ns < 0 || __builtin_add_overflow(now, deadline_ns, &until)) {
        memset(answer, 0, sizeof *answer);
        return WEIR_EINVAL;
    }
    if (wr_agent_put_ask(&question, 0, w->fingerprint, request) == 0 &&
        ask(w, &question, until, &asked)) {
        *answer = asked.answer;
        return 0;
    }
    (void)weir_decide_alone(w, request, weir_now(w), answer);
    return 1;
}

void wr_ask_release(struct weir *w, struct weir_answer *answer)
{
    uint8_t bytes[WEIR_ANSWER_BYTES];
    int len = weir_ask_release(w, answer, bytes, sizeof bytes);
    bool fresh;
    int fd;

    if (len <= 0 || weir_ask_socket(w) == NULL)
        return;
    fd = take_link(w, &fresh);
    if (fd < 0)
        return;
    if (send(fd, bytes, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len)
        put_link(w, fd);
    else
        (void)close(fd);
}
