/* memcached_link.h - one connection to one memcached server: commands out, replies in order, until
 * it is lost; then another one, when its breaker says so. */
#ifndef WR_REMOTE_MEMCACHED_LINK_H
#define WR_REMOTE_MEMCACHED_LINK_H

#include <uv.h>

#include "engine/backend.h"
#include "policy/policy.h"
#include "wire/memcached.h"

struct wr_mc_link;

/* The reply to the command that was sent with |job| and |what|. |reply| NULL: the connection is
 * lost, and it is not known whether the command was run. False: it makes no sense; the connection
 * is given up. */
typedef bool (*wr_mc_reply_fn)(void *job, unsigned what, enum wr_mc_step step,
                               const struct wr_mc_reply *reply);

struct wr_mc_link_options {
    uv_loop_t *loop;
    const struct wr_policy_address *address; /* borrowed */
    int64_t deadline_ns;                     /* to connect */
    wr_mc_reply_fn reply;
    void (*changed)(void *owner); /* it is up, or lost */
    void (*closed)(void *owner);  /* after wr_mc_link_close, in a later turn: it is freed */
    void *owner;
};

/* Begins to connect. NULL: out of memory. */
struct wr_mc_link *wr_mc_link_open(const struct wr_mc_link_options *options);

/* May it be sent to? Otherwise why not: CONNECT, it may be in a moment, or BREAKER. */
enum wr_remote_trouble wr_mc_link_trouble(const struct wr_mc_link *link);
/* How long until it is tried again; 0: it is not left alone. */
int64_t wr_mc_link_retry_ns(const struct wr_mc_link *link);
/* For people: why it is not connected; "" where it is. */
const char *wr_mc_link_detail(const struct wr_mc_link *link);

/* Where commands are put together, with room for |commands| of them; what is sent in one turn of
 * the loop is written at its end, at once. NULL: too much is under way. */
struct wr_mc_out *wr_mc_link_begin(struct wr_mc_link *link, unsigned commands);
/* One more command was appended: its reply goes to |job|. NULL: nobody wants it. */
void wr_mc_link_expect(struct wr_mc_link *link, void *job, unsigned what);

/* Have all replies come? */
bool wr_mc_link_is_idle(const struct wr_mc_link *link);

/* A command was not answered in time. */
void wr_mc_link_failed(struct wr_mc_link *link, int64_t now_ns);
void wr_mc_link_close(struct wr_mc_link *link);

#endif
