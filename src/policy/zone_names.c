/* zone_names.c - the names of time zones, for a message.
 *
 * Only the name of a zone that cannot be found leads here, so the list of the machine (zone.tab of
 * the tz database: code, place, name, remark, divided by tabs) is read when it is asked for, and a
 * machine without one gets a message without a proposal. */
#include "policy/zone_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/zone.h"
#include "policy/loader.h"

#define NAMES_MAX 1024
#define LINE_MAX_BYTES 512
#define LIST "zone.tab"
#define DIRECTORY_DEFAULT "/usr/share/zoneinfo"

struct names {
    char text[NAMES_MAX][WR_ZONE_NAME_MAX + 1];
    const char *list[NAMES_MAX];
    size_t count;
};

/* The third field of a line; false: it has none, or is a remark. */
static bool third(char *line, char out[WR_ZONE_NAME_MAX + 1])
{
    char *at = line;
    size_t len;

    for (int field = 0; field < 2 && at != NULL; field++) {
        at = strchr(at, '\t');
        at = at != NULL ? at + 1 : NULL;
    }
    if (line[0] == '#' || at == NULL)
        return false;
    len = strcspn(at, "\t\n");
    if (len == 0 || len > WR_ZONE_NAME_MAX)
        return false;
    memcpy(out, at, len);
    out[len] = '\0';
    return true;
}

static void read_list(struct names *names)
{
    const char *directory = getenv("TZDIR");
    char path[512], line[LINE_MAX_BYTES];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/" LIST,
                   directory != NULL ? directory : DIRECTORY_DEFAULT);
    file = fopen(path, "re");
    if (file == NULL)
        return;
    while (names->count < NAMES_MAX && fgets(line, sizeof line, file) != NULL) {
        if (!third(line, names->text[names->count]))
            continue;
        names->list[names->count] = names->text[names->count];
        names->count++;
    }
    (void)fclose(file);
}

/* Is |text| |name|, or its last part, but for case and blanks? */
static bool means(const char *text, const char *name)
{
    const char *city = strrchr(name, '/');
    const char *with[] = {name, city != NULL ? city + 1 : name};
    char line[WR_ZONE_NAME_MAX + 1];

    (void)snprintf(line, sizeof line, "%s", text);
    for (char *p = line; *p != '\0'; p++)
        *p = (char)(*p == ' ' ? '_' : *p);
    return strcasecmp(line, with[0]) == 0 || strcasecmp(line, with[1]) == 0;
}

bool wr_zone_nearest(const char *text, char *out, size_t size)
{
    struct names *names = calloc(1, sizeof *names);
    const char *found = NULL;

    if (size > 0)
        out[0] = '\0';
    if (names == NULL)
        return false;
    read_list(names);
    for (size_t i = 0; i < names->count && found == NULL; i++)
        if (means(text, names->list[i]))
            found = names->list[i];
    if (found == NULL)
        found = wr_nearest(text, names->list, names->count, sizeof names->list[0]);
    if (found != NULL)
        (void)snprintf(out, size, "%s", found);
    free(names);
    return found != NULL;
}
