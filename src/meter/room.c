/* room.c - will who is put into the database find room in customers.map beside it, and in the files
 * of usage?
 *
 * These are of one size for their lives, and not all of one: who took away the map alone has one
 * that is larger than they are. A customer or a key that the map has no room for is obeyed by no
 * decision, and what a customer uses that has no cell is not in the ledger. So whoever would make
 * one asks here first; the smallest counts, also where it is of a quota that the policy has no more
 * and may have again. Where there is no file yet, one is made as large as the policy says. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "meter/customers_parts.h"
#include "meter/schema.h"
#include "store/usage.h"

/* The folder of |database| and a slash at its end, or nothing. */
static void folder_of(const struct wr_database *database, char *out, size_t size)
{
    const char *file = wr_database_path(database), *slash = strrchr(file, '/');

    (void)snprintf(out, size, "%.*s", slash != NULL ? (int)(slash - file) + 1 : 0, file);
}

/* NULL: there is none, or none that can be read. */
static struct wr_customers *open_map(const struct wr_database *database)
{
    char folder[4096], path[4096 + 16];
    const struct wr_customers_options options = {.path = path, .must_exist = true};
    struct wr_customers *map;

    folder_of(database, folder, sizeof folder);
    (void)snprintf(path, sizeof path, "%s%s", folder, WR_CUSTOMERS_NAME);
    return wr_customers_open(&map, &options, NULL) == 0 ? map : NULL;
}

/* One file of usage. */
static void see(const char *path, struct wr_customers_place *place, bool room_only)
{
    uint32_t room = wr_usage_room_at(path), end = room_only ? 0 : wr_usage_end_at(path);

    if (room > 0 && room < place->room)
        place->room = room;
    if (end > place->first)
        place->first = end;
}

/* |place| as all files of usage narrow it. |room_only|: without a look at their cells. */
static void see_all(const struct wr_database *database, struct wr_customers_place *place,
                    bool room_only)
{
    char folder[4096], path[4096 + sizeof((struct dirent *)NULL)->d_name];
    size_t suffix = strlen(WR_USAGE_SUFFIX);
    const struct dirent *entry;
    DIR *directory;

    folder_of(database, folder, sizeof folder);
    directory = opendir(folder[0] != '\0' ? folder : ".");
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        size_t len = strlen(entry->d_name);
        if (len <= suffix || strcmp(entry->d_name + len - suffix, WR_USAGE_SUFFIX) != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s%s", folder, entry->d_name);
        see(path, place, room_only);
    }
    if (directory != NULL)
        (void)closedir(directory);
}

struct wr_customers_place wr_customers_place_for(const struct wr_database *database, uint32_t room)
{
    struct wr_customers_place place = {.first = 0, .room = room};
    struct wr_customers *map = open_map(database);

    if (map != NULL && wr_customers_room(map) < room)
        place.room = wr_customers_room(map);
    wr_customers_close(map);
    see_all(database, &place, false);
    return place;
}

/* |room|, or that of the smallest file of usage. */
static uint32_t cells_of(const struct wr_database *database, uint32_t room)
{
    struct wr_customers_place place = {.room = room};

    see_all(database, &place, true);
    return place.room;
}

int wr_room_refuse_customer(struct wr_database *database, uint32_t room)
{
    return wr_database_refuse(database, WEIR_EFULL,
                              "no room for another customer, there is room for %u: " WR_MORE_ROOM,
                              room);
}

static int refuse_place(struct wr_database *database, const struct wr_customer *customer)
{
    return wr_database_refuse(
        database, WEIR_EFULL,
        "%s has no place in customers.map, or no cell in a file of usage: " WR_MORE_ROOM,
        customer->name);
}

int wr_room_for_customer(struct wr_database *database, const struct wr_customer *customer)
{
    struct wr_customers *map = open_map(database);
    bool has_place = map == NULL || customer->number < wr_customers_room(map);

    wr_customers_close(map);
    has_place = has_place && customer->number < cells_of(database, UINT32_MAX);
    return has_place ? 0 : refuse_place(database, customer);
}

int wr_room_for_key(struct wr_database *database, int64_t customer,
                    const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES])
{
    struct wr_customers *map = open_map(database);
    int64_t customers, keys;
    struct wr_customer owner;
    int result = 0;

    if (map == NULL)
        return 0;
    result = wr_customer_get(database, customer, &owner);
    if (result == 0)
        result = wr_customers_count(database, &customers, &keys);
    if (result == 0 && owner.number >= cells_of(database, wr_customers_room(map)))
        result = refuse_place(database, &owner);
    else if (result == 0 &&
             (keys >= (int64_t)wr_customers_key_room(map) || !wr_customers_key_fits(map, digest)))
        result = wr_database_refuse(database, WEIR_EFULL, "no room for another key: " WR_MORE_ROOM);
    wr_customers_close(map);
    return result;
}
