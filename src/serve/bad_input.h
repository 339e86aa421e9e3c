/* bad_input.h - input that a door refused, in the log at level debug. */
#ifndef WR_SERVE_BAD_INPUT_H
#define WR_SERVE_BAD_INPUT_H

#include "serve/serve.h"

/* Tell of it, a few times a second of a loop: callers can cause it as often as they like. |peer|:
 * "" for a unix socket. |reason|: what was wrong, no secret. */
void wr_bad_input(struct wr_loop *loop, enum wr_door_id door, const char *peer,
                  struct weir_slice reason);

#endif
