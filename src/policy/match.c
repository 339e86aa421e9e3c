/* match.c - a tree of segments, walked along the path.
 *
 * Problem. A thousand limits with a path each must not cost a request a thousand comparisons.
 *
 * Idea. Patterns share their beginnings in a tree: a node has children by literal segment (one hash
 * look-up), a child for any one segment, and a child for "**". As a pattern has at most one "**",
 * what follows it is known to lie at the end of the path: it hangs under the "**" in reverse order
 * and is matched from the last segment backwards. So each node of the tree is looked at no more
 * than once for a path, and there is nothing to try again.
 *
 *     /a/{x}        root -a-> . -one-> END
 *     /a/ ** /y/z   root -a-> . -rest-> . -z-> . -y-> END     (y, z consumed from the end)
 *
 * Invariants:
 *   1. A node is visited at most once in a walk: it is a tree, and the segments consumed when it is
 *      reached are fixed by its depth (and the path's length, behind a "**").
 *   2. The steps waiting never exceed WR_WALK_STEPS_MAX: a forward step takes one and leaves at
 *      most three, a backward step takes one and leaves at most two, a pattern has at most 32
 *      segments.
 *   3. Edges are at most half full, so that a probe ends at a free one; what callers send cannot
 *      change the table, only probe it.
 *
 * Rejected: an automaton with sets of states for "**" anywhere, several times (its sets need a
 * bound that a policy can break); regular expressions (nobody can bound or explain them); one list
 * of prefixes (middle wildcards). */
#include "policy/match.h"

#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"
#include "policy/bytes.h"

/* In shapes: a literal is more specific than any one segment, that than the end, that than "**". */
#define SHAPE_LITERAL '1'
#define SHAPE_ONE '2'
#define SHAPE_END '3'
#define SHAPE_REST '4'

#define EDGES_FIRST 64U

/* ---- edges ------------------------------------------------------------------------------- */

/* Words of eight bytes, multiplied and folded: one multiplication for a usual segment. */
static uint64_t edge_hash(const struct wr_tree_node *parent, struct weir_slice text)
{
    uint64_t hash = (uint64_t)parent->id * UINT64_C(0x9e3779b97f4a7c15) + text.len;
    const char *p = text.ptr;
    size_t len = text.len;
    uint64_t word;

    for (; len >= 8; len -= 8, p += 8) {
        memcpy(&word, p, 8);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    word = len > 0 ? wr_sip_tail((const unsigned char *)p, len) : 0;
    hash = (hash ^ word) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 32;
}

/* As memcmp() == 0, without a call for the usual segment of up to 16 bytes. */
static bool is_same(const char *a, const char *b, size_t len)
{
    uint64_t x, y;

    if (len > 16)
        return memcmp(a, b, len) == 0;
    if (len < 8)
        return len == 0 || wr_sip_tail((const unsigned char *)a, len) ==
                               wr_sip_tail((const unsigned char *)b, len);
    memcpy(&x, a, 8);
    memcpy(&y, b, 8);
    if (x != y)
        return false;
    memcpy(&x, a + len - 8, 8);
    memcpy(&y, b + len - 8, 8);
    return x == y;
}

/* The edge |text| of |parent|, or the free one where it belongs. edge_mask > 0. */
static struct wr_tree_edge *probe(const struct wr_tree *tree, const struct wr_tree_node *parent,
                                  struct weir_slice text)
{
    size_t at = (size_t)edge_hash(parent, text) & tree->edge_mask;

    for (;; at = (at + 1) & tree->edge_mask) {
        struct wr_tree_edge *edge = &tree->edges[at];
        if (edge->child == NULL || (edge->parent == parent && edge->text.len == text.len &&
                                    is_same(edge->text.ptr, text.ptr, text.len)))
            return edge;
    }
}

static bool grow_edges(struct wr_tree *tree, struct wr_region *region)
{
    struct wr_tree larger = *tree;
    size_t room = tree->edge_mask == 0 ? EDGES_FIRST : (tree->edge_mask + 1) * 2;

    larger.edges = wr_region_take(region, room, sizeof *larger.edges);
    if (larger.edges == NULL)
        return false;
    larger.edge_mask = room - 1;
    for (size_t i = 0; tree->edge_mask > 0 && i <= tree->edge_mask; i++)
        if (tree->edges[i].child != NULL)
            *probe(&larger, tree->edges[i].parent, tree->edges[i].text) = tree->edges[i];
    *tree = larger;
    return true;
}

/* ---- adding ------------------------------------------------------------------------------ */

static struct wr_tree_node *new_node(struct wr_tree *tree, struct wr_region *region)
{
    struct wr_tree_node *node = wr_region_take(region, 1, sizeof *node);

    if (node != NULL)
        node->id = tree->nodes++;
    return node;
}

static struct wr_tree_node *literal_child(struct wr_tree *tree, struct wr_region *region,
                                          struct wr_tree_node *parent, struct weir_slice text)
{
    struct wr_tree_edge *edge;
    struct wr_tree_node *child;

    if ((tree->edge_count + 1) * 2 > tree->edge_mask && !grow_edges(tree, region))
        return NULL;
    edge = probe(tree, parent, text);
    if (edge->child != NULL)
        return edge->child;
    text.ptr = wr_region_text(region, text.ptr, text.len);
    child = new_node(tree, region);
    if (text.ptr == NULL || child == NULL)
        return NULL;
    *edge = (struct wr_tree_edge){text, parent, child};
    parent->literals++;
    tree->edge_count++;
    return child;
}

static struct wr_tree_node *wildcard_child(struct wr_tree *tree, struct wr_region *region,
                                           const struct wr_tree_node **slot)
{
    struct wr_tree_node *child;

    if (*slot != NULL)
        return (struct wr_tree_node *)(uintptr_t)*slot; /* made here, const only to walkers */
    child = new_node(tree, region);
    *slot = child;
    return child;
}

struct segment {
    struct weir_slice text; /* normalised, of literals */
    char shape;
};

struct parsed {
    size_t count;
    struct segment segment[WR_PATTERN_SEGMENTS_MAX];
    char text[WR_PATTERN_BYTES_MAX]; /* of the literals */
    size_t used;
};

static bool is_name(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') ||
              (p[i] >= '0' && p[i] <= '9') || p[i] == '_' || p[i] == '-'))
            return false;
    return len > 0;
}

/* Read one segment of a pattern. Returns NULL or what is wrong. */
static const char *parse_segment(struct weir_slice raw, struct parsed *out)
{
    struct segment *segment = &out->segment[out->count];

    if (raw.len == 2 && memcmp(raw.ptr, "**", 2) == 0) {
        for (size_t i = 0; i < out->count; i++)
            if (out->segment[i].shape == SHAPE_REST)
                return "expected one ** in a pattern, found a second";
        segment->shape = SHAPE_REST;
        return NULL;
    }
    segment->shape = SHAPE_ONE;
    if (raw.len == 1 && raw.ptr[0] == '*')
        return NULL;
    if (raw.len >= 2 && raw.ptr[0] == '{' && raw.ptr[raw.len - 1] == '}')
        return is_name(raw.ptr + 1, raw.len - 2)
                   ? NULL
                   : "expected a name of letters, digits, - and _ between { and }";
    segment->shape = SHAPE_LITERAL;
    for (size_t i = 0; i < raw.len; i++) {
        if (wr_byte_in(raw.ptr[i], "*{}"))
            return "expected a wildcard to be a whole segment: {name}, * or **";
        if (wr_byte_in(raw.ptr[i], "?#"))
            return "expected a path without a query: ? and # never reach a pattern";
        if ((unsigned char)raw.ptr[i] <= 0x20 || raw.ptr[i] == 0x7f)
            return "expected no blanks in a path: a blank is written %20";
    }
    segment->text.ptr = out->text + out->used;
    segment->text.len = wr_segment_decode(raw, out->text + out->used, sizeof out->text - out->used);
    out->used += segment->text.len;
    if (segment->text.len > WR_SEGMENT_BYTES_MAX)
        return "expected at most 255 bytes in a segment of a pattern";
    if (segment->text.len <= 2 && memcmp(segment->text.ptr, "..", segment->text.len) == 0)
        return "expected a path without . and ..: they are resolved before matching";
    return NULL;
}

static const char *parse_pattern(const char *pattern, struct parsed *out, size_t *at)
{
    const char *p = pattern;

    out->count = 0;
    out->used = 0;
    *at = 0;
    if (*p != '/')
        return "expected a path pattern that begins with /";
    if (strlen(pattern) > WR_PATTERN_BYTES_MAX)
        return "expected at most 1024 bytes in a path pattern";
    while (*p == '/') {
        const char *start = ++p;
        const char *wrong;
        while (*p != '/' && *p != '\0')
            p++;
        *at = (size_t)(start - pattern);
        if (p == start && *p == '\0')
            break; /* the slash at the end, or the root */
        if (p == start)
            return "expected a segment between two slashes: empty ones are dropped before matching";
        if (out->count == WR_PATTERN_SEGMENTS_MAX)
            return "expected at most 32 segments in a path pattern";
        wrong = parse_segment((struct weir_slice){start, (size_t)(p - start)}, out);
        if (wrong != NULL)
            return wrong;
        out->count++;
    }
    return NULL;
}

static struct wr_tree_node *child_for(struct wr_tree *tree, struct wr_region *region,
                                      struct wr_tree_node *parent, const struct segment *segment)
{
    if (segment->shape == SHAPE_LITERAL)
        return literal_child(tree, region, parent, segment->text);
    return wildcard_child(tree, region, segment->shape == SHAPE_ONE ? &parent->one : &parent->rest);
}

/* The node where |parsed| ends: its segments up to a "**" in order, those behind it reversed. */
static struct wr_tree_node *insert(struct wr_tree *tree, struct wr_region *region,
                                   const struct parsed *parsed)
{
    struct wr_tree_node *node = tree->root;
    size_t i = 0;

    for (; node != NULL && i < parsed->count; i++) {
        node = child_for(tree, region, node, &parsed->segment[i]);
        if (parsed->segment[i].shape == SHAPE_REST) {
            i++;
            break;
        }
    }
    for (size_t j = parsed->count; node != NULL && j > i; j--)
        node = child_for(tree, region, node, &parsed->segment[j - 1]);
    return node;
}

const char *wr_tree_add(struct wr_tree *tree, struct wr_region *region, const char *pattern,
                        enum wr_pattern_use use, uint32_t index, size_t *at)
{
    struct parsed parsed;
    struct wr_pattern_end *end;
    struct wr_tree_node *node;
    const char *wrong = parse_pattern(pattern, &parsed, at);
    char *shape;

    if (wrong != NULL)
        return wrong;
    if (tree->root == NULL)
        tree->root = new_node(tree, region);
    node = insert(tree, region, &parsed);
    end = wr_region_take(region, 1, sizeof *end);
    shape = wr_region_take(region, parsed.count + 2, 1);
    if (node == NULL || end == NULL || shape == NULL)
        return NULL;
    for (size_t i = 0; i < parsed.count; i++)
        shape[i] = parsed.segment[i].shape;
    shape[parsed.count] = SHAPE_END;
    *end = (struct wr_pattern_end){.next = node->ends,
                                   .older = tree->newest,
                                   .pattern = pattern,
                                   .pattern_len = (uint32_t)strlen(pattern),
                                   .shape = shape,
                                   .rank = tree->ends++,
                                   .index = index,
                                   .use = use};
    node->ends = end;
    tree->newest = end;
    return NULL;
}

/* ---- ranking ----------------------------------------------------------------------------- */

struct ranked {
    struct wr_pattern_end *end;
};

static int by_shape(const void *a, const void *b)
{
    const struct wr_pattern_end *x = ((const struct ranked *)a)->end;
    const struct wr_pattern_end *y = ((const struct ranked *)b)->end;
    int order = strcmp(x->shape, y->shape);

    return order != 0 ? order : x->rank < y->rank ? -1 : 1;
}

bool wr_tree_finish(struct wr_tree *tree)
{
    struct ranked *sorted;
    uint32_t n = 0;

    if (tree->ends == 0)
        return true;
    sorted = malloc(tree->ends * sizeof *sorted);
    if (sorted == NULL)
        return false;
    for (struct wr_pattern_end *end = tree->newest; end != NULL; end = end->older)
        sorted[n++].end = end;
    qsort(sorted, n, sizeof *sorted, by_shape);
    for (uint32_t i = 0; i < n; i++)
        sorted[i].end->rank = i;
    free(sorted);
    return true;
}

/* ---- walking ----------------------------------------------------------------------------- */

void wr_walk_start(struct wr_walk *walk, const struct wr_tree *tree, const struct wr_path *path)
{
    walk->tree = tree;
    walk->path = path;
    walk->visited = 0;
    walk->waiting = 0;
    if (tree->root != NULL)
        walk->steps[walk->waiting++] = (struct wr_walk_step){tree->root, 0, path->count, false};
}

static void push(struct wr_walk *walk, const struct wr_tree_node *node, uint32_t from, uint32_t to,
                 bool backward)
{
    walk->steps[walk->waiting++] = (struct wr_walk_step){node, from, to, backward};
}

/* Push the children of |step| that consume the next segment. */
static void push_children(struct wr_walk *walk, const struct wr_walk_step *step)
{
    const struct wr_tree_node *node = step->node;
    uint32_t from = step->backward ? step->from : step->from + 1;
    uint32_t to = step->backward ? step->to - 1 : step->to;

    if (node->one != NULL)
        push(walk, node->one, from, to, step->backward);
    if (node->literals > 0) {
        const struct weir_slice *segment = &walk->path->segment[step->backward ? to : step->from];
        const struct wr_tree_edge *edge;
        if (segment->len > WR_SEGMENT_BYTES_MAX)
            return;
        edge = probe(walk->tree, node, *segment);
        if (edge->child != NULL)
            push(walk, edge->child, from, to, step->backward);
    }
}

const struct wr_tree_node *wr_walk_next(struct wr_walk *walk)
{
    while (walk->waiting > 0) {
        struct wr_walk_step step = walk->steps[--walk->waiting];
        walk->visited++;
        if (step.node->rest != NULL)
            push(walk, step.node->rest, step.from, step.to, true);
        if (step.from < step.to)
            push_children(walk, &step);
        /* Forward, a pattern ends where the path does; backward, its "**" takes what is left. */
        if (step.node->ends != NULL && (step.backward || step.from == step.to))
            return step.node;
    }
    return NULL;
}
