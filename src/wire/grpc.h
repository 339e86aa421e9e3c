/* grpc.h - what gRPC puts around messages: a frame of five bytes, a status, a deadline. */
#ifndef WR_WIRE_GRPC_H
#define WR_WIRE_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

/* The status codes that weir sends. */
enum wr_grpc_code {
    WR_GRPC_OK = 0,
    WR_GRPC_UNKNOWN = 2,
    WR_GRPC_INVALID_ARGUMENT = 3,
    WR_GRPC_NOT_FOUND = 5,
    WR_GRPC_RESOURCE_EXHAUSTED = 8,
    WR_GRPC_UNIMPLEMENTED = 12,
    WR_GRPC_INTERNAL = 13,
    WR_GRPC_UNAVAILABLE = 14,
};

/* A message on the wire: 1 byte compressed or not, 4 bytes length, most significant first. */
#define WR_GRPC_FRAME 5
struct wr_grpc_frame {
    bool compressed;
    uint32_t len;
};
/* False: the flag is neither 0 nor 1. */
bool wr_grpc_frame_read(const uint8_t bytes[WR_GRPC_FRAME], struct wr_grpc_frame *out);
void wr_grpc_frame_write(uint8_t bytes[WR_GRPC_FRAME], uint32_t len);

/* grpc-timeout: at most 8 digits and one of H M S m u n. False: not one. */
bool wr_grpc_timeout(struct weir_slice text, int64_t *ns);

/* Is it application/grpc, with +proto or parameters? */
bool wr_grpc_content_type(struct weir_slice text);

/* Percent-encode |text| for grpc-message into |out| of |size| bytes; cut where it does not fit.
 * Returns the length; not terminated. */
size_t wr_grpc_message(const char *text, char *out, size_t size);

#endif
