/* yaml.c - libyaml's events -> a bounded tree with places.
 *
 * Problem. YAML is larger than a policy needs, and its surprises are attacks or accidents: an alias
 * bomb, a key given twice of which the last one silently wins, a tag that changes a type, a second
 * document that nobody reads.
 *
 * Idea. Take libyaml's event stream (never its document loader, which resolves aliases), refuse
 * events that a policy must not have, and hang the rest into a tree with an explicit stack.
 *
 * Invariants:
 *   1. Depth, nodes and bytes are bounded; going over ends the parse with one message.
 *   2. Every node's place is that of its first character.
 *   3. After success, the keys of every map are scalars and differ.
 *   4. No message quotes a scalar: it may be somebody's API key.
 *
 * Rejected: yaml_parser_load (aliases, recursion in its users); a parser of our own (YAML is too
 * large for it to be right, and people's editors check YAML). */
#include "policy/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "policy/policy.h"

/* One open list or map. */
struct level {
    struct wr_yaml *node;
    struct wr_yaml *last;      /* its newest child */
    const struct wr_yaml *key; /* map: a key that waits for its value */
};

struct build {
    yaml_parser_t parser;
    const struct wr_yaml_bounds *bounds;
    struct wr_region *region;
    struct wr_diag *diag;
    const char *text;
    size_t len;
    struct wr_yaml *root;
    struct level stack[WR_POLICY_DEPTH_MAX];
    size_t depth;
    size_t nodes;
    size_t documents;
    bool ok;
};

static void fail(struct build *b, yaml_mark_t at, const char *message)
{
    b->ok = false;
    wr_diag_add(b->diag, WR_ERROR, (unsigned)at.line + 1, (unsigned)at.column + 1, "%s", message);
}

/* The place of byte |offset|, counted as libyaml counts: columns in characters. */
static yaml_mark_t place_of(const char *text, size_t offset)
{
    yaml_mark_t at = {.index = offset};

    for (size_t i = 0; i < offset; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n') {
            at.line++;
            at.column = 0;
        } else if ((c & 0xc0) != 0x80) {
            at.column++;
        }
    }
    return at;
}

/* The parser stopped: say why and where. */
static void fail_syntax(struct build *b)
{
    const yaml_parser_t *p = &b->parser;
    yaml_mark_t at = p->problem_mark;
    bool flow;

    b->ok = false;
    if (p->error == YAML_MEMORY_ERROR) {
        b->region->failed = true;
        return;
    }
    if (p->error == YAML_READER_ERROR) {
        size_t offset = p->problem_offset < b->len ? p->problem_offset : b->len;
        at = place_of(b->text, offset);
        wr_diag_add(b->diag, WR_ERROR, (unsigned)at.line + 1, (unsigned)at.column + 1,
                    "expected UTF-8 text without control characters, found byte 0x%02x",
                    offset < b->len ? (unsigned)(unsigned char)b->text[offset] : 0U);
        return;
    }
    flow = p->context != NULL && strstr(p->context, "flow") != NULL;
    wr_diag_add(b->diag, WR_ERROR, (unsigned)at.line + 1, (unsigned)at.column + 1,
                "expected YAML, %s%s%s%s", p->problem != NULL ? p->problem : "found something else",
                p->context != NULL ? " " : "", p->context != NULL ? p->context : "",
                flow ? "; between { } or [ ], a text with one of {}[], needs quotes" : "");
}

/* Hang |node| where the next child belongs. False: it cannot stand there. */
static bool attach(struct build *b, struct wr_yaml *node, yaml_mark_t at)
{
    struct level *top;

    if (b->depth == 0) {
        b->root = node;
        return true;
    }
    top = &b->stack[b->depth - 1];
    if (top->node->kind == WR_YAML_MAP && top->key == NULL) {
        top->key = node;
        if (node->kind == WR_YAML_SCALAR)
            return true;
        fail(b, at, "expected a key, found a list or a map in its place");
        return false;
    }
    node->key = top->key;
    top->key = NULL;
    if (top->last != NULL)
        top->last->next = node;
    else
        top->node->first = node;
    top->last = node;
    top->node->count++;
    return true;
}

/* Refuse what a node may carry: an anchor, a tag. */
static void check_decoration(struct build *b, const yaml_char_t *anchor, const yaml_char_t *tag,
                             yaml_mark_t at)
{
    if (anchor != NULL)
        fail(b, at,
             "expected a value, found an anchor (&name): anchors and aliases are not part "
             "of a policy; write the value where it is needed");
    if (tag != NULL)
        fail(b, at, "expected a value, found a tag (!name): tags are not part of a policy");
}

/* A new node of |kind|, in its place. NULL: the parse is over. */
static struct wr_yaml *add_node(struct build *b, enum wr_yaml_kind kind, yaml_mark_t at)
{
    struct wr_yaml *node;

    if (++b->nodes > b->bounds->nodes) {
        wr_diag_add(b->diag, WR_ERROR, (unsigned)at.line + 1, (unsigned)at.column + 1,
                    "expected at most %zu values in %s, found more", b->bounds->nodes,
                    b->bounds->what);
        b->ok = false;
        return NULL;
    }
    node = wr_region_take(b->region, 1, sizeof *node);
    if (node == NULL)
        return NULL;
    node->kind = kind;
    node->line = (unsigned)at.line + 1;
    node->column = (unsigned)at.column + 1;
    return attach(b, node, at) ? node : NULL;
}

static bool on_scalar(struct build *b, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    struct wr_yaml *node = add_node(b, WR_YAML_SCALAR, event->start_mark);

    if (node == NULL)
        return false;
    check_decoration(b, event->data.scalar.anchor, event->data.scalar.tag, event->start_mark);
    if (memchr(text, '\0', len) != NULL) { /* "\0" in double quotes */
        fail(b, event->start_mark, "expected text, found a NUL character in it");
        len = strlen(text);
    }
    node->text = wr_region_text(b->region, text, len);
    node->len = len;
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                  event->start_mark.line == event->end_mark.line;
    return node->text != NULL;
}

static bool on_open(struct build *b, enum wr_yaml_kind kind, yaml_mark_t at)
{
    struct wr_yaml *node;

    if (b->depth == WR_POLICY_DEPTH_MAX) {
        wr_diag_add(b->diag, WR_ERROR, (unsigned)at.line + 1, (unsigned)at.column + 1,
                    "expected at most %d levels of lists and maps, found more",
                    WR_POLICY_DEPTH_MAX);
        b->ok = false;
        return false;
    }
    node = add_node(b, kind, at);
    if (node == NULL)
        return false;
    b->stack[b->depth++] = (struct level){.node = node};
    return true;
}

struct keyed {
    const struct wr_yaml *key;
};

static int by_key(const void *a, const void *b)
{
    const struct wr_yaml *x = ((const struct keyed *)a)->key, *y = ((const struct keyed *)b)->key;
    int order = strcmp(x->text, y->text);

    if (order != 0)
        return order;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return x->column < y->column ? -1 : x->column > y->column;
}

/* Invariant 3, by sorting, so that a map of 100 000 API keys stays cheap. */
static bool check_keys_differ(struct build *b, const struct wr_yaml *map)
{
    struct keyed *sorted;
    size_t n = 0;

    if (map->count < 2)
        return true;
    sorted = malloc(map->count * sizeof *sorted);
    if (sorted == NULL) {
        b->region->failed = true;
        return false;
    }
    for (const struct wr_yaml *child = map->first; child != NULL; child = child->next)
        sorted[n++].key = child->key;
    qsort(sorted, n, sizeof *sorted, by_key);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (strcmp(sorted[i].key->text, sorted[first].key->text) != 0) {
            first = i;
            continue;
        }
        b->ok = false;
        wr_diag_add(b->diag, WR_ERROR, sorted[i].key->line, sorted[i].key->column,
                    "expected each key once, found this one again (first on line %u)",
                    sorted[first].key->line);
    }
    free(sorted);
    return true;
}

static bool on_close(struct build *b)
{
    const struct wr_yaml *node = b->stack[--b->depth].node;
    return node->kind != WR_YAML_MAP || check_keys_differ(b, node);
}

/* One event. False: nothing more is to be read. */
static bool on_event(struct build *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
        check_decoration(b, event->data.sequence_start.anchor, event->data.sequence_start.tag,
                         event->start_mark);
        return on_open(b, WR_YAML_LIST, event->start_mark);
    case YAML_MAPPING_START_EVENT:
        check_decoration(b, event->data.mapping_start.anchor, event->data.mapping_start.tag,
                         event->start_mark);
        return on_open(b, WR_YAML_MAP, event->start_mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_close(b);
    case YAML_ALIAS_EVENT:
        fail(b, event->start_mark,
             "expected a value, found an alias (*name): anchors and aliases are not part of a "
             "policy; quote the text if it begins with a star");
        return false;
    case YAML_DOCUMENT_START_EVENT:
        if (++b->documents < 2)
            return true;
        fail(b, event->start_mark, "expected the end of the file, found a second document (---)");
        return false;
    case YAML_STREAM_END_EVENT:
        return false;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
    default:
        return true;
    }
}

static void read_events(struct build *b)
{
    yaml_event_t event;
    bool more = true;

    while (more) {
        if (yaml_parser_parse(&b->parser, &event) == 0) {
            fail_syntax(b);
            return;
        }
        more = on_event(b, &event);
        yaml_event_delete(&event);
    }
}

bool wr_yaml_parse_within(const struct wr_yaml **root, const char *text, size_t len,
                          const struct wr_yaml_bounds *bounds, struct wr_region *region,
                          struct wr_diag *diag)
{
    struct build b = {
        .bounds = bounds, .region = region, .diag = diag, .text = text, .len = len, .ok = true};
    const char *nul = len > 0 ? memchr(text, '\0', len) : NULL;

    *root = NULL;
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* the mark some editors write first */
        b.text = text += 3;
        b.len = len -= 3;
        nul = len > 0 ? memchr(text, '\0', len) : NULL;
    }
    if (len > bounds->bytes) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "expected %s of at most %zu bytes, found more",
                    bounds->what, bounds->bytes);
        return false;
    }
    if (len >= 2 &&
        ((text[0] == '\xff' && text[1] == '\xfe') || (text[0] == '\xfe' && text[1] == '\xff'))) {
        wr_diag_add(diag, WR_ERROR, 0, 0, "expected UTF-8 text, found UTF-16 (a byte order mark)");
        return false;
    }
    if (nul != NULL) {
        fail(&b, place_of(text, (size_t)(nul - text)), "expected text, found a NUL byte");
        return false;
    }
    if (yaml_parser_initialize(&b.parser) == 0) {
        region->failed = true;
        return false;
    }
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, len);
    read_events(&b);
    yaml_parser_delete(&b.parser);
    *root = b.root;
    return b.ok && !region->failed;
}

bool wr_yaml_parse(const struct wr_yaml **root, const char *text, size_t len,
                   struct wr_region *region, struct wr_diag *diag)
{
    static const struct wr_yaml_bounds policy = {"a policy", WR_POLICY_BYTES_MAX,
                                                 WR_POLICY_NODES_MAX};

    return wr_yaml_parse_within(root, text, len, &policy, region, diag);
}
