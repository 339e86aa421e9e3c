/* room.c - will who is put into the database find room in customers.map beside it?
 *
 * The map is of one size for its life; a customer or a key that it has no room for is obeyed by no
 * decision. So whoever would make one asks here first. Where there is no map yet, one is made as
 * large as the policy says. */
#include <stdio.h>
#include <string.h>

#include "meter/customers_parts.h"
#include "meter/schema.h"

#define WHAT_TO_DO                                                                           \
    "raise customers.room, end weir serve, remove customers.map and the files *.usage, and " \
    "start it: they are made anew from the database"

/* NULL: there is none, or none that can be read. */
static struct wr_customers *open_map(const struct wr_database *database)
{
    char path[4096 + 16];
    const struct wr_customers_options options = {.path = path, .must_exist = true};
    const char *file = wr_database_path(database), *slash = strrchr(file, '/');
    struct wr_customers *map;

    (void)snprintf(path, sizeof path, "%.*s%s", slash != NULL ? (int)(slash - file) + 1 : 0, file,
                   WR_CUSTOMERS_NAME);
    return wr_customers_open(&map, &options, NULL) == 0 ? map : NULL;
}

uint32_t wr_customers_room_for(const struct wr_database *database, uint32_t room)
{
    struct wr_customers *map = open_map(database);

    if (map != NULL && wr_customers_room(map) < room)
        room = wr_customers_room(map);
    wr_customers_close(map);
    return room;
}

int wr_room_refuse_customer(struct wr_database *database, uint32_t room)
{
    return wr_database_refuse(database, WEIR_EFULL,
                              "no room for another customer, there is room for %u: " WHAT_TO_DO,
                              room);
}

static int refuse_place(struct wr_database *database, const struct wr_customer *customer)
{
    return wr_database_refuse(database, WEIR_EFULL, "%s has no place in customers.map: " WHAT_TO_DO,
                              customer->name);
}

int wr_room_for_customer(struct wr_database *database, const struct wr_customer *customer)
{
    struct wr_customers *map = open_map(database);
    bool has_place = map == NULL || customer->number < wr_customers_room(map);

    wr_customers_close(map);
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
    if (result == 0 && owner.number >= wr_customers_room(map))
        result = refuse_place(database, &owner);
    else if (result == 0 &&
             (keys >= (int64_t)wr_customers_key_room(map) || !wr_customers_key_fits(map, digest)))
        result = wr_database_refuse(database, WEIR_EFULL, "no room for another key: " WHAT_TO_DO);
    wr_customers_close(map);
    return result;
}
