/* zone.h - time zones by their names in the tz database: how far local time is from UTC, and when a
 * civil day begins.
 *
 * A zone is read once from the system's compiled files (TZif, RFC 9636; $TZDIR or
 * /usr/share/zoneinfo) and lives as long as the process, immutable: any thread may use it without a
 * lock. */
#ifndef WR_BASE_ZONE_H
#define WR_BASE_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_ZONE_NAME_MAX 64
#define WR_ZONES_MAX 256               /* of a process */
#define WR_ZONE_UTC UINT64_C(0)        /* its id */
#define WR_ZONE_FILE_MAX (256U * 1024) /* bytes of a file */

struct wr_zone;

/* The zone called |name|, as in "Europe/Istanbul"; "UTC" needs no file. NULL, and |why| says what
 * is wrong: "no such time zone", or what about its file. Takes a lock, opens a file. */
const struct wr_zone *wr_zone_find(const char *name, char *why, size_t size);

/* The same number for the same name in every process. */
uint64_t wr_zone_id(const struct wr_zone *zone);
const char *wr_zone_name(const struct wr_zone *zone);

/* The zone with that id that this process has found before; else UTC: for judging what other
 * processes have stored. */
const struct wr_zone *wr_zone_by_id(uint64_t id);

/* Seconds that local time is ahead of UTC at |moment_s|, seconds since the epoch. */
int32_t wr_zone_offset_s(const struct wr_zone *zone, int64_t moment_s);

/* The first moment at which local time has reached |day|, days since 1970-01-01. Where clocks skip
 * midnight, that is the moment of the change; where they pass it twice, the first time; a day that
 * is skipped whole begins when the next one does. */
int64_t wr_zone_day_start_s(const struct wr_zone *zone, int64_t day);

/* Read a file's bytes as a zone that is in no list; to be freed. NULL, and |why|. */
struct wr_zone *wr_zone_parse(const void *bytes, size_t len, const char **why);
void wr_zone_free(struct wr_zone *zone);

#endif
