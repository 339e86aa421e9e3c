/* server.h - a real redis-server of a test's own: on a unix socket in a directory of its own, no
 * port, nothing saved. Ended with the test, also where that is killed. */
#ifndef TESTS_REMOTE_SERVER_H
#define TESTS_REMOTE_SERVER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/types.h>

struct server {
    pid_t pid;
    char directory[64];
    char socket[80];
};

/* Ends the test with exit status 77 (skipped) where there is no redis-server. */
void server_start(struct server *server);
void server_stop(struct server *server);
redisContext *server_connect(const struct server *server);

#endif
