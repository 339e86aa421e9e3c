/* envoy_read.h - between the readers of envoyproxy/ratelimit's configuration: envoy_files.c finds
 * the files, envoy_file.c reads one, envoy_limit.c a rate_limit. Internal to src/policy. */
#ifndef WR_POLICY_ENVOY_READ_H
#define WR_POLICY_ENVOY_READ_H

#include "policy/envoy_tree.h"
#include "policy/loader.h"

#define WR_ENVOY_PATH_MAX 512 /* bytes of a rule's path; longer is cut, it only names */

/* A descriptor as it is written. */
struct wr_envoy_written {
    const struct wr_yaml *key, *value, *rate_limit, *descriptors;
    const char *key_text, *value_text; /* value: NULL: any */
    bool shadow, quota, share;
};

/* Where we are in the tree. */
struct wr_envoy_place {
    struct wr_envoy *envoy;
    uint32_t node;
    char path[WR_ENVOY_PATH_MAX];
};

/* Read |len| bytes at |text| as one file; errors go to ld->diag, about diag->another. */
void wr_envoy_read_text(struct wr_loader *ld, struct wr_envoy *envoy, const char *text, size_t len);

/* Read d->rate_limit as the rule of place->node. */
void wr_envoy_read_limit(struct wr_loader *ld, struct wr_envoy_place *place,
                         const struct wr_envoy_written *d);

/* A truth value as Go's YAML has it; |what| is its name in messages. */
bool wr_envoy_truth(struct wr_loader *ld, const struct wr_yaml *node, const char *what);

/* Text, or what stands for none: NULL: none, or an error. */
const char *wr_envoy_string(struct wr_loader *ld, const struct wr_yaml *node, const char *what);

/* An empty value, ~ or null. */
bool wr_envoy_is_nothing(const struct wr_yaml *node);

#endif
