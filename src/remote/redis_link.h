/* redis_link.h - one connection to one Redis server: found by name, connected, greeted, then
 * commands in and replies out, in order, until it is lost.
 *
 *   resolving -> connecting -> greeting -> up [-> parting] -> lost
 *
 * Each stage before up has a deadline of its own; a command has none: its sender keeps time. What
 * is sent in one turn of the loop is written at the turn's end, at once (not what is sent from
 * inside another uv_prepare callback: that waits for the next event). */
#ifndef WR_REMOTE_REDIS_LINK_H
#define WR_REMOTE_REDIS_LINK_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "engine/backend.h"
#include "policy/policy.h"
#include "remote/redis_reply.h"

#define WR_REDIS_WHY_MAX 128 /* bytes of why something failed, with its terminator */

struct wr_redis_link;

struct wr_redis_address {
    const char *host; /* address or name; NULL: path */
    uint16_t port;
    const char *path; /* of a unix socket */
};

static inline struct wr_redis_address wr_redis_address_of(const struct wr_policy_address *address)
{
    return (struct wr_redis_address){address->host, address->port, address->path};
}

/* How to make oneself known. NULL: not said. */
struct wr_redis_login {
    const char *user, *password, *password_file; /* the file is read at each connection */
    unsigned database;
};

/* |reply| is borrowed. NULL: the connection is lost, and it is not known whether the command was
 * run. */
typedef void (*wr_redis_reply_fn)(void *context, struct wr_redis_link *link,
                                  const struct redisReply *reply);

/* A command that is part of the greeting. |check| returns NULL where the reply is what it must be,
 * else why not; NULL: any reply but an error. A |trial| ends nothing: what it says is told. */
struct wr_redis_greeting {
    const char *bytes;
    size_t len;
    const char *(*check)(const struct redisReply *reply);
    bool trial;
};

/* What an owner hears. |lost|: all commands were answered by NULL before; the link is freed by
 * itself. */
struct wr_redis_link_events {
    void (*up)(void *owner, struct wr_redis_link *link);
    void (*lost)(void *owner, struct wr_redis_link *link, enum wr_remote_trouble trouble,
                 const char *why);
    void (*pushed)(void *owner, const struct redisReply *message); /* NULL: none are expected */
};

struct wr_redis_link_spec {
    const struct wr_redis_link_events *events;
    void *owner;
    struct wr_redis_address address; /* borrowed while it is open, as are login and greeting */
    const struct wr_redis_login *login;
    const struct wr_redis_greeting *greeting;
    size_t greeting_count;
    int64_t stage_ns; /* deadline of each stage */
};

/* Begin to connect; the rest is told by events, never from within. NULL: out of memory. */
struct wr_redis_link *wr_redis_link_open(uv_loop_t *loop, const struct wr_redis_link_spec *spec);

bool wr_redis_link_is_up(const struct wr_redis_link *link);

/* Of one that has come up: why nothing can be decided there, by the trial; NULL: it can. */
const char *wr_redis_link_trial(const struct wr_redis_link *link);

/* Commands that are not answered yet, and how many were sent before. */
size_t wr_redis_link_pending(const struct wr_redis_link *link);
uint64_t wr_redis_link_sent(const struct wr_redis_link *link);

/* Send |len| bytes, one command in RESP, of a link that is up. False: it is not, or out of memory;
 * then |fn| is not called. */
bool wr_redis_link_send(struct wr_redis_link *link, const char *bytes, size_t len,
                        wr_redis_reply_fn fn, void *context);

/* Answer what is under way by NULL, and close, without event. Frees the link in later turns. */
void wr_redis_link_close(struct wr_redis_link *link);

/* As close, but what was sent reaches the server if it reads it within the deadline of a stage. */
void wr_redis_link_part(struct wr_redis_link *link);

/* Somebody else hears of it from now on. */
void wr_redis_link_adopt(struct wr_redis_link *link, const struct wr_redis_link_events *events,
                         void *owner);

#endif
