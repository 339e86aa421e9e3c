/* bearer.c - is it the token?
 *
 * The problem. A comparison that ends at the first wrong byte tells by its time how many were
 * right, and a token is then found byte by byte.
 *
 * The idea. Every byte that is shown is compared to one of the token, whatever came before: the
 * time depends on the length of what is shown, which the caller knows. */
#include "doors/bearer.h"

#include <string.h>

static bool same(struct weir_slice shown, const char *token)
{
    size_t len = strlen(token);
    volatile unsigned different = shown.len != len; /* volatile: no early exit is compiled in */

    for (size_t i = 0, k = 0; i < shown.len; i++) {
        different = different | ((unsigned char)shown.ptr[i] ^ (unsigned char)token[k]);
        k = k + 1 < len ? k + 1 : 0;
    }
    return different == 0;
}

enum wr_bearer wr_bearer_look(const struct wr_http_request *request, const char *token)
{
    static const char scheme[] = "bearer ";
    size_t len = sizeof scheme - 1;
    struct weir_slice value = {NULL, 0};
    unsigned found = 0;

    for (unsigned i = 0; i < request->field_count; i++) {
        if (!wr_http_name_is(request->field[i].name, "authorization"))
            continue;
        value = request->field[i].value;
        found++;
    }
    if (found != 1 || value.len <= len ||
        !wr_http_name_is((struct weir_slice){value.ptr, len}, scheme))
        return WR_BEARER_MISSING;
    while (len < value.len && value.ptr[len] == ' ')
        len++;
    value = (struct weir_slice){value.ptr + len, value.len - len};
    return same(value, token) ? WR_BEARER_GOOD : WR_BEARER_WRONG;
}
