/* zone_file.c - the compiled files of the tz database: TZif, RFC 9636.
 *
 *   header, data of version 1 with 32-bit moments     skipped where there is a second part
 *   header, data of version 2 and later, 64-bit
 *   "\n" a rule for the years to come "\n"
 *
 * Idea. The rule is written out up to the last moment that weir tells apart, so that who asks for
 * an offset knows lists of changes only.
 *
 * Invariants.
 *   1. The bytes are input: every count is checked against what is there before anything is read.
 *   2. The changes that come out are in ascending order; those that change nothing are left out. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "base/zone_changes.h"

#define HEADER_BYTES 44U
#define COUNT_MAX UINT32_C(65536)
#define LAST_YEAR 2201
#define OFFSET_MAX_S (26 * 3600)

struct counts {
    uint32_t utc, standard, leap, time, type, chars;
};

struct part {
    const unsigned char *bytes; /* behind the header */
    struct counts counts;
    size_t moment_bytes; /* 4 or 8 */
};

static uint32_t be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t moment_at(const struct part *part, size_t i)
{
    const unsigned char *p = part->bytes + i * part->moment_bytes;

    if (part->moment_bytes == 4)
        return (int32_t)be32(p);
    return (int64_t)((uint64_t)be32(p) << 32 | be32(p + 4));
}

/* Read the header at |p|. Returns the bytes of the part with its header; 0: it is none. */
static size_t read_part(const unsigned char *p, size_t len, size_t moment_bytes, struct part *out)
{
    struct counts *c = &out->counts;
    size_t need;

    if (len < HEADER_BYTES || memcmp(p, "TZif", 4) != 0)
        return 0;
    *c = (struct counts){be32(p + 20), be32(p + 24), be32(p + 28),
                         be32(p + 32), be32(p + 36), be32(p + 40)};
    if (c->utc > COUNT_MAX || c->standard > COUNT_MAX || c->leap > COUNT_MAX ||
        c->time > COUNT_MAX || c->type > 256 || c->chars > COUNT_MAX)
        return 0;
    out->bytes = p + HEADER_BYTES;
    out->moment_bytes = moment_bytes;
    need = c->time * (moment_bytes + 1) + (size_t)c->type * 6 + c->chars +
           c->leap * (moment_bytes + 4) + c->standard + c->utc;
    return len - HEADER_BYTES >= need ? HEADER_BYTES + need : 0;
}

/* The offset of type |type|; false: there is no such type, or it is out of range. */
static bool offset_of(const struct part *part, unsigned type, int32_t *out)
{
    const unsigned char *types = part->bytes + part->counts.time * (part->moment_bytes + 1);

    *out = 0;
    if (type >= part->counts.type)
        return false;
    *out = (int32_t)be32(types + (size_t)type * 6);
    return *out >= -OFFSET_MAX_S && *out <= OFFSET_MAX_S;
}

static int32_t last_offset(const struct wr_zone *zone)
{
    return zone->count == 0 ? zone->first_offset_s : zone->changes[zone->count - 1].offset_s;
}

/* False: out of order, or too many. */
static bool append(struct wr_zone *zone, int64_t at_s, int32_t offset_s)
{
    if (zone->count > 0 && at_s <= zone->changes[zone->count - 1].at_s)
        return false;
    if (offset_s == last_offset(zone))
        return true;
    if (zone->count == WR_ZONE_CHANGES_MAX)
        return false;
    zone->changes[zone->count++] = (struct wr_zone_change){at_s, offset_s};
    return true;
}

static bool read_changes(struct wr_zone *zone, const struct part *part)
{
    const unsigned char *types = part->bytes + part->counts.time * part->moment_bytes;
    int32_t offset_s;

    if (!offset_of(part, 0, &zone->first_offset_s))
        return false;
    for (size_t i = 0; i < part->counts.time; i++)
        if (!offset_of(part, types[i], &offset_s) || !append(zone, moment_at(part, i), offset_s))
            return false;
    return true;
}

/* Changes of the years after the last one in the list. Both turns of a year may come in either
 * order. A turn that is not after the last change stands in the list already. */
static bool write_out(struct wr_zone *zone, const struct wr_zone_rule *rule)
{
    int64_t last_s = zone->count == 0 ? INT64_MIN : zone->changes[zone->count - 1].at_s;

    if (!rule->has_summer)
        return true;
    for (int year = 1970; year <= LAST_YEAR; year++) {
        int64_t start_s = wr_zone_rule_turn_s(rule, year, true);
        int64_t end_s = wr_zone_rule_turn_s(rule, year, false);
        bool start_first = start_s < end_s;
        for (int i = 0; i < 2; i++) {
            bool start = (i == 0) == start_first;
            int64_t at_s = start ? start_s : end_s;
            if (at_s <= last_s)
                continue;
            if (zone->count > 0 && at_s <= zone->changes[zone->count - 1].at_s)
                continue; /* summer time all the year: the turns of two years meet */
            if (!append(zone, at_s, start ? rule->summer_s : rule->standard_s))
                return false;
        }
    }
    return true;
}

/* The text between the two newlines behind the second part; a file may have none. */
static const char *read_rule(struct wr_zone *zone, const unsigned char *p, size_t len)
{
    const unsigned char *end = len > 0 ? memchr(p + 1, '\n', len - 1) : NULL;
    struct wr_zone_rule rule;

    if (len == 0 || p[0] != '\n' || end == NULL)
        return "its file ends early";
    if (end == p + 1)
        return NULL;
    if (!wr_zone_rule_parse((const char *)p + 1, (size_t)(end - p - 1), &rule))
        return "its file has a rule that is not understood";
    if (!rule.has_summer && rule.standard_s != last_offset(zone))
        return "its file's rule contradicts its last change";
    return write_out(zone, &rule) ? NULL : "its file has too many changes";
}

static const char *read_file(struct wr_zone *zone, const unsigned char *bytes, size_t len)
{
    struct part part;
    size_t first = read_part(bytes, len, 4, &part), second = 0;

    if (first == 0)
        return "its file is no time zone (TZif)";
    if (bytes[4] >= '2') {
        second = read_part(bytes + first, len - first, 8, &part);
        if (second == 0)
            return "its file is damaged";
    }
    if (part.counts.leap > 0)
        return "it counts leap seconds; take the zone without \"right/\"";
    if (!read_changes(zone, &part))
        return "its file is damaged";
    return second == 0 ? NULL : read_rule(zone, bytes + first + second, len - first - second);
}

struct wr_zone *wr_zone_parse(const void *bytes, size_t len, const char **why)
{
    struct wr_zone *zone = calloc(1, sizeof *zone);
    struct wr_zone_change *fitting;

    *why = "out of memory";
    if (zone == NULL)
        return NULL;
    zone->changes = calloc(WR_ZONE_CHANGES_MAX, sizeof *zone->changes);
    if (zone->changes != NULL)
        *why = read_file(zone, bytes, len);
    if (*why != NULL) {
        wr_zone_free(zone);
        return NULL;
    }
    fitting = realloc(zone->changes, (zone->count + 1) * sizeof *zone->changes);
    if (fitting != NULL)
        zone->changes = fitting;
    return zone;
}

void wr_zone_free(struct wr_zone *zone)
{
    if (zone == NULL)
        return;
    free(zone->changes);
    free(zone);
}
