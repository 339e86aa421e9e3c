/* reload.h - what a policy that is reloaded says, against what is open. Internal. */
#ifndef WR_SERVE_RELOAD_H
#define WR_SERVE_RELOAD_H

#include "serve/server.h"

/* What |settings| say of where |socket| listens; NULL: nothing. */
const struct wr_policy_listener *wr_reload_listener(const struct wr_policy_settings *settings,
                                                    const struct wr_socket *socket);

/* May |next| be in force behind the sockets that are open? Returns 0, or WEIR_EPOLICY and a line in
 * |errors|. */
int wr_reload_check(const struct wr_server *server, const struct wr_handle *next, char *errors,
                    size_t size);

/* Log what |next| says and the server does not do until it starts again. */
void wr_reload_warn(const struct wr_server *server, const struct wr_handle *next);

/* Log which bans in the arena are by an identity that the policy of |handle| does not have: they
 * are listed, and hold nobody. */
void wr_reload_warn_of_bans(const struct wr_handle *handle);

#endif
