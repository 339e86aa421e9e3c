/* door_admin.h - what the files of the admin door share: door_admin.c (the door, its paths, its
 * key) and one file for each thing that it tells. */
#ifndef WR_SERVE_DOOR_ADMIN_H
#define WR_SERVE_DOOR_ADMIN_H

#include "serve/http_policy.h"
#include "serve/http_service.h"
#include "serve/page.h"
#include "wire/exposition.h"

/* One listening socket, on the first loop. All but the service's connections is scratch memory for
 * the request at hand. */
struct admin_door {
    struct http_service service;  /* first */
    struct wr_page page;          /* the answer's body; empty when a handler is called */
    struct wr_exposition metrics; /* of /metrics, kept for its memory */
    uint64_t scrapes;
};

static inline struct admin_door *admin_door_of(struct http_service *service)
{
    return (struct admin_door *)service;
}

/* Answer |status| with the door's page as body, or 503 where memory did not last. */
void admin_page(struct admin_door *door, struct http_response *response, int status,
                const char *type);

http_handler admin_metrics; /* door_admin_metrics.c */

#endif
