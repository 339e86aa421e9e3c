/* descriptors.h - the descriptors of this process, and how many of them connections may have. */
#ifndef WR_SERVE_DESCRIPTORS_H
#define WR_SERVE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

/* All zeros at first. */
struct wr_descriptors {
    int64_t limit; /* of this process */
    int64_t connections_max;
    int64_t connections; /* atomic; of all loops */
    int64_t crowded_s;   /* atomic; when it was last said that more are refused */
};

/* Idle connections are cheap; the descriptors for them are asked for at once, as many as this
 * process may have. */
void wr_descriptors_raise(struct wr_descriptors *descriptors);

/* What is open by now stays so; the rest is for connections. False: nothing is left to them. */
bool wr_descriptors_count(struct wr_descriptors *descriptors);

/* wr_server_take_connection and wr_server_leave_connection (serve.h). Any thread. */
bool wr_descriptors_take(struct wr_descriptors *descriptors, bool for_admin);
void wr_descriptors_leave(struct wr_descriptors *descriptors);

#endif
