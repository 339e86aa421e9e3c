/* redis_greet.c - who we are.
 *
 * The password file is read at every connection, so that a password can be changed on both sides
 * without a restart; it is a small local file, which a loop may read. Its first line counts. */
#include "remote/redis_greet.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct wr_redis_greeting wr_redis_greet_name = {0};
const struct wr_redis_greeting wr_redis_greet_auth = {0};

static bool add(struct wr_redis_greets *greets, int argc, const char **argv)
{
    char *bytes = NULL;
    int len = redisFormatCommandArgv(&bytes, argc, argv, NULL);

    if (len < 0)
        return false;
    greets->bytes[greets->count] = bytes;
    greets->len[greets->count++] = (size_t)len;
    return true;
}

bool wr_redis_read_password(const char *path, char out[WR_REDIS_PASSWORD_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    struct stat st;
    FILE *file = NULL;
    bool ok;

    out[0] = '\0';
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        file = fdopen(fd, "r");
    if (file == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    ok = fgets(out, WR_REDIS_PASSWORD_MAX, file) != NULL;
    (void)fclose(file);
    out[strcspn(out, "\r\n")] = '\0';
    return ok;
}

static bool add_auth(struct wr_redis_greets *greets, const struct wr_redis_login *login)
{
    char from_file[WR_REDIS_PASSWORD_MAX];
    const char *password = login->password;
    bool ok;

    if (login->password_file != NULL) {
        if (!wr_redis_read_password(login->password_file, from_file))
            return false;
        password = from_file;
    }
    if (password == NULL)
        return true;
    if (login->user == NULL)
        ok = add(greets, 2, (const char *[]){"AUTH", password});
    else
        ok = add(greets, 3, (const char *[]){"AUTH", login->user, password});
    explicit_bzero(from_file, sizeof from_file);
    greets->auth = ok;
    return ok;
}

bool wr_redis_greets_make(struct wr_redis_greets *greets, const struct wr_redis_login *login)
{
    char database[16];

    *greets = (struct wr_redis_greets){0};
    if (!add_auth(greets, login))
        return false;
    (void)snprintf(database, sizeof database, "%u", login->database);
    if (login->database != 0 && !add(greets, 2, (const char *[]){"SELECT", database}))
        return false;
    return add(greets, 3, (const char *[]){"CLIENT", "SETNAME", "weir"});
}

void wr_redis_greets_free(struct wr_redis_greets *greets)
{
    for (size_t i = 0; i < greets->count; i++) {
        explicit_bzero(greets->bytes[i], greets->len[i]);
        redisFreeCommand(greets->bytes[i]);
    }
    greets->count = 0;
}

/* Of what is said to AUTH only the first word is told on, the error's code. What a server says that
 * has no room for us is no answer to the first command: it closes behind it. */
enum wr_remote_trouble wr_redis_greet_error(const struct wr_redis_greeting *greeting,
                                            const struct redisReply *reply,
                                            char out[WR_REDIS_WHY_MAX])
{
    enum wr_remote_trouble trouble = wr_redis_trouble_of(wr_redis_error_of(reply->str, reply->len));
    bool busy = trouble == WR_TROUBLE_BUSY;

    out[0] = '\0';
    if (greeting == &wr_redis_greet_name && !busy)
        return WR_TROUBLE_NONE;
    if (greeting == &wr_redis_greet_auth && !busy) {
        (void)snprintf(out, WR_REDIS_WHY_MAX, "AUTH: %.*s", (int)strcspn(reply->str, " "),
                       reply->str);
        return WR_TROUBLE_DENIED;
    }
    if (greeting == NULL || !greeting->trial || busy)
        (void)snprintf(out, WR_REDIS_WHY_MAX, "%s", reply->str);
    return greeting != NULL && greeting->trial ? WR_TROUBLE_NONE : trouble;
}
