/* bearer.h - the admin door's key: `Authorization: Bearer TOKEN` (RFC 6750). */
#ifndef WR_DOORS_BEARER_H
#define WR_DOORS_BEARER_H

#include <stdbool.h>

#include "wire/http1.h"

enum wr_bearer { WR_BEARER_GOOD, WR_BEARER_MISSING, WR_BEARER_WRONG };

/* What |request| shows against |token|. Two Authorization fields, another scheme and an empty token
 * are no token. The time it takes does not depend on how much of the token was right. */
enum wr_bearer wr_bearer_look(const struct wr_http_request *request, const char *token);

#endif
