/* ring_commands.c - the commands that nodes of a ring say to each other; what they mean is in
 * wire/ring.h.
 *
 * Invariants.
 *   1. Before the password, nothing is run but AUTH.
 *   2. A message that makes no sense, or names what is no limit, is answered by an error, and
 *      nothing of it was done. */
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "remote/redis_greet.h"
#include "remote/ring_store.h"

/* ---- the password ---------------------------------------------------------------------------- */

/* In a time that says nothing of where they differ. */
static bool is_equal(struct weir_slice given, const char *password)
{
    size_t len = strlen(password);
    unsigned char differ = given.len != len;

    for (size_t i = 0; i < given.len; i++)
        differ |= (unsigned char)(given.ptr[i] ^ password[len == 0 ? 0 : i % len]);
    return differ == 0 && len > 0;
}

static bool is_password(const struct wr_redis_store *store, struct weir_slice given)
{
    char from_file[WR_REDIS_PASSWORD_MAX];
    bool equal;

    if (store->password_file == NULL)
        return is_equal(given, store->password);
    equal = wr_redis_read_password(store->password_file, from_file) && is_equal(given, from_file);
    explicit_bzero(from_file, sizeof from_file);
    return equal;
}

static void do_auth(struct wr_ring_caller *caller, const struct weir_slice *args, unsigned argc)
{
    struct wr_redis_store *store = caller->ring->store;

    if (argc < 2 || argc > 3) {
        wr_resp_error(&caller->out, "ERR wrong number of arguments for 'auth' command");
    } else if (store->password == NULL && store->password_file == NULL) {
        wr_resp_simple(&caller->out, "OK");
    } else if (is_password(store, args[argc - 1])) {
        caller->known = true;
        wr_resp_simple(&caller->out, "OK");
    } else {
        caller->known = false;
        wr_resp_error(&caller->out, "WRONGPASS invalid password");
    }
}

/* ---- commands -------------------------------------------------------------------------------- */

static void bad_message(struct wr_ring_caller *caller)
{
    wr_resp_error(&caller->out, "ERR not a message of this version of the ring");
}

static void do_hello(struct wr_ring_caller *caller, struct weir_slice message)
{
    char bytes[WR_RING_HELLO_BYTES];
    struct wr_ring_hello hello;

    if (!wr_ring_hello_read(message, &hello)) {
        bad_message(caller);
        return;
    }
    wr_ring_heard(caller->ring, &hello);
    wr_resp_bulk(&caller->out,
                 (struct weir_slice){bytes, wr_ring_hello(caller->ring, bytes, sizeof bytes)});
}

struct names {
    char name[WEIR_LIMITS_MAX][WR_RING_NAME_MAX + 1];
    struct wr_limit limit[WEIR_LIMITS_MAX];
};

/* |key| as a charge whose name and limit lie at |i| of |names|. */
static bool charge_of(const struct wr_ring *ring, const struct wr_ring_key *key,
                      struct names *names, unsigned i, struct wr_remote_charge *out)
{
    memcpy(names->name[i], key->name.ptr, key->name.len);
    names->name[i][key->name.len] = '\0';
    memcpy(&names->limit[i], key->limit, sizeof names->limit[i]);
    *out = (struct wr_remote_charge){.limit = &names->limit[i], .name = names->name[i]};
    memcpy(out->tag, key->tag, sizeof out->tag);
    return ring->owner != NULL && names->limit[i].algo <= WR_CONCURRENCY &&
           wr_owner_valid(ring->owner, &names->limit[i]);
}

static bool question_of(const struct wr_ring *ring, const struct wr_ring_ask *ask,
                        struct names *names, struct wr_ring_question *q)
{
    q->op = ask->op;
    q->regardless = ask->regardless;
    q->nodes = ask->nodes;
    q->count = ask->count;
    q->shadow = 0;
    for (unsigned i = 0; i < ask->count; i++) {
        const struct wr_ring_charge *from = &ask->charge[i];
        struct wr_remote_charge *to = &q->charge[i];
        if (!charge_of(ring, &from->key, names, i, to) || from->cost > 2 * WEIR_COST_MAX ||
            from->extra > WEIR_COST_MAX || from->ttl_ns > WR_WINDOW_MAX_NS)
            return false;
        to->cost = wr_min_i64(from->cost, WEIR_COST_MAX);
        to->extra = from->extra;
        to->ttl_ns = from->ttl_ns;
        to->receipt[0] = from->receipt[0];
        to->receipt[1] = from->receipt[1];
        q->shadow |= (uint32_t)from->shadow << i;
    }
    return true;
}

static void write_answer(struct wr_ring_caller *caller, const struct wr_ring_question *q)
{
    char bytes[WR_RING_ANSWER_BYTES];
    struct wr_ring_answer answer = {.passed = q->passed};

    if (q->op == WR_RING_TAKE || q->op == WR_RING_JUDGE)
        answer.count = q->count;
    for (unsigned i = 0; i < answer.count; i++) {
        const struct wr_remote_charge *c = &q->charge[i];
        answer.verdict[i] = (struct wr_ring_verdict){c->allowed,   c->never,
                                                     c->granted,   c->lease_ns,
                                                     c->remaining, c->retry_after_ns,
                                                     c->delay_ns,  c->next_ns,
                                                     c->reset_ns,  {c->receipt[0], c->receipt[1]}};
    }
    wr_resp_bulk(&caller->out,
                 (struct weir_slice){bytes, wr_ring_answer_write(bytes, sizeof bytes, &answer)});
}

static void do_take(struct wr_ring_caller *caller, struct weir_slice message)
{
    struct wr_ring_ask ask;
    struct wr_ring_question q;
    struct names names;
    char text[WR_REDIS_HOST_MAX + 32];

    if (caller->ring->owner == NULL) {
        wr_resp_error(&caller->out, "LOADING no arena yet");
        return;
    }
    if (!wr_ring_ask_read(message, &ask) || !question_of(caller->ring, &ask, &names, &q)) {
        bad_message(caller);
        return;
    }
    switch (wr_ring_decide(caller->ring, &q)) {
    case WR_RING_DECIDED:
        write_answer(caller, &q);
        break;
    case WR_RING_AGAIN:
        wr_resp_error(&caller->out, "TRYAGAIN a key is on its way");
        break;
    case WR_RING_MOVED:
        (void)snprintf(text, sizeof text, "MOVED 0 %s:%u", q.elsewhere->host,
                       (unsigned)q.elsewhere->port);
        wr_resp_error(&caller->out, text);
        break;
    case WR_RING_UNABLE:
        wr_resp_error(&caller->out, "LOADING no arena yet");
        break;
    }
}

/* Are all of them states that can be taken? */
static bool check_items(const struct wr_ring *ring, struct weir_slice message, bool *moving)
{
    struct wr_ring_item item;
    struct names names;
    struct wr_remote_charge charge;

    *moving = false;
    if (message.len == 0)
        return false;
    while (message.len > 0) {
        if (!wr_ring_item_read(&message, &item) || !charge_of(ring, &item.key, &names, 0, &charge))
            return false;
        *moving = *moving || wr_ring_keys_place(ring->keys, charge.tag) == WR_RING_MOVING;
    }
    return true;
}

static void import(struct wr_ring *ring, struct weir_slice message)
{
    struct wr_ring_item item;
    struct wr_owner_state state;
    struct names names;
    struct wr_remote_charge charge;

    while (message.len > 0 && wr_ring_item_read(&message, &item) &&
           charge_of(ring, &item.key, &names, 0, &charge)) {
        state.now_ns = item.now_ns;
        state.word = item.word;
        state.stamps = item.stamps;
        memcpy(state.stamp, item.stamp, item.stamps * sizeof state.stamp[0]);
        wr_ring_keys_note(ring->keys, &charge);
        wr_owner_import(ring->owner, &charge, &state, wr_ring_now(ring));
    }
}

static void do_put(struct wr_ring_caller *caller, struct weir_slice message)
{
    struct wr_ring *ring = caller->ring;
    bool good, moving;

    if (ring->owner == NULL) {
        wr_resp_error(&caller->out, "LOADING no arena yet");
        return;
    }
    if (wr_ring_is_leaving(ring)) { /* who has not heard of it keeps them */
        wr_resp_error(&caller->out, "TRYAGAIN this node leaves");
        return;
    }
    wr_ring_keys_lock(ring->keys);
    good = check_items(ring, message, &moving);
    if (good && !moving)
        import(ring, message);
    wr_ring_keys_unlock(ring->keys);
    if (!good)
        bad_message(caller);
    else if (moving)
        wr_resp_error(&caller->out, "TRYAGAIN a key is on its way");
    else
        wr_resp_simple(&caller->out, "OK");
}

static void do_synced(struct wr_ring_caller *caller, struct weir_slice id)
{
    char text[WR_RING_ID_MAX + 1];

    if (wr_ring_peer_named(caller->ring, id) == NULL) {
        bad_message(caller);
        return;
    }
    memcpy(text, id.ptr, id.len);
    text[id.len] = '\0';
    wr_ring_keys_synced(caller->ring->keys, text);
    wr_resp_simple(&caller->out, "OK");
}

static bool is_word(struct weir_slice arg, const char *word)
{
    return arg.len == strlen(word) && strncasecmp(arg.ptr, word, arg.len) == 0;
}

void wr_ring_run(struct wr_ring_caller *caller, const struct weir_slice *args, unsigned argc)
{
    static const struct {
        const char *name;
        void (*run)(struct wr_ring_caller *caller, struct weir_slice message);
    } commands[] = {{"WEIR.RING.TAKE", do_take},
                    {"WEIR.RING.HELLO", do_hello},
                    {"WEIR.RING.PUT", do_put},
                    {"WEIR.RING.SYNCED", do_synced}};

    if (is_word(args[0], "AUTH")) {
        do_auth(caller, args, argc);
        return;
    }
    if (!caller->known) {
        wr_resp_error(&caller->out, "NOAUTH Authentication required.");
        return;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0] && argc == 2; i++)
        if (is_word(args[0], commands[i].name)) {
            commands[i].run(caller, args[1]);
            return;
        }
    if (is_word(args[0], "PING"))
        wr_resp_simple(&caller->out, "PONG");
    else if (is_word(args[0], "CLIENT"))
        wr_resp_simple(&caller->out, "OK");
    else
        wr_resp_error(&caller->out, "ERR unknown command; this is the port of weir's ring");
}
