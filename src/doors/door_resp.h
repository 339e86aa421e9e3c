/* door_resp.h - what the files of the RESP door share: a session, a batch of its commands. */
#ifndef WR_DOORS_DOOR_RESP_H
#define WR_DOORS_DOOR_RESP_H

#include "engine/throttle.h"
#include "serve/asks.h"
#include "serve/stream_door.h"
#include "wire/resp.h"

#define WR_RESP_BATCH 64              /* commands whose cache misses overlap */
#define WR_RESP_OUT_BYTES 65536U      /* replies put together before they are handed on */
#define WR_RESP_REPLY_MAX 6144U       /* bytes of any reply but what echoes an argument */
#define WR_RESP_NAME_MAX 64U          /* bytes of CLIENT SETNAME that are kept */
#define WR_RESP_OUTPUT_MAX (1U << 20) /* unsent bytes at which a session is read no more */

struct wr_resp_door {
    struct wr_stream_door stream;
    struct wr_loop *loop;
    uint64_t next_id;
    uint64_t generation; /* of the policy that |throttle| was made under; 0: of none */
    struct wr_throttle throttle;
    unsigned last_limit; /* the limit named last: most callers name one */
    char out[WR_RESP_OUT_BYTES];
    char scratch[WR_RESP_INLINE_MAX];
};
WR_STREAM_DOOR(struct wr_resp_door);

struct wr_resp_session {
    struct wr_conn *conn;
    struct wr_resp_door *door;
    struct wr_asks asks;
    struct wr_resp_out out; /* its bytes are the door's: empty between reads */
    uint64_t id;
    bool authenticated;
    bool quitting; /* nothing behind this command is looked at */
    uint8_t name_len;
    char name[WR_RESP_NAME_MAX];
};

/* A command of a batch. */
struct wr_resp_call {
    const struct wr_resp_row *row; /* NULL: unknown */
    const struct weir_slice *args; /* args[0] is the name */
    unsigned argc;
    bool prepared; /* its arguments are good and its key is being fetched */
    size_t end;    /* where it ends in the input */
    union {
        struct {
            uint64_t hash;
            struct wr_throttle_rate rate;
        } throttle;
        struct weir_charge check;
    } as;
};

/* A row of the table of commands. */
struct wr_resp_row {
    const char *name; /* in capitals */
    uint8_t len;
    int8_t arity; /* arguments with the name; negative: at least that many */
    bool early;   /* allowed before AUTH */
    bool keyed;   /* its first argument but the name is a key; else none is */
    void (*prepare)(struct wr_resp_session *session, struct wr_resp_call *call); /* NULL: nothing */
    void (*run)(struct wr_resp_session *session, const struct wr_resp_call *call);
    /* Have decided what it decides; false: the store is asked. NULL: it decides nothing. */
    bool (*ask)(struct wr_resp_session *session, const struct wr_resp_call *call);
};

extern const struct wr_resp_row wr_resp_rows[];
extern const size_t wr_resp_row_count;

/* The row of a command, or NULL. */
const struct wr_resp_row *wr_resp_find(struct weir_slice name);

/* Does the argument say |word| (in capitals), in any case? */
bool wr_resp_is(struct weir_slice arg, const char *word);

/* May the session call everything? */
bool wr_resp_trusted(const struct wr_resp_session *session);

/* Hand what is written to the connection. */
void wr_resp_flush(struct wr_resp_session *session);

/* door_resp_commands.c: what clients say to get to know each other. */
void wr_resp_unknown(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_ping(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_echo(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_hello(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_auth(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_client(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_select(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_info(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_command(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_quit(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_reset(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_time(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_cluster(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_config(struct wr_resp_session *session, const struct wr_resp_call *call);

/* door_resp_throttle.c, door_resp_limits.c: decisions. */
void wr_resp_throttle_prepare(struct wr_resp_session *session, struct wr_resp_call *call);
void wr_resp_throttle(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_check_prepare(struct wr_resp_session *session, struct wr_resp_call *call);
void wr_resp_check(struct wr_resp_session *session, const struct wr_resp_call *call);
/* The first |count| of |calls|, all prepared by wr_resp_check_prepare, at once. */
void wr_resp_check_run(struct wr_resp_session *session, const struct wr_resp_call *calls,
                       unsigned count);
/* The same by leases, where a store may have to be asked. Returns as wr_asks_check_all: |count|,
 * and they are answered. */
unsigned wr_resp_check_leased(struct wr_resp_session *session, const struct wr_resp_call *calls,
                              unsigned count);
void wr_resp_peek(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_reserve(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_settle(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_release(struct wr_resp_session *session, const struct wr_resp_call *call);
void wr_resp_forget(struct wr_resp_session *session, const struct wr_resp_call *call);
bool wr_resp_check_ask(struct wr_resp_session *session, const struct wr_resp_call *call);
bool wr_resp_peek_ask(struct wr_resp_session *session, const struct wr_resp_call *call);
bool wr_resp_reserve_ask(struct wr_resp_session *session, const struct wr_resp_call *call);

#endif
