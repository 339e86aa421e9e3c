/* redis_greet.h - the commands by which a connection makes itself known: AUTH, SELECT, CLIENT
 * SETNAME. */
#ifndef WR_REMOTE_REDIS_GREET_H
#define WR_REMOTE_REDIS_GREET_H

#include "remote/redis_link.h"

#define WR_REDIS_GREETS_MAX 3
#define WR_REDIS_PASSWORD_MAX 1024 /* bytes of a password file's first line, with a terminator */

struct wr_redis_greets {
    size_t count; /* the last one is CLIENT SETNAME */
    bool auth;    /* and the first one AUTH */
    char *bytes[WR_REDIS_GREETS_MAX];
    size_t len[WR_REDIS_GREETS_MAX];
};

/* Stands for CLIENT SETNAME, which may be refused: a name is for people. */
extern const struct wr_redis_greeting wr_redis_greet_name;

/* Stands for AUTH: a server that does not know the command says so with its arguments, which must
 * reach no log. */
extern const struct wr_redis_greeting wr_redis_greet_auth;

/* |reply| is an error to |greeting| (NULL: of a login): is it a reason to leave? |out|: in words;
 * and of one that is none, why nothing can be decided, or "". */
enum wr_remote_trouble wr_redis_greet_error(const struct wr_redis_greeting *greeting,
                                            const struct redisReply *reply,
                                            char out[WR_REDIS_WHY_MAX]);

/* False: no memory, or the password file cannot be read. Free it in either case. */
bool wr_redis_greets_make(struct wr_redis_greets *greets, const struct wr_redis_login *login);
/* The first line of the file at |path|. False: it cannot be read; |out| is "" then. */
bool wr_redis_read_password(const char *path, char out[WR_REDIS_PASSWORD_MAX]);

void wr_redis_greets_free(struct wr_redis_greets *greets);

#endif
