/* doors.h - the front doors of the daemon: a protocol each, on what src/serve gives to all
 * (serve.h, conn.h, asks.h). Nothing in src/serve knows them by name: they are given to
 * wr_server_run. */
#ifndef WR_DOORS_DOORS_H
#define WR_DOORS_DOORS_H

#include "serve/serve.h"

extern const struct wr_door wr_door_http;
extern const struct wr_door wr_door_grpc;
extern const struct wr_door wr_door_resp;
extern const struct wr_door wr_door_agent;
extern const struct wr_door wr_door_admin;

/* Those that this build has. */
extern const struct wr_door *const wr_doors[];
extern const size_t wr_door_count;

#endif
