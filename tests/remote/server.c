/* server.c - start a redis-server, wait until it answers, end it. */
#include "server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SKIPPED 77
#define TRIES 600 /* of 50 ms: the machine may be busy */

static void nap(void)
{
    (void)nanosleep(&(struct timespec){0, 50000000}, NULL);
}

static void be_redis(const struct server *server)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (freopen("/dev/null", "w", stdout) == NULL)
        _exit(1);
    (void)execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", server->socket,
                 "--dir", server->directory, "--save", "", "--appendonly", "no", (char *)NULL);
    _exit(SKIPPED);
}

redisContext *server_connect(const struct server *server)
{
    redisContext *c = redisConnectUnix(server->socket);

    if (c != NULL && c->err == 0)
        return c;
    if (c != NULL)
        redisFree(c);
    return NULL;
}

void server_start(struct server *server)
{
    (void)snprintf(server->directory, sizeof server->directory, "/tmp/weir-redis-XXXXXX");
    if (mkdtemp(server->directory) == NULL)
        exit(1);
    (void)snprintf(server->socket, sizeof server->socket, "%s/redis.sock", server->directory);
    server->pid = fork();
    if (server->pid == 0)
        be_redis(server);
    for (int i = 0; i < TRIES; i++) {
        redisContext *c = server_connect(server);
        int status;

        if (c != NULL) {
            redisFree(c);
            return;
        }
        if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
            bool missing = WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
            (void)fprintf(stderr, missing ? "SKIPPED: no redis-server\n" : "redis-server ended\n");
            (void)rmdir(server->directory);
            exit(missing ? SKIPPED : 1);
        }
        nap();
    }
    (void)fprintf(stderr, "redis-server does not answer\n");
    server_stop(server);
    exit(1);
}

void server_stop(struct server *server)
{
    (void)kill(server->pid, SIGKILL);
    (void)waitpid(server->pid, NULL, 0);
    (void)unlink(server->socket);
    (void)rmdir(server->directory);
}
