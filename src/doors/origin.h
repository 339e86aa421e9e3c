/* origin.h - was a request made on behalf of some other web site? */
#ifndef WR_DOORS_ORIGIN_H
#define WR_DOORS_ORIGIN_H

#include <stdbool.h>

#include "wire/http1.h"

/* May |request| be answered by a door of this machine that asks for no token? Not when a page of
 * another site had a browser send it, and not under a name that somebody's DNS may have lent to
 * this machine: Host is localhost or an address, and Origin, if there is one, is of the same host.
 */
bool wr_origin_is_own(const struct wr_http_request *request);

#endif
