/* openapi.h - docs/openapi.json and docs/openapi-admin.json, as the HTTP and the admin door serve
 * them. Made from them by scripts/embed.py. */
#ifndef WR_DOORS_OPENAPI_H
#define WR_DOORS_OPENAPI_H

#include <stddef.h>

extern const char wr_openapi[];
extern const size_t wr_openapi_len;

extern const char wr_openapi_admin[];
extern const size_t wr_openapi_admin_len;

#endif
