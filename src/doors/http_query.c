/* http_query.c - the parameters that a path takes: what it does not take, takes once and got twice,
 * or got without a value is refused before anybody reads it. An empty value is what a variable that
 * is not set leaves behind: it is never taken for "all".
 *
 * Bounds: a list of at most 32 names; quadratic in nothing. */
#include <stdio.h>
#include <string.h>

#include "doors/http_service.h"
#include "wire/query.h"

#define TEXT_BYTES 300U

/* The place of |name| in |takes|; -1: it is not there. |*sign|: the one behind it, or a blank. */
static int place_of(const char *takes, struct weir_slice name, char *sign)
{
    *sign = ' ';
    for (int i = 0; *takes != '\0'; i++) {
        size_t len = strcspn(takes, " *?");
        if (len == name.len && memcmp(takes, name.ptr, len) == 0) {
            *sign = takes[len];
            return i;
        }
        takes += len;
        takes += strspn(takes, " *?");
    }
    return -1;
}

/* "no such parameter here; there are: name, limit". */
static void say_what_there_is(const char *takes, char *out, size_t size)
{
    size_t at;

    if (takes[0] == '\0') {
        (void)snprintf(out, size, "expected no parameters");
        return;
    }
    at = (size_t)snprintf(out, size, "no such parameter here; there are: ");
    for (; *takes != '\0' && at + 3 < size; takes++) {
        if (*takes == '*' || *takes == '?')
            continue;
        if (*takes == ' ')
            out[at++] = ',';
        out[at++] = *takes;
    }
    out[at] = '\0';
}

bool http_query_takes(struct http_service *service, const char *takes,
                      struct http_response *response)
{
    struct weir_slice text = http_query(&service->request), name, value;
    char decoded[WR_HTTP_TARGET_MAX], said[TEXT_BYTES];
    struct wr_query query = {.at = text.ptr, .end = text.ptr + text.len, .scratch = decoded};
    const char *wrong = NULL;
    uint32_t given = 0;

    while (wrong == NULL && wr_query_next(&query, &name, &value)) {
        char sign;
        int place = place_of(takes, name, &sign);
        if (place < 0) {
            say_what_there_is(takes, said, sizeof said);
            wrong = said;
        } else if (value.len == 0 && sign != '?') {
            wrong = "expected a value; without one, leave the parameter out";
        } else if (sign != '*' && (given >> place & 1) != 0) {
            wrong = "given twice";
        } else {
            given |= UINT32_C(1) << place;
        }
    }
    wrong = wrong != NULL ? wrong : query.error;
    if (wrong != NULL)
        http_problem(service, response, 400, wrong, name);
    return wrong == NULL;
}
