/* bytes.h - sets of bytes. */
#ifndef WR_POLICY_BYTES_H
#define WR_POLICY_BYTES_H

#include <stdbool.h>
#include <string.h>

static inline bool wr_byte_in(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

/* May |c| stand in a token of RFC 9110: a method, the name of a header field? */
static inline bool wr_is_token_byte(char c)
{
    return (unsigned char)c > 0x20 && (unsigned char)c < 0x7f &&
           !wr_byte_in(c, "\"(),/:;<=>?@[\\]{}");
}

#endif
