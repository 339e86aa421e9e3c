/* errand.h - something that another thread wants done in a loop's thread. */
#ifndef WR_SERVE_ERRAND_H
#define WR_SERVE_ERRAND_H

struct wr_loop;
struct wr_worker;

struct wr_errand {
    struct wr_errand *next; /* private */
    /* In the loop's thread, at the start of a turn. |loop| NULL: the loop has ended. */
    void (*run)(struct wr_errand *errand, struct wr_loop *loop);
};

/* Have |errand| run; it is not to be moved until then. Any thread, as long as the worker lives. */
void wr_worker_errand(struct wr_worker *worker, struct wr_errand *errand);

#endif
