/* answers.c - the sections `arena` and `answers`: settings beside the limits.
 *
 * Nothing here decides anything: these are values for those who open the arena and who answer
 * callers, checked here so that a mistake is found when the policy is. */
#include <string.h>

#include "policy/bytes.h"
#include "policy/loader.h"
#include "policy/rate.h"

/* As the arena bounds them; a policy cannot see the store. */
#define ARENA_BYTES_MIN (UINT64_C(1) << 20)
#define ARENA_BYTES_MAX (UINT64_C(1) << 40)
#define ARENA_BYTES_DEFAULT (UINT64_C(64) << 20)
#define LOG_PERCENT_MAX 90
#define LOG_PERCENT_NEEDED 50
#define LOG_PERCENT_SPARE 25

/* ---- arena ------------------------------------------------------------------------------- */

static void read_path(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    (void)wr_read_file(ld, value, "the path of the arena's file", &ld->policy->settings.arena_path,
                       NULL);
}

static void read_size(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    const char *wrong;
    uint64_t bytes;
    size_t at;

    (void)into;
    if (!wr_is_text(value)) {
        wr_error(ld, value, "size: expected a size such as 64MiB, found %s", wr_found_kind(value));
        return;
    }
    wrong = wr_size_parse(wr_slice_of(value), &bytes, &at);
    if (wrong != NULL) {
        wr_error_in(ld, value, at, "size %s: %s", wr_found(value).text, wrong);
        return;
    }
    if (bytes < ARENA_BYTES_MIN || bytes > ARENA_BYTES_MAX) {
        wr_error(ld, value, "size: expected 1MiB to 1TiB, found %s", wr_found(value).text);
        return;
    }
    ld->policy->settings.arena_bytes = bytes;
    ld->policy->settings.arena_bytes_at = wr_place_of(value);
}

static void read_logs(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    int64_t percent = 0;
    const char *wrong = "";
    size_t at;

    (void)into;
    if (wr_is_text(value)) {
        struct weir_slice text = wr_slice_of(value);
        if (text.ptr[text.len - 1] == '%')
            text.len--;
        wrong = wr_count_parse(text, LOG_PERCENT_MAX, &percent, &at);
    }
    if (wrong != NULL || percent < 1) {
        wr_error(ld, value,
                 "logs: expected a share of the arena for lists of stamps, 1%% to %d%%, found %s",
                 LOG_PERCENT_MAX, wr_found(value).text);
        return;
    }
    ld->policy->settings.arena_log_percent = (unsigned)percent;
}

void wr_read_arena(struct wr_loader *ld)
{
    static const struct wr_key keys[] = {
        {"path", read_path}, {"size", read_size}, {"logs", read_logs}};
    static const struct wr_map_spec spec = {"arena", keys, sizeof keys / sizeof keys[0], false};
    const struct wr_yaml *node = ld->sections[WR_SECTION_ARENA];

    ld->policy->settings.arena_bytes = ARENA_BYTES_DEFAULT;
    if (node != NULL)
        (void)wr_read_map(ld, node, &spec, NULL);
}

/* Lists of stamps have a share of every arena: it is divided when it is made, and the first limit
 * that needs lists may come with a later reload. Half of it where a limit keeps some now, else a
 * quarter. */
void wr_settle_lists(struct wr_loader *ld)
{
    struct wr_policy_settings *settings = &ld->policy->settings;
    bool needed = false;

    for (size_t i = 0; i < ld->policy->limit_count; i++)
        for (size_t plan = 0; plan < ld->policy->plan_count; plan++)
            needed = needed || (ld->policy->limits[i].by != NULL &&
                                ld->policy->limits[i].by[plan].algo >= WR_SLIDING_LOG);
    if (settings->arena_log_percent == 0)
        settings->arena_log_percent = needed ? LOG_PERCENT_NEEDED : LOG_PERCENT_SPARE;
}

/* ---- answers ----------------------------------------------------------------------------- */

static void read_code(struct wr_loader *ld, const struct wr_yaml *value, const char *what, int *out)
{
    int64_t code;

    if (wr_read_int(ld, value, what, 400, 599, &code))
        *out = (int)code;
}

static void read_status(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    read_code(ld, value, "status", &ld->policy->settings.status);
}

static void read_ban_status(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    read_code(ld, value, "ban_status", &ld->policy->settings.ban_status);
}

static const char *const family_names[] = {
    "x-ratelimit", "x-ratelimit-delta", "draft-03", "draft-06", "draft-07", "draft-11", "none"};
static const unsigned family_bits[] = {WEIR_HEADERS_X,
                                       WEIR_HEADERS_X_DELTA,
                                       WEIR_HEADERS_DRAFT_03,
                                       WEIR_HEADERS_DRAFT_06,
                                       WEIR_HEADERS_DRAFT_07,
                                       WEIR_HEADERS_DRAFT_11,
                                       0};
#define FAMILIES (sizeof family_names / sizeof family_names[0])
#define FAMILIES_X (WEIR_HEADERS_X | WEIR_HEADERS_X_DELTA)
#define FAMILIES_DRAFT \
    (WEIR_HEADERS_DRAFT_03 | WEIR_HEADERS_DRAFT_06 | WEIR_HEADERS_DRAFT_07 | WEIR_HEADERS_DRAFT_11)

static void read_headers(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    unsigned families = 0;
    bool none = false;

    (void)into;
    if (value->kind == WR_YAML_LIST && value->count == 0)
        wr_error(ld, value, "headers: expected at least one family, or none, found an empty list");
    for (const struct wr_yaml *item = wr_first_item(value); item != NULL;
         item = wr_next_item(value, item)) {
        size_t i;
        if (!wr_read_choice(ld, item, "headers", family_names, FAMILIES, &i))
            return;
        if (((family_bits[i] & FAMILIES_X) != 0 && (families & FAMILIES_X) != 0) ||
            ((family_bits[i] & FAMILIES_DRAFT) != 0 && (families & FAMILIES_DRAFT) != 0)) {
            wr_error(ld, item,
                     "headers: expected one x-ratelimit family and one draft at most, found %s "
                     "beside another: their fields share names",
                     family_names[i]);
            return;
        }
        none = none || family_bits[i] == 0;
        families |= family_bits[i];
    }
    if (none && families != 0)
        wr_error(ld, value, "headers: expected none alone, found it beside others");
    ld->policy->settings.header_families = families;
}

/* Is what stands behind the scheme a host, and a port if there is one? |at|: terminated. */
static bool has_host(const char *at)
{
    size_t len = strcspn(at, "/?#");
    const char *end = at + len, *sign = memchr(at, '@', len), *port;
    unsigned number = 0;

    if (sign != NULL)
        at = sign + 1;
    port = at + strcspn(at, *at == '[' ? "]" : ":/?#");
    if (*at == '[' && *port++ != ']')
        return false;
    if (port == at || port >= end)
        return port != at && port == end;
    if (*port != ':' || end - port < 2 || end - port > 6)
        return false;
    for (port++; port < end && *port >= '0' && *port <= '9'; port++)
        number = number * 10 + (unsigned)(*port - '0');
    return port == end && number >= 1 && number <= 65535;
}

bool wr_read_url(struct wr_loader *ld, const struct wr_yaml *value, const char *what,
                 bool secretive, const char **out)
{
    bool good = wr_is_text(value) && (strncmp(value->text, "https://", 8) == 0 ||
                                      strncmp(value->text, "http://", 7) == 0);

    for (size_t i = 0; good && i < value->len; i++)
        good = (unsigned char)value->text[i] > 0x20 && (unsigned char)value->text[i] < 0x7f &&
               !wr_byte_in(value->text[i], "\"<>\\^`{|}");
    if (!good) {
        wr_error(ld, value,
                 "%s: expected a URL that begins with https:// or http:// and has no blanks or "
                 "quotes, found %s",
                 what, secretive ? wr_found_kind(value) : wr_found(value).text);
        return false;
    }
    if (!has_host(strchr(value->text, ':') + 3)) {
        wr_error(ld, value,
                 "%s: expected a host behind ://, and of ports one of 1 to 65535, found %s", what,
                 secretive ? wr_found_kind(value) : wr_found(value).text);
        return false;
    }
    *out = wr_keep(ld, value);
    return *out != NULL;
}

static void read_documentation_url(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    (void)wr_read_url(ld, value, "documentation_url", false,
                      &ld->policy->settings.documentation_url);
}

static void read_upgrade_url(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    (void)wr_read_url(ld, value, "upgrade_url", false, &ld->policy->settings.upgrade_url);
}

static void read_cors(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    (void)wr_read_bool(ld, value, "cors", &ld->policy->settings.cors_expose);
}

static void read_skip_options(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    (void)wr_read_bool(ld, value, "skip_options", &ld->policy->settings.skip_options);
}

void wr_read_answers(struct wr_loader *ld)
{
    static const struct wr_key keys[] = {
        {"status", read_status},
        {"headers", read_headers},
        {"ban_status", read_ban_status},
        {"documentation_url", read_documentation_url},
        {"upgrade_url", read_upgrade_url},
        {"cors", read_cors},
        {"skip_options", read_skip_options},
    };
    static const struct wr_map_spec spec = {"answers", keys, sizeof keys / sizeof keys[0], false};
    const struct wr_yaml *node = ld->sections[WR_SECTION_ANSWERS];
    struct wr_policy_settings *settings = &ld->policy->settings;

    settings->status = 429;
    settings->ban_status = 429;
    settings->header_families = WEIR_HEADERS_DEFAULT;
    settings->skip_options = true;
    if (node != NULL)
        (void)wr_read_map(ld, node, &spec, NULL);
}
