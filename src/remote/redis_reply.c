/* redis_reply.c - the first word of an error is its code; the rest is for people.
 *
 * Errors of a command inside a script come as "-ERR ... script: ..." in Redis before 7 and with
 * their own code since; a script's user who may not call a command is told "-ERR The user executing
 * the script can't run this command", "-NOPERM" since 7. Both are read here.
 *
 * Rejected: treating all unknown errors as an outage (trap 48). An answer is an answer; only what
 * none of our scripts can cause is WR_REDIS_OTHER. */
#include "remote/redis_reply.h"

#include <string.h>

struct code {
    const char *word;
    enum wr_redis_error error;
};

static const struct code codes[] = {
    {"NOSCRIPT", WR_REDIS_NOSCRIPT},
    {"READONLY", WR_REDIS_READONLY},
    {"LOADING", WR_REDIS_BUSY},
    {"BUSY", WR_REDIS_BUSY},
    {"MASTERDOWN", WR_REDIS_BUSY},
    {"OOM", WR_REDIS_BUSY},
    {"NOREPLICAS", WR_REDIS_BUSY},
    {"MISCONF", WR_REDIS_BUSY},
    {"NOAUTH", WR_REDIS_DENIED},
    {"NOPERM", WR_REDIS_DENIED},
    {"WRONGPASS", WR_REDIS_DENIED},
    {"MOVED", WR_REDIS_MOVED},
    {"ASK", WR_REDIS_ASK},
    {"TRYAGAIN", WR_REDIS_TRYAGAIN},
    {"UNBLOCKED", WR_REDIS_READONLY},
    {"CLUSTERDOWN", WR_REDIS_CLUSTERDOWN},
};

/* What older servers say after ERR. */
static const struct code phrases[] = {
    {"invalid password", WR_REDIS_DENIED},
    {"max number of clients reached", WR_REDIS_BUSY},
    {"can't run this command", WR_REDIS_DENIED},
    {"can't access at least one of the keys", WR_REDIS_DENIED},
    {"without any password configured", WR_REDIS_DENIED},
    {"READONLY ", WR_REDIS_READONLY},
    {"OOM ", WR_REDIS_BUSY},
    {"MISCONF ", WR_REDIS_BUSY},
};

static bool begins(const char *text, size_t len, const char *word)
{
    size_t n = strlen(word);

    return len >= n && memcmp(text, word, n) == 0 && (len == n || text[n] == ' ');
}

enum wr_redis_error wr_redis_error_of(const char *text, size_t len)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (begins(text, len, codes[i].word))
            return codes[i].error;
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
        if (memmem(text, len, phrases[i].word, strlen(phrases[i].word)) != NULL)
            return phrases[i].error;
    return WR_REDIS_OTHER;
}

enum wr_remote_trouble wr_redis_trouble_of(enum wr_redis_error error)
{
    if (error == WR_REDIS_DENIED)
        return WR_TROUBLE_DENIED;
    if (error == WR_REDIS_OTHER || error == WR_REDIS_NOSCRIPT)
        return WR_TROUBLE_PROTOCOL;
    return WR_TROUBLE_BUSY;
}

/* A decimal number up to |most| in exactly |len| bytes. */
static bool number(const char *text, size_t len, unsigned most, uint16_t *out)
{
    unsigned value = 0;

    *out = 0;
    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    if (value > most)
        return false;
    *out = (uint16_t)value;
    return true;
}

bool wr_redis_redirection(const char *text, size_t len, uint16_t *slot,
                          char host[WR_REDIS_HOST_MAX], uint16_t *port)
{
    const char *end = text + len, *first = memchr(text, ' ', len), *second, *colon;
    size_t host_len;

    *slot = *port = 0;
    host[0] = '\0';
    if (first == NULL)
        return false;
    second = memchr(first + 1, ' ', (size_t)(end - first - 1));
    if (second == NULL)
        return false;
    colon = memrchr(second + 1, ':', (size_t)(end - second - 1));
    if (colon == NULL)
        return false;
    host_len = (size_t)(colon - second - 1);
    if (host_len >= WR_REDIS_HOST_MAX || memchr(second + 1, '\0', host_len) != NULL ||
        !number(first + 1, (size_t)(second - first - 1), 16383, slot) ||
        !number(colon + 1, (size_t)(end - colon - 1), UINT16_MAX, port) || *port == 0)
        return false;
    memcpy(host, second + 1, host_len);
    host[host_len] = '\0';
    return true;
}
