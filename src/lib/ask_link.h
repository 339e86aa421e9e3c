/* ask_link.h - the connections of a handle to the host's weir serve, for callers that may wait. */
#ifndef WR_LIB_ASK_LINK_H
#define WR_LIB_ASK_LINK_H

#include "weir/weir.h"

/* Tell the daemon that what it took for |answer| is free, over a connection that is open already:
 * without waiting, without a promise. */
void wr_ask_release(struct weir *w, struct weir_answer *answer);

/* Close those that this process has opened. */
void wr_ask_links_close(struct weir *w);

#endif
