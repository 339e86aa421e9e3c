/* draft.h - a policy that is being drafted from the configuration of another limiter.
 *
 * Each reader knows one format and says what it found in terms of weir: identities, plans, limits.
 * What it cannot say it notes, with the place; nothing is dropped in silence. print.c writes the
 * policy. All texts are copied; all memory is the draft's. */
#ifndef WR_IMPORT_DRAFT_H
#define WR_IMPORT_DRAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/diag.h"
#include "policy/region.h"
#include "policy/yaml.h"

/* What a limit is for one plan, or for all of them (plan NULL). */
struct wr_draft_value {
    const char *plan;
    const char *text; /* "100/minute", "20", "unlimited" */
    struct wr_draft_value *next;
};

enum wr_draft_kind { WR_DRAFT_RATE, WR_DRAFT_CONCURRENT, WR_DRAFT_QUOTA };

struct wr_draft_limit {
    enum wr_draft_kind kind;
    const char *name;      /* unique, as weir wants names */
    const char *origin;    /* where it comes from, for the comment */
    const char *by;        /* "api_key", "ip", "ip, route"; "": all share one count */
    const char *methods;   /* "GET, POST"; NULL: all */
    const char *path;      /* a pattern, or several, one a line; NULL: all */
    const char *algorithm; /* NULL: as the rate implies */
    const char *per;       /* of a quota: day, week, month */
    bool shadow;
    bool skip_missing; /* who has no value for |by| is not counted; else by address */
    struct wr_draft_value *values;
    struct wr_draft_limit *next;
};

struct wr_draft_pair {
    const char *name, *value;
    struct wr_draft_pair *next;
};

struct wr_draft {
    struct wr_region region;
    struct wr_diag *diag;             /* errors; notes are its warnings */
    struct wr_draft_pair *identities; /* name, header */
    struct wr_draft_pair *plans;      /* name, where it comes from; the first is the default */
    struct wr_draft_pair *keys;       /* API key, plan */
    struct wr_draft_limit *limits;    /* in the order they were found */
    const char *ip_from, *ip_trusted; /* of identity.ip; NULL: the peer's */
    const char *envoy_file;           /* a file that weir reads as it is; NULL */
    int status;                       /* of refusals; 0: not said */
};

/* Each returns what it added or found again, never NULL unless out of memory (region.failed). */
const char *wr_draft_text(struct wr_draft *draft, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *wr_draft_name(struct wr_draft *draft, const char *text); /* as weir wants names */
void wr_draft_identity(struct wr_draft *draft, const char *name, const char *header);
/* The plan for |name| of the |origin| ("consumer", "consumer group"), added where there is none. */
const char *wr_draft_plan(struct wr_draft *draft, const char *name, const char *origin);
/* NULL: there is none. */
const char *wr_draft_find_plan(struct wr_draft *draft, const char *name, const char *origin);
/* Always another. Of these that add: a name that is changed, as plans have no such names or another
 * plan has it, is noted; NULL (noted) beyond the plans that a policy may have. */
const char *wr_draft_new_plan(struct wr_draft *draft, const char *name, const char *origin);
/* A path that is none but itself, as a pattern; NULL: no request ever has it, as "//" and ".." are
 * resolved before. */
const char *wr_draft_path(struct wr_draft *draft, const char *path);
void wr_draft_key(struct wr_draft *draft, const char *key, const char *plan);

/* The limit that is like |like| but for its values, added where there is none: its name is made
 * unique. */
struct wr_draft_limit *wr_draft_limit(struct wr_draft *draft, const struct wr_draft_limit *like);
/* What it is for |plan|, NULL: for all. Where another value was said before, both hold: a limit is
 * added for this one. */
void wr_draft_set(struct wr_draft *draft, struct wr_draft_limit *limit, const char *plan,
                  const char *text);

/* Something that could not be carried over. */
void wr_draft_note(struct wr_draft *draft, unsigned line, unsigned column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Something that is no such configuration at all. */
void wr_draft_error(struct wr_draft *draft, unsigned line, unsigned column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "33.3" units in |per_s| seconds as a rate in whole numbers: "333/10s"; "100/minute". Where no
 * policy has quite that rate, the nearest that one has, which is noted with |line|. NULL: it is no
 * number, or negative. |burst|: < 0: none. */
const char *wr_draft_rate(struct wr_draft *draft, unsigned line, const char *units, int64_t per_s,
                          int64_t burst);

/* Load what would be printed. What a policy cannot have is taken out and noted; where that does not
 * help, it is an error. */
void wr_draft_prove(struct wr_draft *draft);

/* Write the policy. False: it could not be written. */
bool wr_draft_print(const struct wr_draft *draft, const char *program, FILE *out);

void wr_draft_fini(struct wr_draft *draft);

/* ---- readers ----------------------------------------------------------------------------------
 *
 * |text| is the file |name|, terminated. What is wrong with it is an error in draft->diag. */
typedef void wr_import_reader(struct wr_draft *draft, const char *name, const char *text,
                              size_t len);
wr_import_reader wr_import_aws, wr_import_azure, wr_import_kong, wr_import_tyk, wr_import_envoy,
    wr_import_nginx;

/* ---- trees, for those that read JSON or YAML --------------------------------------------------
 */

/* The tree of |text|; NULL: none, and why is in the diag. */
const struct wr_yaml *wr_import_tree(struct wr_draft *draft, const char *text, size_t len);
/* The member |name| of |map|; NULL: there is none, or it is no map. */
const struct wr_yaml *wr_import_member(const struct wr_yaml *map, const char *name);
/* Its text; |otherwise| where it is none. */
const char *wr_import_word(const struct wr_yaml *map, const char *name, const char *otherwise);
/* Its whole number within int64; false: there is none. One that is no number is noted. */
bool wr_import_number(struct wr_draft *draft, const struct wr_yaml *map, const char *name,
                      int64_t *out);
/* The list |name| of |map|: its first item, NULL where it has none or is no list. */
const struct wr_yaml *wr_import_first(const struct wr_yaml *map, const char *name);
/* Is |value| nothing at all: absent, null, "", an empty list or map? */
bool wr_import_empty(const struct wr_yaml *value);
/* Note each member of |map|, which is |what|, that says something and is not in |known|, a list of
 * words between blanks, as not carried over; those in |harmless| change nothing that a limiter
 * decides. */
void wr_import_rest(struct wr_draft *draft, const char *what, const struct wr_yaml *map,
                    const char *known, const char *harmless);

#endif
