/* zone.c - the list of zones in use, and what is asked of them.
 *
 * A zone is a list of changes: from this moment on, local time is so far ahead. Which of them holds
 * is found by halving; a day's start by walking the few changes around its midnight.
 *
 * Invariant: zones[i] is written once, before count goes above i, and never changes.
 *
 * Rejected: localtime_r (one zone for the whole process, by an environment variable); ICU (40 MB
 * for one table). */
#include "base/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/siphash.h"
#include "base/zone_changes.h"

#define S_PER_DAY INT64_C(86400)
#define SPREAD_S (2 * S_PER_DAY) /* more than any two offsets differ */
#define FOLDER "/usr/share/zoneinfo"

static const struct wr_zone utc = {.id = WR_ZONE_UTC, .name = "UTC"};

static struct {
    pthread_mutex_t mutex; /* of those who add */
    const struct wr_zone *zones[WR_ZONES_MAX];
    atomic_size_t count;
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

uint64_t wr_zone_id(const struct wr_zone *zone)
{
    return zone->id;
}

const char *wr_zone_name(const struct wr_zone *zone)
{
    return zone->name;
}

const struct wr_zone *wr_zone_by_id(uint64_t id)
{
    size_t count = atomic_load_explicit(&known.count, memory_order_acquire);

    for (size_t i = 0; i < count; i++)
        if (known.zones[i]->id == id)
            return known.zones[i];
    return &utc;
}

/* ---- asking --------------------------------------------------------------------------------- */

/* The number of changes at or before |moment_s|. */
static size_t changes_until(const struct wr_zone *zone, int64_t moment_s)
{
    size_t low = 0, high = zone->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (zone->changes[middle].at_s <= moment_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int32_t offset_after(const struct wr_zone *zone, size_t changes)
{
    return changes == 0 ? zone->first_offset_s : zone->changes[changes - 1].offset_s;
}

int32_t wr_zone_offset_s(const struct wr_zone *zone, int64_t moment_s)
{
    return offset_after(zone, changes_until(zone, moment_s));
}

int64_t wr_zone_day_start_s(const struct wr_zone *zone, int64_t day)
{
    int64_t midnight = day * S_PER_DAY, from = midnight - SPREAD_S;
    size_t i = changes_until(zone, from);

    for (;; i++) {
        int64_t start = midnight - offset_after(zone, i);
        if (start < from)
            start = from;
        if (i == zone->count || start < zone->changes[i].at_s)
            return start;
        from = zone->changes[i].at_s;
    }
}

/* ---- finding -------------------------------------------------------------------------------- */

static bool is_name(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len < WR_ZONE_NAME_MAX && name[0] != '/' && name[0] != '.' &&
           strstr(name, "..") == NULL &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") ==
               len;
}

/* Files of the same folder that are no zone: what this machine is set to, and not set to. */
static bool is_setting(const char *name)
{
    return strcmp(name, "localtime") == 0 || strcmp(name, "posixrules") == 0 ||
           strcmp(name, "Factory") == 0;
}

/* The whole file, or NULL and errno. */
static unsigned char *read_whole(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    unsigned char *bytes = NULL;
    struct stat st;
    ssize_t got;

    if (fd < 0)
        return NULL;
    errno = ENOENT;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= (off_t)WR_ZONE_FILE_MAX)
        bytes = malloc((size_t)st.st_size);
    *len = 0;
    while (bytes != NULL && *len < (size_t)st.st_size &&
           (got = read(fd, bytes + *len, (size_t)st.st_size - *len)) > 0)
        *len += (size_t)got;
    (void)close(fd);
    return bytes;
}

static struct wr_zone *load(const char *name, const char **why)
{
    const char *folder = getenv("TZDIR");
    char path[4096];
    unsigned char *bytes;
    struct wr_zone *zone;
    size_t len;

    if (is_setting(name)) {
        *why = "what it is depends on the machine: name the zone itself";
        return NULL;
    }
    if (!is_name(name) ||
        snprintf(path, sizeof path, "%s/%s", folder == NULL || folder[0] != '/' ? FOLDER : folder,
                 name) >= (int)sizeof path) {
        *why = "no such time zone";
        return NULL;
    }
    bytes = read_whole(path, &len);
    if (bytes == NULL) {
        *why = errno == ENOENT || errno == ENOTDIR ? "no such time zone (is tzdata installed?)"
                                                   : "its file cannot be read";
        return NULL;
    }
    zone = wr_zone_parse(bytes, len, why);
    free(bytes);
    if (zone != NULL)
        (void)snprintf(zone->name, sizeof zone->name, "%s", name);
    return zone;
}

/* Of a name: SipHash under a key of zeros, never WR_ZONE_UTC's. */
static uint64_t id_of(const char *name)
{
    struct wr_sip sip = wr_sip_init((struct wr_sip_key){{0, 0}});

    wr_sip_part(&sip, 0, name, strlen(name));
    return wr_sip_finish(sip) | 1;
}

static const struct wr_zone *find_known(const char *name)
{
    size_t count = atomic_load_explicit(&known.count, memory_order_acquire);

    for (size_t i = 0; i < count; i++)
        if (strcmp(known.zones[i]->name, name) == 0)
            return known.zones[i];
    return NULL;
}

/* With the mutex. */
static const struct wr_zone *add(const char *name, const char **why)
{
    size_t count = atomic_load_explicit(&known.count, memory_order_relaxed);
    const struct wr_zone *zone = find_known(name);
    struct wr_zone *fresh;

    if (zone != NULL)
        return zone;
    if (count == WR_ZONES_MAX) {
        *why = "too many time zones";
        return NULL;
    }
    fresh = load(name, why);
    if (fresh == NULL)
        return NULL;
    fresh->id = id_of(name);
    if (wr_zone_by_id(fresh->id) != &utc) {
        *why = "its number is another zone's"; /* once in 2^63 */
        wr_zone_free(fresh);
        return NULL;
    }
    known.zones[count] = fresh;
    atomic_store_explicit(&known.count, count + 1, memory_order_release);
    return fresh;
}

const struct wr_zone *wr_zone_find(const char *name, char *why, size_t size)
{
    const struct wr_zone *zone;
    const char *wrong = "";

    if (strcmp(name, "UTC") == 0)
        return &utc;
    zone = find_known(name);
    if (zone == NULL) {
        (void)pthread_mutex_lock(&known.mutex);
        zone = add(name, &wrong);
        (void)pthread_mutex_unlock(&known.mutex);
    }
    if (zone == NULL)
        (void)snprintf(why, size, "%s", wrong);
    return zone;
}
