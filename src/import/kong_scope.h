/* kong_scope.h - whom and what a plugin of Kong is for. Internal to src/import. */
#ifndef WR_IMPORT_KONG_SCOPE_H
#define WR_IMPORT_KONG_SCOPE_H

#include "import/draft.h"

/* Where a plugin is switched on. */
struct wr_kong_scope {
    const char *what;       /* "service shop", for comments */
    const char *methods;    /* of a route */
    const char *path;       /* patterns, as of struct wr_draft_limit */
    const char *plan;       /* of a consumer */
    const char *key_header; /* of the plugin key-auth */
    bool all;               /* every path */
    bool unsaid; /* a part of it has no counterpart: what is under it is not carried over */
};

struct wr_kong_scope wr_kong_scope_of_route(struct wr_draft *draft, const struct wr_yaml *route);
/* A service is its routes, those beside it that name it among them. */
struct wr_kong_scope wr_kong_scope_of_service(struct wr_draft *draft, const struct wr_yaml *root,
                                              const struct wr_yaml *service);
/* That of |plugin|, which stands where |around| is; one at the top may name whom it is for. */
struct wr_kong_scope wr_kong_scope_of_plugin(struct wr_draft *draft, const struct wr_yaml *root,
                                             const struct wr_yaml *plugin,
                                             const struct wr_kong_scope *around);
/* What |consumer| is called here, by whichever name a plugin calls it. */
const char *wr_kong_consumer_name(const struct wr_yaml *consumer);

#endif
