/* error.c - the texts of the errors, from the one table in weir.h. */
#include "weir/weir.h"

const char *weir_strerror(int error)
{
    switch (error) {
    case WEIR_OK:
        return "ok";
#define ERROR_CASE(name, value, text) \
    case name:                        \
        return text;
        WEIR_ERRORS(ERROR_CASE)
#undef ERROR_CASE
    default:
        return "unknown error";
    }
}
