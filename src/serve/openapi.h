/* openapi.h - docs/openapi.json, as the HTTP door serves it. Made from it by scripts/embed.py. */
#ifndef WR_SERVE_OPENAPI_H
#define WR_SERVE_OPENAPI_H

#include <stddef.h>

extern const char wr_openapi[];
extern const size_t wr_openapi_len;

#endif
