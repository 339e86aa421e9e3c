/* zone_names.h - what a person may have meant by the name of a time zone that is none. */
#ifndef WR_POLICY_ZONE_NAMES_H
#define WR_POLICY_ZONE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* The name of a zone of this machine that is near |text|: a slip, another case, or a city without
 * its continent. False: none is. */
bool wr_zone_nearest(const char *text, char *out, size_t size);

#endif
