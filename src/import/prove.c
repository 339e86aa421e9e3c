/* prove.c - what would be printed is loaded first, as `weir check` would.
 *
 * Readers know their formats, not each bound of a policy: a number beyond what an algorithm counts,
 * a path that is too long. Where the whole is refused, each value is tried alone; what is refused
 * alone is taken out of the draft and noted with the reason, so that the rest can be used.
 *
 * Rejected: the bounds once more in each reader, which would drift from the policy's. */
#include <stdlib.h>
#include <unistd.h>

#include "import/draft.h"
#include "policy/policy.h"

/* Files that a policy names are read only for one that is in a file. */
static int load_file(struct wr_policy **out, const char *text, size_t len, struct wr_diag *why)
{
    char path[] = "/tmp/weir-import-XXXXXX";
    int fd = mkstemp(path), result = WEIR_EIO;

    if (fd < 0)
        return result;
    if (write(fd, text, len) == (ssize_t)len)
        result = wr_policy_load(out, path, why);
    (void)close(fd);
    (void)unlink(path);
    return result;
}

/* Is |draft| a policy? Otherwise |why| says the first thing that is wrong. */
static bool is_policy(const struct wr_draft *draft, struct wr_diag *why)
{
    struct wr_policy *policy = NULL;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    struct wr_draft trial = *draft;
    char *file = draft->envoy_file != NULL ? realpath(draft->envoy_file, NULL) : NULL;
    bool right;

    if (file != NULL) /* whatever folder it is looked for in */
        trial.envoy_file = file;
    right = out != NULL && wr_draft_print(&trial, "", out);
    free(file);
    wr_diag_init(why, "policy");
    if ((out != NULL && fclose(out) != 0) || !right)
        wr_diag_add(why, WR_ERROR, 0, 0, "out of memory");
    else if ((draft->envoy_file != NULL ? load_file(&policy, text, len, why)
                                        : wr_policy_load_text(&policy, text, len, why)) != 0 &&
             why->errors == 0)
        wr_diag_add(why, WR_ERROR, 0, 0, "it could not be loaded");
    wr_policy_free(policy);
    free(text);
    return why->errors == 0;
}

static const char *first_error(const struct wr_diag *why)
{
    for (size_t i = 0; i < why->kept; i++)
        if (why->items[i].severity == WR_ERROR)
            return why->items[i].text;
    return "it is not right";
}

/* Take out the values of |limit| that no policy has. */
static void prove_values(struct wr_draft *draft, struct wr_draft_limit *limit, struct wr_diag *why)
{
    struct wr_draft_value **at = &limit->values;

    while (*at != NULL) {
        struct wr_draft_value one = **at;
        struct wr_draft_limit alone = *limit;
        struct wr_draft trial = *draft;
        one.next = NULL;
        alone.values = &one;
        alone.next = NULL;
        trial.limits = &alone;
        trial.keys = NULL;
        if (is_policy(&trial, why)) {
            at = &(*at)->next;
            continue;
        }
        wr_draft_note(draft, 0, 0, "limit %s (%s), %s%s%s was left out: %s", limit->name,
                      limit->origin, one.plan != NULL ? one.plan : "", one.plan != NULL ? ": " : "",
                      one.text, first_error(why));
        *at = (*at)->next;
    }
}

void wr_draft_prove(struct wr_draft *draft)
{
    struct wr_diag *why = malloc(sizeof *why);
    struct wr_draft_limit **at = &draft->limits;

    if (why == NULL) {
        wr_draft_error(draft, 0, 0, "out of memory");
        return;
    }
    if (!is_policy(draft, why)) {
        while (*at != NULL) {
            bool valued = (*at)->values != NULL;
            prove_values(draft, *at, why);
            if (valued && (*at)->values == NULL)
                *at = (*at)->next;
            else
                at = &(*at)->next;
        }
        if (draft->limits == NULL && draft->envoy_file == NULL)
            wr_draft_error(draft, 0, 0, "there is no limit in it that could be carried over");
        else if (!is_policy(draft, why))
            wr_draft_error(draft, 0, 0, "what would be printed is no policy: %s", first_error(why));
    }
    free(why);
}
