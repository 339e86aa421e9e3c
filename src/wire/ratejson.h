/* ratejson.h - questions and answers of the Envoy Rate Limit Service as JSON, in the mapping of
 * proto3: what envoyproxy/ratelimit takes and gives at /json.
 *
 * Source: protobuf.dev, "ProtoJSON"; envoy/service/ratelimit/v3/rls.proto. */
#ifndef WR_WIRE_RATEJSON_H
#define WR_WIRE_RATEJSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/descriptor.h"

#define WR_RATE_MEMBER_MAX 160 /* bytes of the path to a member, cut there */

struct wr_rate_reader {
    struct wr_rate_request request;
    const char *error; /* a static text; NULL: none */
    size_t offset;     /* at which byte of the body */
    size_t member_len; /* where: "descriptors[1].entries[0].key"; 0: the body as a whole */
    char member[WR_RATE_MEMBER_MAX];
    struct wr_descriptor descriptors[WR_DESCRIPTORS_MAX];
    struct wr_entry entries[WR_DESCRIPTORS_MAX * WR_ENTRIES_MAX];
};

/* Read |body| into reader->request; decoded strings go to |scratch|, as long as the body. Names of
 * members in lowerCamelCase or as in the proto; null is as absent; what is unknown is an error.
 * Returns whether it is well-formed. */
bool wr_rate_read(struct wr_rate_reader *reader, struct weir_slice body, char *scratch);

/* The most that wr_rate_write needs for |response|. */
size_t wr_rate_write_max(const struct wr_rate_response *response);

/* Write |response|, of at most wr_rate_write_max bytes. Returns its length. */
size_t wr_rate_write(const struct wr_rate_response *response, char *out);

#endif
