/* reservations.c - answers that wait to be settled or released.
 *
 * Idea. Chained hash tables of fixed size, a stripe each under its mutex; a name's first bytes say
 * which. A name is 64 random bits and their hash under a secret of this process: so a name that is
 * no longer remembered is told apart from one that was never given out, without remembering it.
 * Each put sweeps a few chains for what has expired; a full stripe is swept whole.
 *
 * Invariants:
 *   1. An entry holds a reference on the policy it was decided under.
 *   2. Nothing is settled or released after its time: its places free themselves.
 *   3. An entry is counted by its caller from before it is in the table until it is freed. Callers
 *      are told apart by a hash under the secret, of a few bits: those who share a number, which
 *      nobody can arrange, share a share. */
#include "serve/reservations.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/hex.h"
#include "base/ipaddr.h"
#include "base/siphash.h"
#include "lib/handle.h"
#include "serve/broker.h"
#include "serve/log.h"

#define STRIPES 64U
#define SWEEP_CHAINS 2U
#define CALLERS 4096U
#define NOBODY CALLERS /* counted by no caller's number */
#define SHARE 4U       /* of the table: what one caller may have */
#define SAY_EVERY_S 10

struct entry {
    struct entry *next;
    uint64_t nonce;
    struct wr_handle *handle;
    int64_t expires_ns;
    uint32_t caller;
    struct weir_answer answer;
};

struct stripe {
    pthread_mutex_t mutex;
    struct entry **chains;
    size_t count;
    size_t swept; /* the chain to be swept next */
};

struct wr_reservations {
    struct wr_sip_key secret;
    size_t chains;            /* of a stripe, and at most as many entries */
    size_t open;              /* atomic */
    int64_t said_s;           /* atomic; when it was last said that more are refused */
    uint32_t of[CALLERS + 1]; /* atomic */
    struct stripe stripe[STRIPES];
};

struct wr_reservations *wr_reservations_new(size_t most)
{
    struct wr_reservations *table = calloc(1, sizeof *table);
    bool good =
        table != NULL && getrandom(&table->secret, sizeof table->secret, 0) == sizeof table->secret;

    if (table == NULL)
        return NULL;
    table->chains = (most + STRIPES - 1) / STRIPES;
    for (unsigned i = 0; i < STRIPES; i++) {
        (void)pthread_mutex_init(&table->stripe[i].mutex, NULL);
        table->stripe[i].chains = calloc(table->chains, sizeof(struct entry *));
        good = good && table->stripe[i].chains != NULL;
    }
    if (good)
        return table;
    wr_reservations_free(table);
    return NULL;
}

static void free_entry(struct wr_reservations *table, struct entry *entry)
{
    (void)__atomic_sub_fetch(&table->of[entry->caller], 1, __ATOMIC_RELAXED);
    (void)__atomic_sub_fetch(&table->open, 1, __ATOMIC_RELAXED);
    wr_handle_unref(entry->handle);
    free(entry);
}

void wr_reservations_free(struct wr_reservations *table)
{
    if (table == NULL)
        return;
    for (unsigned i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &table->stripe[i];
        for (size_t c = 0; stripe->chains != NULL && c < table->chains; c++) {
            while (stripe->chains[c] != NULL) {
                struct entry *entry = stripe->chains[c];
                stripe->chains[c] = entry->next;
                free_entry(table, entry);
            }
        }
        free(stripe->chains);
        (void)pthread_mutex_destroy(&stripe->mutex);
    }
    free(table);
}

/* ---- names ------------------------------------------------------------------------------- */

static uint64_t seal(const struct wr_reservations *table, uint64_t nonce)
{
    struct wr_sip sip = wr_sip_init(table->secret);

    wr_sip_part(&sip, 0, &nonce, sizeof nonce);
    return wr_sip_finish(sip);
}

/* Was |id| given out by this table? */
static bool parse_id(const struct wr_reservations *table, const char *id, uint64_t *nonce)
{
    uint64_t sealed;

    return strnlen(id, WR_RESERVATION_ID + 1) == WR_RESERVATION_ID && wr_hex_read_u64(id, nonce) &&
           wr_hex_read_u64(id + WR_HEX_U64, &sealed) && sealed == seal(table, *nonce);
}

static struct stripe *stripe_of(struct wr_reservations *table, uint64_t nonce)
{
    return &table->stripe[nonce % STRIPES];
}

static struct entry **find(const struct wr_reservations *table, struct stripe *stripe,
                           uint64_t nonce)
{
    struct entry **at = &stripe->chains[nonce / STRIPES % table->chains];

    while (*at != NULL && (*at)->nonce != nonce)
        at = &(*at)->next;
    return at;
}

/* ---- putting ----------------------------------------------------------------------------- */

/* Take what has expired out of |chains| chains; it is put on |*gone|, to be freed outside. */
static void sweep(const struct wr_reservations *table, struct stripe *stripe, size_t chains,
                  int64_t now_ns, struct entry **gone)
{
    for (size_t i = 0; i < chains; i++) {
        struct entry **at = &stripe->chains[stripe->swept];
        stripe->swept = (stripe->swept + 1) % table->chains;
        while (*at != NULL) {
            struct entry *entry = *at;
            if (entry->expires_ns > now_ns) {
                at = &entry->next;
                continue;
            }
            *at = entry->next;
            stripe->count--;
            entry->next = *gone;
            *gone = entry;
        }
    }
}

static void free_all(struct wr_reservations *table, struct entry *entry)
{
    while (entry != NULL) {
        struct entry *next = entry->next;
        free_entry(table, entry);
        entry = next;
    }
}

static size_t share(const struct wr_reservations *table)
{
    size_t share = wr_reservations_most(table) / SHARE;

    return share > 0 ? share : 1;
}

static int insert(struct wr_reservations *table, struct entry *entry, int64_t now_ns)
{
    struct stripe *stripe = stripe_of(table, entry->nonce);
    struct entry *gone = NULL, **at;
    bool greedy = entry->caller != NOBODY &&
                  __atomic_load_n(&table->of[entry->caller], __ATOMIC_RELAXED) > share(table);
    int result = WEIR_EFULL;

    (void)pthread_mutex_lock(&stripe->mutex);
    sweep(table, stripe, stripe->count < table->chains && !greedy ? SWEEP_CHAINS : table->chains,
          now_ns, &gone);
    (void)pthread_mutex_unlock(&stripe->mutex);
    free_all(table, gone);
    if (entry->caller != NOBODY &&
        __atomic_load_n(&table->of[entry->caller], __ATOMIC_RELAXED) > share(table))
        return WEIR_EFULL;
    (void)pthread_mutex_lock(&stripe->mutex);
    at = find(table, stripe, entry->nonce);
    if (stripe->count < table->chains && *at == NULL) {
        *at = entry;
        stripe->count++;
        result = 0;
    }
    (void)pthread_mutex_unlock(&stripe->mutex);
    return result;
}

/* The number of who asks from |peer|. */
static uint32_t caller_of(const struct wr_reservations *table, const char *peer)
{
    struct wr_sip sip = wr_sip_init(table->secret);
    struct wr_ip ip;

    if (peer == NULL)
        return NOBODY;
    if (!wr_ip_parse((struct weir_slice){peer, strlen(peer)}, &ip))
        memset(&ip, 0, sizeof ip); /* a unix socket */
    else if (!wr_ip_is_v4(&ip))
        memset(ip.bytes + 8, 0, 8);
    wr_sip_part(&sip, 1, ip.bytes, sizeof ip.bytes);
    return (uint32_t)(wr_sip_finish(sip) % CALLERS);
}

static void say_full(struct wr_reservations *table, const char *peer)
{
    int64_t now_s = (int64_t)time(NULL), said_s = __atomic_load_n(&table->said_s, __ATOMIC_RELAXED);

    if (now_s - said_s >= SAY_EVERY_S &&
        __atomic_compare_exchange_n(&table->said_s, &said_s, now_s, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
        wr_log(WR_LOG_WARNING, "reservations refused",
               wr_log_number("open", (int64_t)wr_reservations_open(table)),
               wr_log_number("most", (int64_t)wr_reservations_most(table)),
               wr_log_number("most_of_one_peer", (int64_t)share(table)),
               wr_log_text("peer", peer != NULL ? peer : "agent"));
}

int wr_reservations_put(struct wr_reservations *table, struct wr_handle *handle,
                        const struct weir_answer *answer, int64_t expires_ns, const char *peer,
                        char id[WR_RESERVATION_ID + 1])
{
    struct entry *entry = malloc(sizeof *entry);
    uint64_t nonce;

    id[0] = '\0';
    if (entry == NULL || getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) {
        free(entry);
        return WEIR_EFULL;
    }
    *entry = (struct entry){.nonce = nonce,
                            .handle = handle,
                            .expires_ns = expires_ns,
                            .caller = caller_of(table, peer),
                            .answer = *answer};
    (void)__atomic_add_fetch(&table->of[entry->caller], 1, __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&table->open, 1, __ATOMIC_RELAXED);
    wr_hex_write_u64(id, nonce);
    wr_hex_write_u64(id + WR_HEX_U64, seal(table, nonce));
    id[WR_RESERVATION_ID] = '\0';
    wr_handle_ref(handle); /* before another thread can find it */
    if (insert(table, entry, answer->decided_ns) == 0)
        return 0;
    id[0] = '\0';
    free_entry(table, entry);
    say_full(table, peer);
    return WEIR_EFULL;
}

size_t wr_reservations_open(const struct wr_reservations *table)
{
    return __atomic_load_n(&table->open, __ATOMIC_RELAXED);
}

size_t wr_reservations_most(const struct wr_reservations *table)
{
    return table->chains * STRIPES;
}

/* ---- ending ------------------------------------------------------------------------------ */

/* What is to be done at the store is handed on at once: it speaks of the entry's policy. */
static int settle(struct entry *entry, struct wr_loop *loop, int64_t cost, int status,
                  int64_t now_ns)
{
    struct wr_engine *engine = entry->handle->weir->engine;
    struct wr_pending pending;
    int result = wr_engine_settle_shared(engine, &entry->answer, cost, now_ns, &pending);

    wr_broker_adjust(loop, entry->handle, &pending);
    if (result != 0 || status == 0)
        return result;
    wr_engine_ended_shared(engine, &entry->answer, status, now_ns, &pending);
    wr_broker_adjust(loop, entry->handle, &pending);
    return 0;
}

static void release(struct entry *entry, struct wr_loop *loop, int64_t now_ns)
{
    struct wr_pending pending;

    wr_engine_release_shared(entry->handle->weir->engine, &entry->answer, now_ns, &pending);
    wr_broker_adjust(loop, entry->handle, &pending);
}

int wr_reservations_settle(struct wr_reservations *table, struct wr_loop *loop, const char *id,
                           int64_t cost, int status, int64_t now_ns)
{
    uint64_t nonce;
    struct stripe *stripe;
    struct entry *entry;
    int result = WEIR_EEXPIRED;

    if (!parse_id(table, id, &nonce))
        return WEIR_ENOENT;
    stripe = stripe_of(table, nonce);
    (void)pthread_mutex_lock(&stripe->mutex);
    entry = *find(table, stripe, nonce);
    if (entry != NULL && entry->expires_ns > now_ns)
        result = settle(entry, loop, cost, status, now_ns);
    (void)pthread_mutex_unlock(&stripe->mutex);
    return result;
}

int wr_reservations_release(struct wr_reservations *table, struct wr_loop *loop, const char *id,
                            int64_t now_ns)
{
    uint64_t nonce;
    struct stripe *stripe;
    struct entry **at, *entry;

    if (!parse_id(table, id, &nonce))
        return WEIR_ENOENT;
    stripe = stripe_of(table, nonce);
    (void)pthread_mutex_lock(&stripe->mutex);
    at = find(table, stripe, nonce);
    entry = *at;
    if (entry != NULL) {
        *at = entry->next;
        stripe->count--;
    }
    (void)pthread_mutex_unlock(&stripe->mutex);
    if (entry == NULL)
        return WEIR_EEXPIRED;
    if (entry->expires_ns <= now_ns) {
        free_entry(table, entry);
        return WEIR_EEXPIRED;
    }
    release(entry, loop, now_ns);
    free_entry(table, entry);
    return 0;
}
