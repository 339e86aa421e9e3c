/* rls.h - the messages of the Envoy Rate Limit Service v3 and of gRPC health checks: bytes to
 * structs and back. No I/O, no framing (grpc.h). */
#ifndef WR_WIRE_RLS_H
#define WR_WIRE_RLS_H

#include "base/descriptor.h"

/* Where a request is read to: the caller's, used anew for each. The last of both is for those that
 * are too many. */
struct wr_rls_space {
    struct wr_descriptor descriptors[WR_DESCRIPTORS_MAX + 1];
    struct wr_entry entries[WR_DESCRIPTORS_MAX + 1][WR_ENTRIES_MAX + 1];
};

/* Decode the RateLimitRequest in |len| bytes. Unknown fields are skipped, the last of a scalar
 * counts, repeated single messages are merged.
 *
 * Owns:    what |out| points to is in |space|, until that is used again; its texts are in |bytes|.
 * Returns: 0; WEIR_EINVAL with |*why| (static): not such a message, or text that is not UTF-8, or a
 *          unit that there is not; WEIR_EFULL with |*why|: beyond the bounds of descriptor.h. */
int wr_rls_decode(const uint8_t *bytes, size_t len, struct wr_rls_space *space,
                  struct wr_rate_request *out, const char **why);

/* Encode a RateLimitResponse into |size| bytes at |out|. Returns its length, or WEIR_EFULL. */
int64_t wr_rls_encode(const struct wr_rate_response *response, uint8_t *out, size_t size);

enum wr_health { WR_HEALTH_SERVING = 1, WR_HEALTH_NOT_SERVING = 2 };

/* Decode a HealthCheckRequest: the name of a service, in |bytes|; "" for the whole server. Returns
 * 0 or WEIR_EINVAL. */
int wr_health_decode(const uint8_t *bytes, size_t len, struct weir_slice *service);
#define WR_HEALTH_BYTES 2
void wr_health_encode(enum wr_health health, uint8_t out[WR_HEALTH_BYTES]);

/* Is |text| UTF-8 as Unicode defines it: shortest forms only, no surrogates, at most U+10FFFF? */
bool wr_utf8_valid(struct weir_slice text);

#endif
