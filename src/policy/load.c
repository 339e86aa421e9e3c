/* load.c - a policy from text or a file: the order of the sections, and the life of the result.
 *
 * Problem. Sections may stand in any order but need one another: limits name identities, plans are
 * named by limits.
 *
 * Idea. The top level is only sorted into slots; then each section is read in the order of need,
 * present or not. Everything goes into one region; an error frees it whole.
 *
 * Invariants:
 *   1. *out is NULL unless 0 is returned, and then no error was reported.
 *   2. The text and the tree are gone afterwards: the policy owns all that it points to. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/loader.h"

#define VERSION 1

/* ---- top level --------------------------------------------------------------------------- */

#define SECTION_READER(name, section)                                               \
    static void name(struct wr_loader *ld, const struct wr_yaml *value, void *into) \
    {                                                                               \
        (void)into;                                                                 \
        ld->sections[section] = value;                                              \
    }
SECTION_READER(on_version, WR_SECTION_VERSION)
SECTION_READER(on_arena, WR_SECTION_ARENA)
SECTION_READER(on_identity, WR_SECTION_IDENTITY)
SECTION_READER(on_costs, WR_SECTION_COSTS)
SECTION_READER(on_limits, WR_SECTION_LIMITS)
SECTION_READER(on_bans, WR_SECTION_BANS)
SECTION_READER(on_answers, WR_SECTION_ANSWERS)
SECTION_READER(on_routes, WR_SECTION_ROUTES)
SECTION_READER(on_listen, WR_SECTION_LISTEN)
SECTION_READER(on_envoy, WR_SECTION_ENVOY)
SECTION_READER(on_store, WR_SECTION_STORE)
SECTION_READER(on_log, WR_SECTION_LOG)
SECTION_READER(on_customers, WR_SECTION_CUSTOMERS)
SECTION_READER(on_plans, WR_SECTION_PLANS)

static void read_version(struct wr_loader *ld)
{
    const struct wr_yaml *node = ld->sections[WR_SECTION_VERSION];

    if (node == NULL)
        wr_diag_add(ld->diag, WR_ERROR, 1, 1, "expected version: %d in a policy, found none",
                    VERSION);
    else if (node->kind != WR_YAML_SCALAR || strcmp(node->text, "1") != 0)
        wr_error(ld, node, "version: expected %d, found %s", VERSION, wr_found(node).text);
}

static bool is_empty(const struct wr_yaml *root)
{
    return root == NULL || (root->kind == WR_YAML_SCALAR && root->len == 0);
}

static void read_policy(struct wr_loader *ld, const struct wr_yaml *root)
{
    static const struct wr_key keys[] = {
        {"version", on_version},       {"arena", on_arena},   {"identity", on_identity},
        {"costs", on_costs},           {"limits", on_limits}, {"bans", on_bans},
        {"answers", on_answers},       {"routes", on_routes}, {"listen", on_listen},
        {"envoy_ratelimit", on_envoy}, {"store", on_store},   {"log", on_log},
        {"customers", on_customers},   {"plans", on_plans},
    };
    static const struct wr_map_spec spec = {"a policy", keys, sizeof keys / sizeof keys[0], false};

    if (is_empty(root)) {
        wr_diag_add(ld->diag, WR_ERROR, 1, 1, "expected a policy, found nothing");
        return;
    }
    if (!wr_read_map(ld, root, &spec, NULL))
        return;
    read_version(ld);
    wr_read_arena(ld);
    wr_read_answers(ld);
    wr_read_listen(ld);
    wr_read_log(ld);
    wr_read_identity(ld);
    wr_read_plan_list(ld);
    wr_read_plans(ld);
    wr_read_customers(ld);
    wr_read_store(ld);
    wr_read_limits(ld);
    wr_check_plan_values(ld);
    wr_read_costs(ld);
    wr_read_routes(ld);
    wr_read_plan_routes(ld);
    wr_read_bans(ld);
    wr_read_envoy(ld);
    wr_settle_lists(ld);
    if (ld->policy->limit_count == 0 && ld->sections[WR_SECTION_BANS] == NULL &&
        ld->sections[WR_SECTION_LIMITS] == NULL && ld->sections[WR_SECTION_ENVOY] == NULL)
        wr_error(ld, root, "expected limits in a policy, found none");
}

/* ---- life -------------------------------------------------------------------------------- */

/* A key for the policy's own tables: what callers send must not be aimed at them. */
static struct wr_sip_key fresh_secret(void)
{
    struct wr_sip_key secret = {{0, 0}};

    if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) != (ssize_t)sizeof secret)
        secret.k[0] = (uint64_t)(uintptr_t)&secret; /* early boot: where the stack lies is random */
    return secret;
}

void wr_policy_free(struct wr_policy *policy)
{
    if (policy == NULL)
        return;
    wr_region_fini(&policy->region);
    free(policy);
}

/* Compile the tree. |path| may be NULL. */
static int compile(struct wr_policy *policy, const struct wr_yaml *root, struct wr_region *scratch,
                   const char *path, struct wr_diag *diag)
{
    struct wr_loader ld = {.policy = policy,
                           .region = &policy->region,
                           .scratch = scratch,
                           .diag = diag,
                           .path = path};
    size_t errors = diag->errors;

    policy->values.secret = fresh_secret();
    ld.names.secret = policy->values.secret;
    read_policy(&ld, root);
    if (policy->region.failed || scratch->failed || !wr_tree_finish(&policy->tree))
        return WEIR_ENOMEM;
    if (diag->errors > errors)
        return WEIR_EPOLICY;
    wr_warn(&ld);
    return diag->errors > errors ? WEIR_EPOLICY : 0;
}

static int load_text(struct wr_policy **out, const char *text, size_t len, const char *path,
                     struct wr_diag *diag)
{
    struct wr_policy *policy = calloc(1, sizeof *policy);
    struct wr_region scratch = {0};
    const struct wr_yaml *root;
    int result = WEIR_ENOMEM;

    *out = NULL;
    if (policy == NULL)
        return WEIR_ENOMEM;
    if (wr_yaml_parse(&root, text, len, &scratch, diag))
        result = compile(policy, root, &scratch, path, diag);
    else if (!scratch.failed)
        result = WEIR_EPOLICY;
    wr_region_fini(&scratch);
    if (result != 0) {
        wr_policy_free(policy);
        return result;
    }
    *out = policy;
    return 0;
}

int wr_policy_load_text(struct wr_policy **out, const char *text, size_t len, struct wr_diag *diag)
{
    return load_text(out, text, len, NULL, diag);
}

/* ---- files ------------------------------------------------------------------------------- */

/* Read all of |fd|, at most one byte more than a policy may have. Returns 0, WEIR_EIO, WEIR_ENOMEM;
 * |*text| is to be freed. */
static int read_all(int fd, char **text, size_t *len)
{
    size_t room = WR_POLICY_BYTES_MAX + 1;
    char *buffer = malloc(room);

    *text = buffer;
    *len = 0;
    if (buffer == NULL)
        return WEIR_ENOMEM;
    while (*len < room) {
        ssize_t n = read(fd, buffer + *len, room - *len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return WEIR_EIO;
        if (n == 0)
            break;
        *len += (size_t)n;
    }
    return 0;
}

/* Open |path| if it can be read to an end, and without waiting for whoever writes it: a reload
 * would wait with it. Returns a descriptor, or -1, reported. */
static int open_policy(const char *path, struct wr_diag *diag)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "expected a policy to read: %s", strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "expected a file, found a directory");
    } else if (!S_ISREG(st.st_mode)) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "expected a regular file, found %s",
                    S_ISFIFO(st.st_mode) ? "a pipe" : "a device or socket");
    } else {
        return fd;
    }
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

int wr_read_policy_file(const char *path, struct wr_diag *diag, char **text, size_t *len)
{
    int fd = open_policy(path, diag);
    int result;

    *text = NULL;
    *len = 0;
    if (fd < 0)
        return WEIR_EIO;
    result = read_all(fd, text, len);
    if (result == WEIR_EIO)
        wr_diag_add(diag, WR_ERROR, 0, 0, "expected a policy to read: %s", strerror(errno));
    (void)close(fd);
    return result;
}

int wr_policy_load(struct wr_policy **out, const char *path, struct wr_diag *diag)
{
    char *text;
    size_t len;
    int result = wr_read_policy_file(path, diag, &text, &len);

    *out = NULL;
    if (result == 0)
        result = load_text(out, text, len, path, diag);
    free(text);
    return result;
}

/* ---- looking ----------------------------------------------------------------------------- */

const struct wr_policy_settings *wr_policy_settings(const struct wr_policy *policy)
{
    return &policy->settings;
}

size_t wr_policy_limit_count(const struct wr_policy *policy)
{
    return policy->limit_count;
}

const struct wr_policy_limit *wr_policy_limit(const struct wr_policy *policy, size_t index)
{
    return index < policy->limit_count ? &policy->limits[index] : NULL;
}

size_t wr_policy_plan_count(const struct wr_policy *policy)
{
    return policy->plan_count;
}

const char *wr_policy_plan(const struct wr_policy *policy, size_t index)
{
    return index < policy->plan_count ? policy->plans[index] : NULL;
}

unsigned wr_policy_default_plan(const struct wr_policy *policy)
{
    return policy->default_plan;
}

int wr_policy_upgrade(const struct wr_policy *policy, size_t plan)
{
    return plan < policy->plan_count ? policy->upgrades[plan] : -1;
}

unsigned wr_policy_ipv6_prefix(const struct wr_policy *policy)
{
    return policy->prefixes[0];
}

size_t wr_policy_field_count(const struct wr_policy *policy)
{
    return policy->field_count;
}

const char *wr_policy_field(const struct wr_policy *policy, size_t index,
                            enum weir_field_kind *kind)
{
    if (index >= policy->field_count)
        return NULL;
    if (kind != NULL)
        *kind = policy->field_kinds[index];
    return policy->fields[index];
}

bool wr_policy_is_list(const struct wr_policy *policy, size_t field)
{
    const struct wr_client_rule *client = &policy->client;

    return (client->from == WR_FROM_XFF || client->from == WR_FROM_FORWARDED) &&
           client->field >= 0 && (size_t)client->field == field;
}

static bool counts_by(const struct wr_rule *rule, size_t identity)
{
    for (size_t i = 0; i < rule->parts; i++)
        if (rule->part[i].source == WR_BY_IDENTITY && rule->part[i].identity == identity)
            return true;
    return false;
}

bool wr_policy_only_given(const struct wr_policy *policy, size_t field)
{
    size_t identity = 0;

    while (identity < policy->identity_count && policy->identities[identity].given != (int)field)
        identity++;
    if (identity == policy->identity_count || policy->identities[identity].header >= 0)
        return false;
    for (size_t i = 0; i < policy->limit_count; i++)
        if (counts_by(&policy->rules[i], identity))
            return true;
    return false;
}
