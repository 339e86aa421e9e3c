/* loader.h - what the readers of a policy's sections share: errors with places, maps with known
 * keys, scalars with ranges. Internal to src/policy. */
#ifndef WR_POLICY_LOADER_H
#define WR_POLICY_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "policy/compiled.h"
#include "policy/yaml.h"

enum wr_section {
    WR_SECTION_VERSION,
    WR_SECTION_ARENA,
    WR_SECTION_IDENTITY,
    WR_SECTION_COSTS,
    WR_SECTION_LIMITS,
    WR_SECTION_BANS,
    WR_SECTION_ANSWERS,
    WR_SECTION_ROUTES,
    WR_SECTION_LISTEN,
    WR_SECTION_ENVOY,
    WR_SECTION_STORE,
    WR_SECTION_LOG,
    WR_SECTION_CUSTOMERS,
    WR_SECTION_PLANS,
    WR_SECTIONS
};

/* What a plan of the section `plans` says, where it stands; NULL: nothing. */
struct wr_plan_body {
    const struct wr_yaml *limits, *quotas, *costs, *routes, *upgrade_to;
};

/* What a plan says of a limit. */
struct wr_plan_value {
    const struct wr_yaml *value;
    bool quota; /* it stands under `quotas` */
    bool used;
};

struct wr_loader {
    struct wr_policy *policy;
    struct wr_region *region;  /* of the policy */
    struct wr_region *scratch; /* of the tree: freed after loading */
    struct wr_diag *diag;
    const char *path; /* of the policy; NULL: it is in no file */
    const struct wr_yaml
        *sections[WR_SECTIONS];         /* top-level values, enum wr_section; NULL: not given */
    struct wr_table names;              /* for finding names given twice, in scratch */
    const struct wr_yaml **limit_nodes; /* where each limit is written, in scratch */
    uint64_t rated_plans;               /* bit: some limit has a rate for the plan */
    const struct wr_yaml *identity_nodes[WR_IDENTITIES_MAX]; /* and each identity */
    bool share_all;                                          /* store.shared */
    struct wr_plan_body plan_bodies[WR_POLICY_PLANS_MAX];    /* of the section `plans` */
    struct wr_plan_value *plan_values;                       /* in scratch */
    uint32_t plan_value_count;
};

/* Tags in loader->names. */
enum {
    WR_NAME_LIMIT = 1,
    WR_NAME_FIELD_HEADER,
    WR_NAME_FIELD_KEY,
    WR_NAME_BANNED,
    WR_NAME_PLAN_VALUE = 16, /* + plan: a limit's name -> index in plan_values */
};

/* ---- messages ---------------------------------------------------------------------------- */

void wr_error(struct wr_loader *ld, const struct wr_yaml *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void wr_warning(struct wr_loader *ld, const struct wr_yaml *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* An error at byte |offset| of the scalar |at|, where its text stands as it is written. */
void wr_error_in(struct wr_loader *ld, const struct wr_yaml *at, size_t offset, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

/* What |node| is, for "found ...": its text in quotes, cut; "a list", "a map", "nothing". */
#define WR_FOUND_MAX 64
struct wr_found {
    char text[WR_FOUND_MAX];
};
struct wr_found wr_found(const struct wr_yaml *node);

/* The same for what may be a secret: never its text. */
const char *wr_found_kind(const struct wr_yaml *node);

/* ---- maps and lists ---------------------------------------------------------------------- */

/* A key that a map may have, and who reads its value. */
struct wr_key {
    const char *name;
    void (*read)(struct wr_loader *ld, const struct wr_yaml *value, void *into);
};

/* Read |node|, which must be a map, by |keys|. Unknown keys are errors that suggest the nearest
 * known one; with |secretive| they are not quoted, for maps beside which API keys stand. |what| is
 * the map's name in messages. False: not a map. */
struct wr_map_spec {
    const char *what;
    const struct wr_key *keys;
    size_t count;
    bool secretive;
};
bool wr_read_map(struct wr_loader *ld, const struct wr_yaml *node, const struct wr_map_spec *spec,
                 void *into);

/* A list's first item; for anything else but nothing the node itself, as a list of one. Follow
 * with wr_next_item. */
const struct wr_yaml *wr_first_item(const struct wr_yaml *node);
const struct wr_yaml *wr_next_item(const struct wr_yaml *node, const struct wr_yaml *item);

/* ---- scalars ----------------------------------------------------------------------------- */

/* |expected| is the end of "expected ...". Each returns false after an error. */
bool wr_is_text(const struct wr_yaml *node); /* a scalar that is not empty */
bool wr_read_text(struct wr_loader *ld, const struct wr_yaml *node, const char *expected,
                  const char **out);
/* The path of a file, relative to the policy's folder, and where it stands; |at| may be NULL. */
bool wr_read_file(struct wr_loader *ld, const struct wr_yaml *node, const char *expected,
                  const char **out, struct wr_place *at);
bool wr_read_bool(struct wr_loader *ld, const struct wr_yaml *node, const char *what, bool *out);
bool wr_read_int(struct wr_loader *ld, const struct wr_yaml *node, const char *what, int64_t min,
                 int64_t max, int64_t *out);

/* One of |choices|; |*out| is its index. */
bool wr_read_choice(struct wr_loader *ld, const struct wr_yaml *node, const char *what,
                    const char *const *choices, size_t count, size_t *out);

/* A name of [A-Za-z0-9._-], 1..WR_NAME_MAX bytes. */
bool wr_is_name(struct weir_slice text);
bool wr_read_name(struct wr_loader *ld, const struct wr_yaml *node, const char *what,
                  const char **out);

struct weir_slice wr_slice_of(const struct wr_yaml *scalar);

struct wr_place wr_place_of(const struct wr_yaml *node);

/* |name| as seen from the policy's folder, in |region|; NULL: out of memory. */
const char *wr_path_of(const struct wr_loader *ld, const char *name, struct wr_region *region);

/* Copy into the policy. */
const char *wr_keep(struct wr_loader *ld, const struct wr_yaml *scalar);

/* The nearest of |names| to |text|, near enough to be meant; NULL: none is. */
const char *wr_nearest(const char *text, const char *const *names, size_t count, size_t stride);

/* ---- sections ---------------------------------------------------------------------------- */

/* Each reads loader->sections[...] into the policy; NULL sections too. In this order, as each may
 * need what those before it found. */
void wr_read_arena(struct wr_loader *ld);
void wr_read_answers(struct wr_loader *ld);
void wr_read_listen(struct wr_loader *ld);
void wr_read_log(struct wr_loader *ld);
void wr_read_identity(struct wr_loader *ld);
void wr_read_plan(struct wr_loader *ld, const struct wr_yaml *value); /* of identity; or NULL */
void wr_read_plan_list(struct wr_loader *ld); /* the section `plans`: what stands where */
void wr_read_plans(struct wr_loader *ld);     /* all names in the rates of limits */
void wr_read_customers(struct wr_loader *ld);
void wr_read_plan_routes(struct wr_loader *ld);
void wr_check_plan_values(struct wr_loader *ld); /* once the limits are read */
void wr_read_store(struct wr_loader *ld);
void wr_read_limits(struct wr_loader *ld);
void wr_read_costs(struct wr_loader *ld);
void wr_read_routes(struct wr_loader *ld);
void wr_read_bans(struct wr_loader *ld);
void wr_read_envoy(struct wr_loader *ld);
void wr_settle_lists(struct wr_loader *ld); /* arena_log_percent, by what the limits need */
void wr_warn(struct wr_loader *ld);         /* of a policy without errors */
void wr_warn_quotas(struct wr_loader *ld);  /* a part of it */

/* Read the file at |path|, a policy or one it names. |*text| is to be freed. Returns 0, or
 * WEIR_EIO, reported, or WEIR_ENOMEM. */
int wr_read_policy_file(const char *path, struct wr_diag *diag, char **text, size_t *len);

/* ---- shared by sections ------------------------------------------------------------------ */

/* The index of a field, added if new; -1 after an error. */
int wr_add_field(struct wr_loader *ld, const struct wr_yaml *at, const char *name,
                 enum weir_field_kind kind);

/* The field of the header that |value| names, added if new; -1 after an error. */
int wr_read_header(struct wr_loader *ld, const struct wr_yaml *value);

/* Is it a token of RFC 9110, as names of header fields and methods are? */
bool wr_is_token(const struct wr_yaml *scalar);

/* Read an address or a network. False after an error. */
bool wr_read_net(struct wr_loader *ld, const struct wr_yaml *item, const char *what,
                 struct wr_net *net);

/* "local", "open", "closed", by enum wr_when_gone. */
extern const char *const wr_when_gone_names[];

/* Read an address to connect to: HOST:PORT, or unix:/path where |socket| says so. |what| begins the
 * message. A text that may hold a password is not quoted. False after an error. */
bool wr_read_store_address(struct wr_loader *ld, const struct wr_yaml *value, const char *what,
                           bool socket, struct wr_policy_address *out);

/* redis://user:password@host:port/database, or unix:///path?db=N, into address, user, password and
 * database of |store|. The text is in no message. False after an error. */
bool wr_read_store_url(struct wr_loader *ld, const struct wr_yaml *value,
                       struct wr_policy_store *store);

/* https://... or http://...; not quoted if |secretive|. False after an error. */
bool wr_read_url(struct wr_loader *ld, const struct wr_yaml *value, const char *what,
                 bool secretive, const char **out);

/* What plan |plan| says of the limit called |name|, under `quotas` or `limits`; NULL: nothing. */
const struct wr_yaml *wr_plan_says(struct wr_loader *ld, size_t plan, const char *name, bool quota);

/* The index of the plan |name|, added if new; -1 after an error, as a name is that the section
 * `plans`, where there is one, does not have. */
int wr_add_plan(struct wr_loader *ld, const struct wr_yaml *at, const char *name);
int wr_find_plan(const struct wr_policy *policy, struct weir_slice name);

/* The index of the identity |name|; -1: there is none. */
int wr_find_identity(const struct wr_policy *policy, struct weir_slice name);

/* The index of an IPv6 prefix length, added if new; 0 after an error. */
uint8_t wr_add_prefix(struct wr_loader *ld, const struct wr_yaml *at, int64_t prefix);

/* match: {method, path}: read for limits and costs. */
struct wr_match {
    uint64_t methods;
    bool has_path;
    enum wr_pattern_use use;
    uint32_t index;
};
void wr_read_match(struct wr_loader *ld, const struct wr_yaml *value, struct wr_match *match);
void wr_read_pattern(struct wr_loader *ld, const struct wr_yaml *value, enum wr_pattern_use use,
                     uint32_t index);

#endif
