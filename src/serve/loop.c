/* loop.c - one thread, one loop of libuv, its doors.
 *
 * Idea. Other threads never touch a loop: they leave a note (a policy, a wish) in an atomic word
 * and wake it; it reads its notes at the start of a turn. So a policy changes only between turns,
 * and whoever decides reads a plain pointer.
 *
 * Invariants:
 *   1. loop.handle changes only in on_wake, in the loop's thread, and by wr_totals_swap, so that
 * what was counted stays with the names of its limits.
 *   2. When the thread ends, what doors closed is closed: their callbacks have run. */
#include "serve/loop.h"

#include <stdlib.h>

#include "serve/broker.h"
#include "serve/errand.h"
#include "serve/totals.h"

#define DRAIN_LOOK_MS 10

enum { WISH_DRAIN = 1, WISH_STOP = 2 };

struct opened {
    const struct wr_door *door;
    void *state;
    bool is_admin;
};

struct wr_worker {
    struct wr_loop loop;
    uv_thread_t thread;
    uv_async_t wake;
    uv_prepare_t prepare; /* both end a reading of the clock */
    uv_check_t check;
    uv_timer_t look; /* while draining */
    uv_sem_t started, go;
    int result; /* of starting */
    const char *failed;
    struct wr_sockets *sockets;
    struct wr_handle *next;    /* atomic: a policy to be swapped in */
    struct wr_errand *errands; /* atomic: a list, the last first */
    unsigned wishes;           /* atomic */
    uint32_t busy;             /* atomic */
    unsigned turns;            /* atomic: how often it was woken */
    unsigned turns_seen;
    unsigned count;
    struct opened opened[WR_SOCKETS_MAX];
};

struct wr_loop *wr_worker_loop(struct wr_worker *worker)
{
    return &worker->loop;
}

int64_t wr_loop_now(struct wr_loop *loop)
{
    if (loop->now_ns == 0)
        loop->now_ns = weir_now(loop->handle->weir);
    return loop->now_ns;
}

/* ---- in the loop's thread ---------------------------------------------------------------- */

static void on_prepare(uv_prepare_t *prepare)
{
    ((struct wr_worker *)prepare->data)->loop.now_ns = 0;
}

static void on_check(uv_check_t *check)
{
    ((struct wr_worker *)check->data)->loop.now_ns = 0;
}

static void on_look(uv_timer_t *timer)
{
    struct wr_worker *worker = timer->data;
    uint32_t busy = 0;

    for (unsigned i = 0; i < worker->count; i++)
        if (!worker->opened[i].is_admin)
            busy += worker->opened[i].door->connections(worker->opened[i].state);
    busy += wr_broker_busy(worker->loop.broker);
    __atomic_store_n(&worker->busy, busy, __ATOMIC_RELEASE);
}

static void start_drain(struct wr_worker *worker)
{
    if (worker->loop.draining)
        return;
    worker->loop.draining = true;
    for (unsigned i = 0; i < worker->count; i++)
        if (!worker->opened[i].is_admin)
            worker->opened[i].door->drain(worker->opened[i].state);
    wr_broker_drain(worker->loop.broker);
    (void)uv_timer_start(&worker->look, on_look, 0, DRAIN_LOOK_MS);
}

/* A timer that a door has left must not hold the end up. */
static void let_go(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_unref(handle);
}

static void close_all(struct wr_worker *worker)
{
    for (unsigned i = 0; i < worker->count; i++)
        worker->opened[i].door->close(worker->opened[i].state);
    worker->count = 0;
    if (worker->loop.broker != NULL)
        wr_broker_close(worker->loop.broker);
    uv_close((uv_handle_t *)&worker->wake, NULL);
    uv_close((uv_handle_t *)&worker->prepare, NULL);
    uv_close((uv_handle_t *)&worker->check, NULL);
    uv_close((uv_handle_t *)&worker->look, NULL);
    wr_refused_close(&worker->loop);
    uv_walk(&worker->loop.uv, let_go, NULL);
}

static void run_errands(struct wr_worker *worker, struct wr_loop *loop)
{
    struct wr_errand *errand = __atomic_exchange_n(&worker->errands, NULL, __ATOMIC_ACQ_REL);

    while (errand != NULL) {
        struct wr_errand *next = errand->next;
        errand->run(errand, loop);
        errand = next;
    }
}

static void on_wake(uv_async_t *wake)
{
    struct wr_worker *worker = wake->data;
    struct wr_handle *next = __atomic_exchange_n(&worker->next, NULL, __ATOMIC_ACQ_REL);
    unsigned wishes = __atomic_load_n(&worker->wishes, __ATOMIC_ACQUIRE);

    (void)__atomic_add_fetch(&worker->turns, 1, __ATOMIC_RELAXED);
    if (next != NULL) {
        struct wr_handle *before = worker->loop.handle;
        wr_refused_forget(&worker->loop);
        wr_totals_swap(wr_server_totals(worker->loop.server), &worker->loop, next);
        wr_handle_unref(before);
        worker->loop.now_ns = 0; /* another arena may have another clock */
        wr_broker_follow(worker->loop.broker);
    }
    run_errands(worker, &worker->loop);
    if ((wishes & WISH_STOP) != 0)
        close_all(worker);
    else if ((wishes & WISH_DRAIN) != 0)
        start_drain(worker);
}

/* Open every door on this loop's descriptor of every socket. */
static int open_doors(struct wr_worker *worker)
{
    for (size_t i = 0; i < worker->sockets->count; i++) {
        struct wr_socket *socket = &worker->sockets->socket[i];
        struct opened *opened = &worker->opened[worker->count];
        int fd, result;

        if (worker->loop.index >= socket->fd_count)
            continue;
        fd = socket->fds[worker->loop.index];
        socket->fds[worker->loop.index] = -1; /* the door's from here on */
        *opened = (struct opened){.door = socket->door, .is_admin = socket->is_admin};
        result = socket->door->open(&worker->loop, fd, &socket->listener, &opened->state);
        if (result != 0) {
            worker->failed = socket->address;
            return result;
        }
        worker->count++;
    }
    return 0;
}

static void run(void *arg)
{
    struct wr_worker *worker = arg;

    worker->loop.broker = wr_broker_new(&worker->loop);
    if (worker->loop.broker != NULL)
        wr_broker_follow(worker->loop.broker);
    worker->result = worker->loop.broker != NULL ? open_doors(worker) : WEIR_ENOMEM;
    if (worker->result != 0)
        close_all(worker);
    uv_sem_post(&worker->started);
    uv_sem_wait(&worker->go);
    (void)uv_run(&worker->loop.uv, UV_RUN_DEFAULT);
}

/* ---- in the main thread ------------------------------------------------------------------ */

static void dispose(struct wr_worker *worker)
{
    struct wr_handle *handle;

    uv_sem_post(&worker->go);
    (void)uv_thread_join(&worker->thread);
    run_errands(worker, NULL);
    handle = worker->loop.handle;
    wr_totals_swap(wr_server_totals(worker->loop.server), &worker->loop, NULL);
    wr_handle_unref(handle);
    wr_handle_unref(worker->next);
    wr_broker_free(worker->loop.broker);
    uv_sem_destroy(&worker->started);
    uv_sem_destroy(&worker->go);
    if (uv_loop_close(&worker->loop.uv) == 0)
        free(worker); /* else something of a door is still in it: it goes with the process */
}

static struct wr_worker *prepare(struct wr_server *server, unsigned index, struct wr_handle *handle,
                                 struct wr_sockets *sockets)
{
    struct wr_worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL || uv_loop_init(&worker->loop.uv) != 0) {
        free(worker);
        return NULL;
    }
    worker->loop.server = server;
    worker->loop.index = index;
    wr_totals_swap(wr_server_totals(server), &worker->loop, handle);
    wr_handle_ref(handle);
    worker->sockets = sockets;
    worker->busy = WR_BUSY_UNKNOWN;
    (void)uv_async_init(&worker->loop.uv, &worker->wake, on_wake);
    (void)uv_prepare_init(&worker->loop.uv, &worker->prepare);
    (void)uv_check_init(&worker->loop.uv, &worker->check);
    (void)uv_timer_init(&worker->loop.uv, &worker->look);
    wr_refused_open(&worker->loop);
    worker->wake.data = worker->prepare.data = worker->check.data = worker->look.data = worker;
    (void)uv_prepare_start(&worker->prepare, on_prepare);
    (void)uv_check_start(&worker->check, on_check);
    (void)uv_sem_init(&worker->started, 0);
    (void)uv_sem_init(&worker->go, 0);
    return worker;
}

int wr_worker_start(struct wr_worker **out, struct wr_server *server, unsigned index,
                    struct wr_handle *handle, struct wr_sockets *sockets, const char **failed)
{
    struct wr_worker *worker = prepare(server, index, handle, sockets);

    *out = NULL;
    *failed = "";
    if (worker == NULL)
        return WEIR_ENOMEM;
    if (uv_thread_create(&worker->thread, run, worker) != 0) {
        /* What libuv opened in the loop goes with the process, which does not start. */
        wr_totals_swap(wr_server_totals(server), &worker->loop, NULL);
        wr_handle_unref(handle);
        free(worker);
        return WEIR_ENOMEM;
    }
    uv_sem_wait(&worker->started);
    if (worker->result != 0) {
        int result = worker->result;
        *failed = worker->failed;
        dispose(worker);
        return result;
    }
    *out = worker;
    return 0;
}

void wr_worker_go(struct wr_worker *worker)
{
    uv_sem_post(&worker->go);
}

void wr_worker_swap(struct wr_worker *worker, struct wr_handle *handle)
{
    struct wr_handle *overtaken;

    wr_handle_ref(handle);
    overtaken = __atomic_exchange_n(&worker->next, handle, __ATOMIC_ACQ_REL);
    wr_handle_unref(overtaken);
    (void)uv_async_send(&worker->wake);
}

void wr_worker_errand(struct wr_worker *worker, struct wr_errand *errand)
{
    struct wr_errand *first = __atomic_load_n(&worker->errands, __ATOMIC_RELAXED);

    do
        errand->next = first;
    while (!__atomic_compare_exchange_n(&worker->errands, &first, errand, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
    (void)uv_async_send(&worker->wake);
}

static void wish(struct wr_worker *worker, unsigned what)
{
    (void)__atomic_or_fetch(&worker->wishes, what, __ATOMIC_RELEASE);
    (void)uv_async_send(&worker->wake);
}

void wr_worker_drain(struct wr_worker *worker)
{
    wish(worker, WISH_DRAIN);
}

uint32_t wr_worker_busy(const struct wr_worker *worker)
{
    return __atomic_load_n(&worker->busy, __ATOMIC_ACQUIRE);
}

bool wr_worker_alive(struct wr_worker *worker)
{
    unsigned turns = __atomic_load_n(&worker->turns, __ATOMIC_RELAXED);
    bool alive = turns != worker->turns_seen;

    worker->turns_seen = turns;
    (void)uv_async_send(&worker->wake);
    return alive;
}

void wr_worker_stop(struct wr_worker *worker)
{
    if (worker == NULL)
        return;
    wish(worker, WISH_STOP);
    dispose(worker);
}
