/* memcached_job.c - a call over several charges, all or none, without a transaction to do it in.
 *
 *   ask      all charges of a call at once: counts are added to, words are read
 *   judge    when all have answered: if one that is enforced refuses, undo; else
 *   store    the words, by CAS; where somebody else was first, ask anew for those, until the
 *            deadline
 *
 * Invariants.
 *   1. A call that refuses, or that nobody waits for any more, keeps nothing: what was added is
 * taken off, what was stored is given back, as soon as the answers are in. In between others may be
 *      refused what would have been theirs; nobody is admitted beyond.
 *   2. A job lives until all its replies have come, whether or not its call has been answered.
 *   3. Jobs of one loop whose words are the same take turns (store.holders), or they would fight
 * for the CAS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "remote/memcached_store.h"

#define TRIES_MAX 255U /* counted up to here */

static void advance(struct wr_mc_job *job);
static void ask(struct wr_mc_job *job, uint32_t which);

/* ---- jobs ---------------------------------------------------------------------------------- */

struct wr_mc_job *wr_mc_job_new(struct wr_mc_store *store, unsigned count, enum wr_mc_op op)
{
    struct wr_mc_job *job;

    if (store->job_count >= WR_MC_JOBS_MAX)
        return NULL;
    job = calloc(1, sizeof *job + count * sizeof job->item[0]);
    if (job == NULL)
        return NULL;
    job->store = store;
    job->op = (uint8_t)op;
    job->count = (uint8_t)count;
    job->due_ns = (int64_t)uv_hrtime() + store->deadline_ns;
    job->previous = store->last;
    *(store->last != NULL ? &store->last->next : &store->first) = job;
    store->last = job;
    job->timed = true;
    store->job_count++;
    return job;
}

void wr_mc_job_untime(struct wr_mc_job *job)
{
    struct wr_mc_store *store = job->store;

    if (!job->timed)
        return;
    job->timed = false;
    *(job->previous != NULL ? &job->previous->next : &store->first) = job->next;
    *(job->next != NULL ? &job->next->previous : &store->last) = job->previous;
}

void wr_mc_job_set(struct wr_mc_job *job, unsigned i, const struct wr_remote_charge *charge,
                   struct wr_mc_link *link)
{
    struct wr_sip sip = job->store->server[0];
    struct wr_mc_item *item = &job->item[i];

    item->copy = *charge;
    item->limit = *charge->limit;
    (void)snprintf(item->name, sizeof item->name, "%s", charge->name);
    item->copy.limit = &item->limit;
    item->copy.name = item->name;
    item->link = link;
    wr_sip_part(&sip, 1, charge->tag, WR_TAG_BYTES);
    wr_sip_part(&sip, 1, item->name, strlen(item->name));
    item->slot = (uint16_t)(wr_sip_finish(sip) % WR_MC_WORD_SLOTS);
}

/* The caller hears how it ended. */
void wr_mc_job_answer(struct wr_mc_job *job, enum wr_remote_result result,
                      enum wr_remote_trouble trouble)
{
    struct wr_remote_call *call = job->call;

    if (call == NULL)
        return;
    job->call = NULL;
    for (unsigned i = 0; i < job->count && result == WR_REMOTE_DONE; i++) {
        const struct wr_limit *limit = call->charge[i].limit; /* the caller's, not our copies */
        const char *name = call->charge[i].name;
        call->charge[i] = job->item[i].copy;
        call->charge[i].limit = limit;
        call->charge[i].name = name;
    }
    call->trouble = trouble;
    call->retry_ns = 0;
    for (unsigned i = 0; i < job->count && result == WR_REMOTE_GONE; i++)
        call->retry_ns = wr_max_i64(call->retry_ns, wr_mc_link_retry_ns(job->item[i].link));
    if (result == WR_REMOTE_GONE)
        job->store->state.gone[trouble]++;
    call->done(call, result);
}

/* ---- words take turns ---------------------------------------------------------------------- */

bool wr_mc_job_has_word(const struct wr_mc_job *job, unsigned i)
{
    return !wr_mc_is_count(&job->item[i].limit) && job->op != WR_MC_JOB_DROP;
}

/* Are its servers there, or known to be gone, and its words free? */
static bool may_start(const struct wr_mc_job *job)
{
    for (unsigned i = 0; i < job->count; i++)
        if (wr_mc_link_trouble(job->item[i].link) == WR_TROUBLE_CONNECT)
            return false;
    for (unsigned i = 0; i < job->count; i++)
        if (wr_mc_job_has_word(job, i) && job->store->holders[job->item[i].slot] > 0)
            return false;
    return true;
}

static void hold(struct wr_mc_job *job, int by)
{
    for (unsigned i = 0; i < job->count; i++)
        if (wr_mc_job_has_word(job, i))
            job->store->holders[job->item[i].slot] =
                (uint16_t)(job->store->holders[job->item[i].slot] + by);
    job->holds = by > 0;
}

void wr_mc_job_start(struct wr_mc_job *job)
{
    if (!may_start(job)) {
        job->queued = job->had_to_wait = true;
        job->store->queued_count++;
        return;
    }
    hold(job, 1);
    ask(job, (UINT32_C(1) << job->count) - 1);
}

static void unqueue(struct wr_mc_job *job)
{
    job->store->queued_count -= job->queued;
    job->queued = false;
}

void wr_mc_job_free(struct wr_mc_job *job)
{
    wr_mc_job_untime(job);
    unqueue(job);
    if (job->holds) {
        hold(job, -1);
        job->store->wake = true;
    }
    job->store->job_count--;
    free(job);
}

void wr_mc_jobs_resume(struct wr_mc_store *store)
{
    while (store->wake && store->queued_count > 0) {
        struct wr_mc_job *job = store->first;
        while (job != NULL && !(job->queued && may_start(job)))
            job = job->next;
        store->wake = job != NULL;
        if (job == NULL)
            break;
        unqueue(job);
        wr_mc_job_start(job);
    }
}

/* ---- commands ------------------------------------------------------------------------------ */

/* What a reply is for: the item, and what it is to be read as. */
static unsigned ticket(unsigned item, enum wr_mc_want want)
{
    return item << 8 | (unsigned)want;
}

/* Where to write a command of item |i|; NULL: its server is not there, which is noted. */
static struct wr_mc_out *out_for(struct wr_mc_job *job, unsigned i, unsigned commands)
{
    struct wr_mc_out *out = wr_mc_link_begin(job->item[i].link, commands);

    if (out == NULL) {
        job->wrong |= UINT32_C(1) << i;
        job->trouble = WR_TROUBLE_CONNECT;
    } else {
        job->store->state.commands += commands;
    }
    return out;
}

static void expect(struct wr_mc_job *job, unsigned i, enum wr_mc_want want)
{
    bool wanted = want != WR_MC_WANT_NOTHING;

    wr_mc_link_expect(job->item[i].link, wanted ? job : NULL, ticket(i, want));
    job->waiting = (uint8_t)(job->waiting + wanted);
}

static void ask(struct wr_mc_job *job, uint32_t which)
{
    for (unsigned i = 0; i < job->count; i++) {
        struct wr_mc_charge *charge = &job->item[i].charge;
        enum wr_mc_want want[2];
        struct wr_mc_out *out;
        unsigned commands;

        if ((which >> i & 1) == 0)
            continue;
        wr_mc_charge_begin(charge, &job->item[i].copy, job->now_ns);
        out = out_for(job, i, 2);
        if (out == NULL)
            continue;
        commands = wr_mc_charge_ask(charge, job->store->prefix, job->now_ns, out, want);
        for (unsigned k = 0; k < commands; k++)
            expect(job, i, want[k]);
    }
    if (job->waiting == 0)
        advance(job);
}

/* Take off what was added for item |i|, and give back what was stored. */
static void undo(struct wr_mc_job *job, unsigned i)
{
    struct wr_mc_item *item = &job->item[i];
    struct wr_mc_out *out;
    int64_t taken = item->copy.cost + item->copy.granted;

    if (item->charge.added) {
        out = wr_mc_link_begin(item->link, 1);
        if (out != NULL && wr_mc_charge_undo(&item->charge, job->store->prefix, out) > 0)
            wr_mc_link_expect(item->link, NULL, 0);
    } else if (wr_mc_job_has_word(job, i) && item->charge.stored &&
               item->charge.left != item->charge.word && taken > 0) {
        wr_mc_job_change(job->store, WR_MC_JOB_REFUND, item->link, &item->copy, taken, job->now_ns);
    }
}

static void undo_all(struct wr_mc_job *job)
{
    for (unsigned i = 0; i < job->count; i++)
        if ((job->wrong >> i & 1) == 0)
            undo(job, i);
}

/* ---- taking -------------------------------------------------------------------------------- */

static bool enforced(const struct wr_mc_job *job, unsigned i)
{
    return (job->shadow >> i & 1) == 0;
}

/* Judge those that are not stored yet. Returns whether all that are enforced allow it. */
static bool judge(struct wr_mc_job *job)
{
    bool pass = true;

    for (unsigned i = 0; i < job->count; i++) {
        struct wr_mc_item *item = &job->item[i];
        if (!item->charge.stored)
            wr_mc_charge_judge(&item->charge, job->store->nodes, job->now_ns);
        if (!item->copy.allowed && enforced(job, i))
            pass = false;
    }
    return pass;
}

/* A refused request: nothing stays, but with count_denied. */
static void refuse(struct wr_mc_job *job)
{
    for (unsigned i = 0; i < job->count; i++) {
        struct wr_mc_item *item = &job->item[i];
        bool counts = item->limit.count_denied != 0 && item->copy.cost > 0;
        undo(job, i);
        item->copy.granted = 0;
        if (counts)
            wr_mc_job_change(job->store, WR_MC_JOB_FORCE, item->link, &item->copy, item->copy.cost,
                             job->now_ns);
    }
    wr_mc_job_answer(job, WR_REMOTE_DONE, WR_TROUBLE_NONE);
    wr_mc_job_free(job);
}

/* Make what was judged so. Those in shadow that refuse take nothing. */
static void commit(struct wr_mc_job *job)
{
    for (unsigned i = 0; i < job->count; i++) {
        struct wr_mc_item *item = &job->item[i];
        struct wr_mc_out *out;
        enum wr_mc_want want;

        if (!item->copy.allowed) {
            undo(job, i);
            item->charge.stored = true;
            continue;
        }
        if (item->charge.stored && !item->charge.added)
            continue;
        out = out_for(job, i, 1);
        if (out != NULL &&
            wr_mc_charge_commit(&item->charge, job->store->prefix, job->now_ns, out, &want) > 0)
            expect(job, i, want);
    }
}

/* Words that somebody else stored first. */
static uint32_t lost_races(const struct wr_mc_job *job)
{
    uint32_t lost = 0;

    for (unsigned i = 0; i < job->count; i++)
        lost |= (uint32_t)(!job->item[i].charge.stored) << i;
    return lost;
}

static void give_up(struct wr_mc_job *job, enum wr_remote_trouble trouble)
{
    undo_all(job);
    wr_mc_job_answer(job, WR_REMOTE_GONE, trouble);
    wr_mc_job_free(job);
}

/* All that was asked of a take has been answered. */
static void advance_take(struct wr_mc_job *job)
{
    bool committing = job->tries > 0 && lost_races(job) == 0;

    if (job->wrong != 0 || job->call == NULL) { /* or nobody waits any more */
        give_up(job, (enum wr_remote_trouble)job->trouble);
    } else if (committing) {
        wr_mc_job_answer(job, WR_REMOTE_DONE, WR_TROUBLE_NONE);
        wr_mc_job_free(job);
    } else if (!judge(job)) {
        refuse(job);
    } else {
        job->tries = (uint8_t)wr_min_u64(job->tries + 1U, TRIES_MAX);
        commit(job);
        if (job->waiting == 0)
            advance(job);
    }
}

/* ---- what nobody waits for ----------------------------------------------------------------- */

/* Of a refund or a force: the word has been read, or stored, or lost. */
static void advance_change(struct wr_mc_job *job)
{
    static const enum wr_mc_change changes[] = {[WR_MC_JOB_REFUND] = WR_MC_REFUND,
                                                [WR_MC_JOB_FORCE] = WR_MC_FORCE,
                                                [WR_MC_JOB_DROP] = WR_MC_DROP};
    struct wr_mc_item *item = &job->item[0];
    struct wr_mc_out *out;
    enum wr_mc_want want;

    if (job->wrong != 0 || item->charge.stored || !job->timed) { /* or it is late */
        wr_mc_job_free(job);
        return;
    }
    wr_mc_charge_apply(&item->charge, changes[job->op], job->units, job->now_ns);
    item->copy.extra = item->copy.granted = 0;
    out = out_for(job, 0, 1);
    if (out != NULL &&
        wr_mc_charge_commit(&item->charge, job->store->prefix, job->now_ns, out, &want) > 0)
        expect(job, 0, want);
    if (job->waiting == 0)
        wr_mc_job_free(job);
}

static void advance(struct wr_mc_job *job)
{
    if (job->op == WR_MC_JOB_TAKE)
        advance_take(job);
    else
        advance_change(job);
}

/* ---- replies ------------------------------------------------------------------------------- */

/* A word was not stored: read it again. */
static void retry(struct wr_mc_job *job)
{
    ask(job, lost_races(job));
}

static enum wr_remote_trouble trouble_of(const struct wr_mc_reply *reply, enum wr_mc_step step)
{
    static const char full[] = "SERVER_ERROR";

    if (reply == NULL)
        return WR_TROUBLE_CONNECT;
    return step == WR_MC_REFUSED && reply->value.len >= sizeof full - 1 &&
                   memcmp(reply->value.ptr, full, sizeof full - 1) == 0
               ? WR_TROUBLE_BUSY
               : WR_TROUBLE_PROTOCOL;
}

bool wr_mc_job_reply(void *context, unsigned what, enum wr_mc_step step,
                     const struct wr_mc_reply *reply)
{
    struct wr_mc_job *job = context;
    struct wr_mc_store *store = job->store;
    unsigned i = what >> 8;
    enum wr_mc_want want = (enum wr_mc_want)(what & 0xff);
    bool sense =
        reply != NULL && wr_mc_charge_hear(&job->item[i].charge, want, step, reply, job->now_ns);

    if (sense)
        store->heard_ns[job->item[i].slot] = (int64_t)uv_hrtime();
    if (!sense) {
        job->wrong |= UINT32_C(1) << i;
        job->trouble = (uint8_t)trouble_of(reply, step);
    }
    if (--job->waiting > 0)
        return sense || step == WR_MC_REFUSED;
    if (want == WR_MC_WANT_STORED && job->wrong == 0 && lost_races(job) != 0)
        retry(job);
    else
        advance(job);
    wr_mc_jobs_resume(store);
    /* An error is an answer: the server is full, or something else lies under our key. */
    return sense || step == WR_MC_REFUSED;
}

void wr_mc_job_change(struct wr_mc_store *store, enum wr_mc_op op, struct wr_mc_link *link,
                      const struct wr_remote_charge *charge, int64_t units, int64_t now_ns)
{
    static const enum wr_mc_change changes[] = {[WR_MC_JOB_REFUND] = WR_MC_REFUND,
                                                [WR_MC_JOB_FORCE] = WR_MC_FORCE,
                                                [WR_MC_JOB_DROP] = WR_MC_DROP};
    struct wr_mc_job *job = units > 0 || op == WR_MC_JOB_DROP ? wr_mc_job_new(store, 1, op) : NULL;
    struct wr_mc_out *out;
    struct wr_mc_item *item;

    if (job == NULL)
        return;
    item = &job->item[0];
    job->now_ns = now_ns;
    job->units = units;
    wr_mc_job_set(job, 0, charge, link);
    wr_mc_charge_begin(&item->charge, &item->copy, now_ns);
    out = wr_mc_link_begin(item->link, 2);
    if (out == NULL) {
        wr_mc_job_free(job);
    } else if (wr_mc_charge_change(&item->charge, changes[op], units, store->prefix, now_ns, out)) {
        wr_mc_link_expect(item->link, NULL, 0);
        if (op == WR_MC_JOB_DROP && item->limit.algo == WR_SLIDING_WINDOW)
            wr_mc_link_expect(item->link, NULL, 0);
        wr_mc_job_free(job);
    } else {
        wr_mc_job_start(job);
    }
}
