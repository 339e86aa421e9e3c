/* loop.h - a loop's thread, as the server sees it: doors are opened in it, policies swapped under
 * it, and it is asked to drain and to stop. All functions are for the main thread. */
#ifndef WR_SERVE_LOOP_H
#define WR_SERVE_LOOP_H

#include "serve/listen.h"
#include "serve/serve.h"

#define WR_BUSY_UNKNOWN UINT32_MAX

struct wr_worker;

/* Start a thread that decides by |handle| (a reference is taken) and opens its doors on its share
 * of |sockets|. Returns 0 when they are open, or WEIR_E* and |*failed| names the address. */
int wr_worker_start(struct wr_worker **out, struct wr_server *server, unsigned index,
                    struct wr_handle *handle, struct wr_sockets *sockets, const char **failed);

/* Let it turn: when all workers are started, so that nothing is served by half a server. */
void wr_worker_go(struct wr_worker *worker);

struct wr_loop *wr_worker_loop(struct wr_worker *worker);

/* Decide by |handle| (a reference is taken) from the loop's next turn on. Any thread. */
void wr_worker_swap(struct wr_worker *worker, struct wr_handle *handle);

/* Let doors but admin take nothing new and answer what is in flight. */
void wr_worker_drain(struct wr_worker *worker);

/* Connections of those doors that are still open; WR_BUSY_UNKNOWN until the loop has heard of the
 * drain. */
uint32_t wr_worker_busy(const struct wr_worker *worker);

/* Has the loop turned since the last call? And let it turn once more. */
bool wr_worker_alive(struct wr_worker *worker);

/* Close everything, end the thread, free. */
void wr_worker_stop(struct wr_worker *worker);

#endif
