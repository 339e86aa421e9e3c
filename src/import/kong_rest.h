/* kong_rest.h - what entities of Kong say that was not carried over. Internal to src/import. */
#ifndef WR_IMPORT_KONG_REST_H
#define WR_IMPORT_KONG_REST_H

#include "import/draft.h"

/* Each notes the members of its entity that are not known. |what| names it: "service shop". */
void wr_kong_note_root(struct wr_draft *draft, const struct wr_yaml *root);
void wr_kong_note_service(struct wr_draft *draft, const struct wr_yaml *service);
void wr_kong_note_route(struct wr_draft *draft, const struct wr_yaml *route);
void wr_kong_note_group(struct wr_draft *draft, const struct wr_yaml *group);
void wr_kong_note_plugin(struct wr_draft *draft, const struct wr_yaml *plugin, const char *what);
/* One plugin alone, as the admin API shows it: whom it is for is elsewhere. */
void wr_kong_note_alone(struct wr_draft *draft, const struct wr_yaml *plugin);
/* A plugin key-auth, where keys are looked for in |header| alone. */
void wr_kong_note_key_names(struct wr_draft *draft, const struct wr_yaml *plugin, const char *what,
                            const char *header);
/* After all limits are read. |name| is what |consumer| is called, |plan| its own plan or NULL. */
void wr_kong_note_consumer(struct wr_draft *draft, const struct wr_yaml *consumer, const char *name,
                           const char *plan);

/* Does |route| choose requests by more than paths and methods? What it is by ("hosts"), or NULL. */
const struct wr_yaml *wr_kong_narrowing(const struct wr_yaml *route);

#endif
