/* yaml.h - the text of a policy as a small tree whose nodes know their places.
 *
 * The subset that a policy needs: one document of maps, lists and scalars. What would make a file
 * mean something else than it shows is refused: aliases and anchors, tags, several documents, a key
 * given twice. Scalars stay text; what a number is, readers decide. */
#ifndef WR_POLICY_YAML_H
#define WR_POLICY_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "policy/region.h"

enum wr_yaml_kind { WR_YAML_SCALAR, WR_YAML_LIST, WR_YAML_MAP };

struct wr_yaml {
    enum wr_yaml_kind kind;
    bool plain;                  /* a scalar without quotes, on one line as it stands */
    unsigned line, column;       /* from 1 */
    const char *text;            /* scalar: terminated, no NUL inside */
    size_t len;                  /* of text */
    uint32_t count;              /* list: items; map: pairs */
    const struct wr_yaml *first; /* list: items; map: values */
    const struct wr_yaml *next;  /* sibling */
    const struct wr_yaml *key;   /* value in a map: its key, a scalar */
};

/* How large a document may be. */
struct wr_yaml_bounds {
    const char *what; /* "a policy" */
    size_t bytes;
    size_t nodes; /* scalars, lists and maps */
};

/* Parse |len| bytes at |text|. On success |*root| is the tree, in |region|; NULL for an empty
 * document. On errors |diag| has them; structural ones are collected, the first error of syntax
 * ends it.
 *
 * Bounds:  |bounds|, and WR_POLICY_DEPTH_MAX of policy.h.
 * Returns: false when there was an error, or region->failed. */
bool wr_yaml_parse_within(const struct wr_yaml **root, const char *text, size_t len,
                          const struct wr_yaml_bounds *bounds, struct wr_region *region,
                          struct wr_diag *diag);

/* The same of a policy: WR_POLICY_BYTES_MAX, WR_POLICY_NODES_MAX. */
bool wr_yaml_parse(const struct wr_yaml **root, const char *text, size_t len,
                   struct wr_region *region, struct wr_diag *diag);

#endif
