/* memcached_charge.h - one charge at memcached: its keys, its commands, and what the replies come
 * to.
 *
 * Two ways, by algorithm:
 *
 *   counts  windows: a number a window, added to by `ma`; one round trip, whoever else counts
 * there. What turns out to be too much is taken off again. words   buckets: the word of the
 * algorithm as in an arena, changed by CAS; read, compute, store, and anew if somebody else was
 * first.
 *
 * Both are judged by the algorithms themselves (struct wr_word_algo), so verdicts are those of an
 * arena. Pure: no I/O. */
#ifndef WR_REMOTE_MEMCACHED_CHARGE_H
#define WR_REMOTE_MEMCACHED_CHARGE_H

#include "engine/backend.h"
#include "wire/memcached.h"

/* Clocks of nodes may be apart by this much before a counter is gone too early. */
#define WR_MC_SKEW_S 60

/* What one reply is to be read as. */
enum wr_mc_want {
    WR_MC_WANT_COUNT,    /* of the current window */
    WR_MC_WANT_PREVIOUS, /* of the window before */
    WR_MC_WANT_WORD,
    WR_MC_WANT_STORED, /* was the word stored? */
    WR_MC_WANT_NOTHING,
};

struct wr_mc_charge {
    struct wr_remote_charge *asked;
    struct wr_limit limit;  /* as it is held there: of a leased bucket, a smaller one */
    uint64_t index;         /* counts: of the window that now lies in */
    int64_t end_ns;         /* counts: when it ends */
    uint64_t count, before; /* counts: of this window without us, of the one before */
    uint64_t word;          /* as the algorithm sees it */
    uint64_t cas;           /* words: 0: there was nothing */
    uint64_t left;          /* words: to be stored */
    bool added;             /* counts: cost + extra are in the count */
    bool stored;            /* words: it is done, or nothing is to be */
};

/* Can memcached hold the state of |limit|? Lists of stamps it cannot. */
bool wr_mc_holds(const struct wr_limit *limit);

/* Is it counted, rather than held as a word? */
bool wr_mc_is_count(const struct wr_limit *limit);

/* Begin |asked| at |now_ns|. */
void wr_mc_charge_begin(struct wr_mc_charge *charge, struct wr_remote_charge *asked,
                        int64_t now_ns);

/* Append the first commands; |want| gets what their replies are, at most 2. Returns how many. */
unsigned wr_mc_charge_ask(const struct wr_mc_charge *charge, const char *prefix, int64_t now_ns,
                          struct wr_mc_out *out, enum wr_mc_want want[2]);

/* Take a reply in. False: it makes no sense. */
bool wr_mc_charge_hear(struct wr_mc_charge *charge, enum wr_mc_want want, enum wr_mc_step step,
                       const struct wr_mc_reply *reply, int64_t now_ns);

/* All replies are in: write the verdict into charge->asked, as if the others allow it. |nodes|
 * share what is left. */
void wr_mc_charge_judge(struct wr_mc_charge *charge, unsigned nodes, int64_t now_ns);

/* Append what makes an allowed charge so: of a word, the CAS. Returns the number of commands, whose
 * replies are WR_MC_WANT_STORED; or WR_MC_WANT_NOTHING for counts, of which only what was not
 * granted is taken off. */
unsigned wr_mc_charge_commit(struct wr_mc_charge *charge, const char *prefix, int64_t now_ns,
                             struct wr_mc_out *out, enum wr_mc_want *want);

/* Append what undoes whatever was taken of it. Counts: a command. Words: the caller gives back by
 * wr_mc_charge_change. */
unsigned wr_mc_charge_undo(struct wr_mc_charge *charge, const char *prefix, struct wr_mc_out *out);

/* ---- afterwards ---------------------------------------------------------------------------- */

enum wr_mc_change { WR_MC_REFUND, WR_MC_FORCE, WR_MC_DROP };

/* Append a change of |units| to what |asked| (taken before, with its receipt) lies at. Counts and
 * drops are done with that. Returns false where the word has to be read first (wr_mc_charge_ask),
 * and changed by wr_mc_charge_apply. */
bool wr_mc_charge_change(struct wr_mc_charge *charge, enum wr_mc_change change, int64_t units,
                         const char *prefix, int64_t now_ns, struct wr_mc_out *out);
void wr_mc_charge_apply(struct wr_mc_charge *charge, enum wr_mc_change change, int64_t units,
                        int64_t now_ns);

/* Writes the key of the word, or of the count of the window numbered |index|; returns its length,
 * at most WR_MC_KEY_MAX. */
size_t wr_mc_charge_key(const struct wr_mc_charge *charge, const char *prefix, uint64_t index,
                        char *out);

#endif
