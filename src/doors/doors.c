/* doors.c - the doors that this build has, a row each. */
#include "doors/doors.h"

const struct wr_door *const wr_doors[] = {
    &wr_door_http, /* a row each */
    &wr_door_grpc, &wr_door_resp, &wr_door_agent, &wr_door_admin, NULL,
};
const size_t wr_door_count = sizeof wr_doors / sizeof wr_doors[0] - 1;
