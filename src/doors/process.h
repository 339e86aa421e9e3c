/* process.h - what this process uses, as Prometheus' client libraries tell it. */
#ifndef WR_DOORS_PROCESS_H
#define WR_DOORS_PROCESS_H

#include <stdint.h>

struct wr_process_use {
    uint64_t cpu_ns; /* user and system */
    uint64_t virtual_bytes, resident_bytes;
    uint64_t open_fds, max_fds;
    uint64_t start_unix_ns;
};

/* 0 for what the system does not tell. */
void wr_process_look(struct wr_process_use *out);

#endif
