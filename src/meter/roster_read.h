/* roster_read.h - scalars and maps of the customers' file, with their places. Internal to
 * src/meter. */
#ifndef WR_METER_ROSTER_READ_H
#define WR_METER_ROSTER_READ_H

#include "meter/roster_parts.h"
#include "policy/yaml.h"

struct wr_roster_reader {
    struct wr_roster *roster;
    const struct wr_roster_names *names;
    struct wr_diag *diag;
    struct wr_table keys; /* digests */
};

/* An error at |at|, a node. */
#define WR_ROSTER_FAIL(reader, at, ...) \
    wr_diag_add((reader)->diag, WR_ERROR, (at)->line, (at)->column, __VA_ARGS__)

/* A key that a map may have, and who reads its value; a name of NULL ends a list of them. */
struct wr_roster_field {
    const char *name;
    void (*read)(struct wr_roster_reader *reader, const struct wr_yaml *value, void *into);
};

/* Each false after an error, and where it failed |*out| is as it was. |what| is for messages. */
bool wr_roster_map(struct wr_roster_reader *reader, const struct wr_yaml *node, const char *what,
                   const struct wr_roster_field *fields, void *into);
bool wr_roster_text(struct wr_roster_reader *reader, const struct wr_yaml *value, size_t max,
                    const char **out);
/* One of |names|. */
bool wr_roster_known(struct wr_roster_reader *reader, const struct wr_yaml *value, const char *what,
                     const char *const *names, size_t count, const char **out);
void wr_roster_bool(struct wr_roster_reader *reader, const struct wr_yaml *value, bool *out);
void wr_roster_anchor(struct wr_roster_reader *reader, const struct wr_yaml *value, int64_t *out);

#endif
