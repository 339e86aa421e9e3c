/* peer.h - what most limiters in a library do, as the peer to compare with: one mutex around a
 * chained hash of string keys, a node malloc'd for each, a token bucket in floating point. Honest
 * code: no waste beyond the design itself. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer;

struct peer *peer_new(size_t buckets, double units_per_s, double burst);
void peer_free(struct peer *peer);
bool peer_check(struct peer *peer, const char *key, size_t len, double cost, int64_t now_ns);

#endif
