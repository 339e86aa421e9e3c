/* memcached_late.c - jobs whose deadline has come.
 *
 * Problem. A caller without an answer is told that the store is gone, and then another policy
 * decides (when_store_gone). That is right where a server is silent, and wrong where it answers,
 * and others were merely first at the same word: there a busy key would be counted in two places.
 *
 * Invariants.
 *   1. Who has lost races until the deadline, or waited for his turn while others had theirs, is
 * refused for a moment; everybody else who is late hears that the store is gone.
 *   2. Whichever it is, what his job takes yet is given back when its replies have come.
 *
 * Rejected: a bound on the number of races (five lost in a row are common at one hot key). */
#include "base/units.h"
#include "remote/memcached_store.h"

#define MOMENT_NS WR_NS_PER_MS

/* Is |job| late because others were before it at its words, which their server answered? */
static bool is_contended(const struct wr_mc_job *job)
{
    int64_t since_ns = job->due_ns - job->store->deadline_ns;
    bool heard = false;

    if (job->wrong != 0 || !(job->had_to_wait || job->tries > 1))
        return false;
    for (unsigned i = 0; i < job->count; i++) {
        if (wr_mc_link_trouble(job->item[i].link) != WR_TROUBLE_NONE)
            return false;
        heard |= wr_mc_job_has_word(job, i) && job->store->heard_ns[job->item[i].slot] > since_ns;
    }
    return heard;
}

/* What may have been taken is given back when its replies have come, as of any late job; so the
 * job's own charges stay as they were judged. */
static void refuse_for_a_moment(struct wr_mc_job *job)
{
    struct wr_remote_call *call = job->call;

    if (call == NULL)
        return;
    job->call = NULL;
    for (unsigned i = 0; i < job->count; i++) {
        struct wr_remote_charge *charge = &call->charge[i];
        charge->allowed = charge->never = false;
        charge->granted = charge->lease_ns = charge->remaining = charge->delay_ns = 0;
        charge->retry_after_ns = charge->next_ns = charge->reset_ns = MOMENT_NS;
    }
    call->trouble = WR_TROUBLE_NONE;
    call->retry_ns = 0;
    call->done(call, WR_REMOTE_DONE);
}

/* Nobody waits for |job| any longer; what is under way lives until its replies have come. */
static void end_late(struct wr_mc_job *job, int64_t now)
{
    struct wr_mc_link *links[WEIR_LIMITS_MAX];
    bool queued = job->queued, waited = job->call != NULL, contended = is_contended(job);
    unsigned count = 0;

    for (unsigned i = 0; i < job->count && waited && !queued && !contended; i++)
        links[count++] = job->item[i].link;
    wr_mc_job_untime(job);
    if (contended)
        refuse_for_a_moment(job);
    else
        wr_mc_job_answer(job, WR_REMOTE_GONE, WR_TROUBLE_TIMEOUT);
    if (queued)
        wr_mc_job_free(job);
    for (unsigned i = 0; i < count; i++)
        wr_mc_link_failed(links[i], now); /* which may end |job| */
}

void wr_mc_jobs_expire(struct wr_mc_store *store, int64_t now_ns)
{
    while (store->first != NULL && store->first->due_ns <= now_ns)
        end_late(store->first, now_ns);
    wr_mc_jobs_resume(store);
}

void wr_mc_jobs_close(struct wr_mc_store *store, bool at_once)
{
    for (struct wr_mc_job *job = store->first, *next; job != NULL; job = next) {
        next = job->next;
        wr_mc_job_answer(job, WR_REMOTE_GONE, WR_TROUBLE_CONNECT);
        if (job->queued && (at_once || job->op == WR_MC_JOB_TAKE))
            wr_mc_job_free(job);
    }
}
