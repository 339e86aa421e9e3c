/* nginx.c - limit_req and limit_conn of an nginx configuration.
 *
 *   limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s;
 *   location /login/ { limit_req zone=one burst=5 nodelay; }
 *
 * nginx's leaky bucket lets `burst` more in: with nodelay at once, which is a token bucket that
 * holds burst + 1; without, they wait, which is a queue of burst. A zone used in several places is
 * one count; here the places' limits are told apart by name and each counts for itself: noted.
 *
 * limit_req is inherited by blocks that have none of their own, and the most specific location
 * alone decides; here limits hold wherever their path matches. */
#include "import/draft.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "import/nginx_conf.h"

#define ZONES_MAX 256
#define DEPTH_MAX 32

struct zone {
    const char *name, *by; /* by NULL: its key has no counterpart */
    const char *rate;      /* NULL: of connections */
    unsigned line, uses;
};

struct block {
    const char *path;   /* of a location; NULL: all */
    const char *unsaid; /* why a location has no counterpart; NULL: it has one */
    bool inherits[2];   /* a block around it has limits: of requests, of connections */
    bool limited[2];    /* it has limits of its own */
    bool dry_run;
};

struct reading {
    struct wr_draft *draft;
    struct wr_conf conf;
    struct zone zones[ZONES_MAX];
    size_t zone_count;
    struct block blocks[DEPTH_MAX];
    unsigned depth;
    bool dry_run; /* one was said: what is under it, in the order of the file */
};

static const char *word(const struct reading *r, unsigned i)
{
    return i < r->conf.count ? r->conf.words[i] : "";
}

/* The value of the word that begins with |key|=; NULL: none does. */
static const char *option(const struct reading *r, const char *key)
{
    size_t len = strlen(key);

    for (unsigned i = 1; i < r->conf.count; i++)
        if (strncmp(word(r, i), key, len) == 0 && word(r, i)[len] == '=')
            return word(r, i) + len + 1;
    return NULL;
}

static bool has(const struct reading *r, const char *flag)
{
    for (unsigned i = 1; i < r->conf.count; i++)
        if (strcmp(word(r, i), flag) == 0)
            return true;
    return false;
}

/* ---- zones ----------------------------------------------------------------------------------- */

static const char *by_of(struct reading *r, const char *key)
{
    if (strcmp(key, "$binary_remote_addr") == 0 || strcmp(key, "$remote_addr") == 0)
        return "ip";
    if (strcmp(key, "$server_name") == 0 || strcmp(key, "$host") == 0)
        return NULL;
    if (strncmp(key, "$http_", 6) == 0 && strpbrk(key + 1, "${}") == NULL) {
        char header[WR_CONF_WORD_MAX];
        const char *name = wr_draft_name(r->draft, key + 6);
        size_t i;
        for (i = 0; key[6 + i] != '\0'; i++)
            header[i] = (char)(key[6 + i] == '_' ? '-' : key[6 + i]);
        header[i] = '\0';
        wr_draft_identity(r->draft, name, header);
        return name;
    }
    return NULL;
}

/* "10r/s", "30r/m". */
static const char *rate_of(struct reading *r, const char *text)
{
    const char *end = text != NULL ? strchr(text, 'r') : NULL;
    int64_t per_s = end == NULL               ? 0
                    : strcmp(end, "r/s") == 0 ? 1
                    : strcmp(end, "r/m") == 0 ? 60
                                              : 0;

    if (per_s == 0)
        return NULL;
    return wr_draft_rate(r->draft, r->conf.line,
                         wr_draft_text(r->draft, "%.*s", (int)(end - text), text), per_s, -1);
}

static void read_zone(struct reading *r, bool requests)
{
    const char *name = option(r, "zone"), *rate = option(r, "rate");
    struct zone *zone = &r->zones[r->zone_count];

    if (name == NULL || r->zone_count == ZONES_MAX) {
        wr_draft_note(r->draft, r->conf.line, 0, "%s: expected zone=NAME:SIZE", word(r, 0));
        return;
    }
    *zone = (struct zone){.line = r->conf.line};
    zone->name = wr_draft_text(r->draft, "%.*s", (int)strcspn(name, ":"), name);
    zone->by = by_of(r, word(r, 1));
    zone->rate = requests ? rate_of(r, rate) : NULL;
    if (zone->by == NULL)
        wr_draft_note(r->draft, r->conf.line, 0,
                      "zone %s: its key %s has no counterpart; give it as an identity "
                      "(weir_key NAME %s)",
                      zone->name, word(r, 1), word(r, 1));
    else if (requests && zone->rate == NULL)
        wr_draft_note(r->draft, r->conf.line, 0, "zone %s: expected rate=Nr/s or Nr/m, found %s",
                      zone->name, rate != NULL ? rate : "none");
    r->zone_count++;
}

static struct zone *find_zone(struct reading *r, const char *name)
{
    for (size_t i = 0; name != NULL && i < r->zone_count; i++)
        if (strcmp(r->zones[i].name, name) == 0)
            return &r->zones[i];
    return NULL;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* May what stands here be said? Counts the use. */
static bool is_sayable(struct reading *r, struct zone *zone, const char *name)
{
    if (zone == NULL)
        wr_draft_note(r->draft, r->conf.line, 0, "zone %s is not in these files",
                      name != NULL ? name : "");
    else if (r->blocks[r->depth].unsaid)
        wr_draft_note(r->draft, r->conf.line, 0, "zone %s in a location %s", zone->name,
                      r->blocks[r->depth].unsaid);
    else if (zone->uses++ == 1)
        wr_draft_note(r->draft, r->conf.line, 0,
                      "zone %s is used in several places: one count there, one for each here",
                      zone->name);
    return zone != NULL && zone->by != NULL && r->blocks[r->depth].unsaid == NULL;
}

/* There, a block's own limits replace those of their kind around it. */
static void note_inherited(struct reading *r, bool connections)
{
    struct block *block = &r->blocks[r->depth];

    if (block->inherits[connections] && !block->limited[connections])
        wr_draft_note(r->draft, r->conf.line, 0,
                      "%s replaces those of the blocks around it there; here all of them hold",
                      word(r, 0));
    block->limited[connections] = true;
}

static void read_requests(struct reading *r)
{
    const char *name = option(r, "zone"), *text = option(r, "burst");
    struct zone *zone = find_zone(r, name);
    bool nodelay = has(r, "nodelay");
    int64_t burst = text != NULL ? strtoll(text, NULL, 10) : 0;
    struct wr_draft_limit like = {.name = name, .path = r->blocks[r->depth].path};

    if (!is_sayable(r, zone, name) || zone->rate == NULL)
        return;
    note_inherited(r, false);
    if (option(r, "delay") != NULL)
        wr_draft_note(r->draft, r->conf.line, 0, "delay=%s: the first of the burst wait as well",
                      option(r, "delay"));
    like.by = zone->by;
    like.skip_missing = strcmp(zone->by, "ip") != 0; /* an empty key is not counted */
    like.shadow = r->blocks[r->depth].dry_run;
    like.algorithm = nodelay ? "token-bucket" : "leaky-bucket";
    like.origin = wr_draft_text(r->draft, "limit_req of line %u", r->conf.line);
    wr_draft_set(r->draft, wr_draft_limit(r->draft, &like), NULL,
                 wr_draft_text(r->draft, "%s %s %" PRId64, zone->rate, nodelay ? "burst" : "queue",
                               nodelay ? burst + 1 : burst));
}

static void read_connections(struct reading *r)
{
    struct zone *zone = find_zone(r, word(r, 1));
    struct wr_draft_limit like = {
        .kind = WR_DRAFT_CONCURRENT, .name = word(r, 1), .path = r->blocks[r->depth].path};
    char *end;
    long most = strtol(word(r, 2), &end, 10);

    if (!is_sayable(r, zone, word(r, 1)) || *end != '\0' || most < 0)
        return;
    note_inherited(r, true);
    like.by = zone->by;
    like.skip_missing = strcmp(zone->by, "ip") != 0; /* an empty key is not counted */
    like.shadow = r->blocks[r->depth].dry_run;
    like.origin = wr_draft_text(r->draft, "limit_conn of line %u", r->conf.line);
    wr_draft_set(r->draft, wr_draft_limit(r->draft, &like), NULL,
                 wr_draft_text(r->draft, "%ld", most));
}

/* One for all refusals here. */
static void read_status(struct reading *r)
{
    int status = (int)strtol(word(r, 1), NULL, 10);

    if (r->draft->status != 0 && r->draft->status != status)
        wr_draft_note(r->draft, r->conf.line, 0, "limit_req_status %d: here all refusals have %d",
                      status, r->draft->status);
    else
        r->draft->status = status;
}

static void read_directive(struct reading *r)
{
    const char *name = word(r, 0);

    if (strcmp(name, "limit_req") == 0)
        read_requests(r);
    else if (strcmp(name, "limit_conn") == 0)
        read_connections(r);
    else if (strcmp(name, "limit_req_dry_run") == 0 || strcmp(name, "limit_conn_dry_run") == 0)
        r->blocks[r->depth].dry_run = strcmp(word(r, 1), "on") == 0;
    else if (strcmp(name, "limit_req_status") == 0)
        read_status(r);
    else if (strcmp(name, "limit_rate") == 0 || strcmp(name, "limit_rate_after") == 0)
        wr_draft_note(r->draft, r->conf.line, 0, "%s: bytes a second are nginx's own", name);
    else if (strcmp(name, "include") == 0)
        wr_draft_note(r->draft, r->conf.line, 0, "include %s was not read: name the file as well",
                      word(r, 1));
    else if (strcmp(name, "real_ip_header") == 0 && strcmp(word(r, 1), "proxy_protocol") == 0)
        wr_draft_note(r->draft, r->conf.line, 0,
                      "real_ip_header proxy_protocol: the daemon's doors do not read it; the "
                      "module sees the address it gives");
    else if (strcmp(name, "real_ip_header") == 0)
        r->draft->ip_from = wr_draft_text(r->draft, "%s", word(r, 1));
    else if (strcmp(name, "set_real_ip_from") == 0)
        r->draft->ip_trusted =
            r->draft->ip_trusted == NULL
                ? wr_draft_text(r->draft, "\"%s\"", word(r, 1))
                : wr_draft_text(r->draft, "%s, \"%s\"", r->draft->ip_trusted, word(r, 1));
}

/* location /login/ is a prefix; = /login is that path. */
static void open_block(struct reading *r)
{
    struct block block = r->blocks[r->depth];
    const char *path = word(r, r->conf.count - 1), *pattern;
    bool exact = strcmp(word(r, 1), "=") == 0;

    if (strcmp(word(r, 0), "location") == 0) {
        block.path = NULL;
        pattern = wr_draft_path(r->draft, path);
        block.unsaid = path[0] != '/' || word(r, 1)[0] == '~' ? "by regular expression or name"
                       : pattern == NULL ? "that no path reaches, as // and .. "
                                           "are resolved before"
                                         : NULL;
        if (block.unsaid == NULL && (exact || strcmp(path, "/") != 0))
            block.path = wr_draft_text(r->draft, "%s%s", pattern,
                                       exact                           ? ""
                                       : path[strlen(path) - 1] == '/' ? "**"
                                                                       : "/**");
    }
    for (int kind = 0; kind < 2; kind++) {
        block.inherits[kind] = block.inherits[kind] || block.limited[kind];
        block.limited[kind] = false;
    }
    r->depth++;
    r->blocks[r->depth] = block;
}

/* Zones may stand below what uses them, so they are read first. */
static void read_all(struct reading *r, const char *text, size_t len, bool zones)
{
    wr_conf_begin(&r->conf, text, len);
    r->depth = 0;
    r->blocks[0] = (struct block){.path = NULL};
    for (;;) {
        enum wr_conf_end end = wr_conf_next(&r->conf);
        if (end == WR_CONF_EOF)
            break;
        if (end == WR_CONF_BAD || (end == WR_CONF_OPEN && r->depth + 1 == DEPTH_MAX) ||
            (end == WR_CONF_CLOSE && r->depth == 0)) {
            if (zones)
                wr_draft_error(r->draft, r->conf.line, 0, "%s",
                               end == WR_CONF_BAD    ? r->conf.why
                               : end == WR_CONF_OPEN ? "blocks too deep"
                                                     : "a block ends that did not begin");
            return;
        }
        if (end == WR_CONF_OPEN)
            open_block(r);
        else if (end == WR_CONF_CLOSE)
            r->depth--;
        else if (!zones)
            read_directive(r);
        else if (strcmp(word(r, 0), "limit_req_zone") == 0)
            read_zone(r, true);
        else if (strcmp(word(r, 0), "limit_conn_zone") == 0)
            read_zone(r, false);
    }
    if (zones && r->depth != 0)
        wr_draft_error(r->draft, r->conf.line, 0, "a block that does not end");
}

void wr_import_nginx(struct wr_draft *draft, const char *name, const char *text, size_t len)
{
    struct reading *r = wr_region_take(&draft->region, 1, sizeof *r);
    (void)name;

    if (r == NULL)
        return;
    r->draft = draft;
    read_all(r, text, len, true);
    if (draft->diag->errors == 0)
        read_all(r, text, len, false);
    if (draft->limits != NULL && draft->status == 0)
        wr_draft_note(draft, 0, 0,
                      "nginx refuses with 503 where limit_req_status says nothing; "
                      "here it is 429");
    for (size_t i = 0; i < r->zone_count; i++)
        if (r->zones[i].uses == 0 && r->zones[i].by != NULL)
            wr_draft_note(draft, r->zones[i].line, 0, "zone %s is used nowhere in this file",
                          r->zones[i].name);
}
