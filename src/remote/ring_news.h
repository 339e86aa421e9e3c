/* ring_news.h - what the operator is to know of the ring: who came and went, and what is not as it
 * was written. One for all loops of the process. */
#ifndef WR_REMOTE_RING_NEWS_H
#define WR_REMOTE_RING_NEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backend.h"

struct wr_ring_news;

/* NULL: no memory. */
struct wr_ring_news *wr_ring_news_new(void);
void wr_ring_news_free(struct wr_ring_news *news);

/* |node| has changed; the same again is not told again. */
void wr_ring_news_say(struct wr_ring_news *news, const char *node, const char *what, bool grave);

/* Something is wrong with |node|, as seen at |now_ns|; said at each sight. It is told once, when it
 * has been seen for |grace_ns|, and stands until it has not been seen for a while. */
void wr_ring_news_trouble(struct wr_ring_news *news, const char *node, const char *what,
                          int64_t now_ns, int64_t grace_ns);

/* A trouble that stands: "NODE WHAT". False: none. */
bool wr_ring_news_stands(struct wr_ring_news *news, int64_t now_ns, char *out, size_t size);

/* The next to be told. False: none. */
bool wr_ring_news_next(struct wr_ring_news *news, struct wr_backend_news *out);

#endif
