/* memcached_store.h - what the files of the memcached backend share: the store, and jobs at it.
 * Internal to src/remote/memcached*.c. */
#ifndef WR_REMOTE_MEMCACHED_STORE_H
#define WR_REMOTE_MEMCACHED_STORE_H

#include "base/siphash.h"
#include "policy/policy.h"
#include "remote/memcached_charge.h"
#include "remote/memcached_link.h"

#define WR_MC_JOBS_MAX 4096U /* under way at once, those whose caller gave up included */
#define WR_MC_SERVERS_MAX 64U
#define WR_MC_WORD_SLOTS 4096U

enum wr_mc_op { WR_MC_JOB_TAKE, WR_MC_JOB_REFUND, WR_MC_JOB_FORCE, WR_MC_JOB_DROP };

struct wr_mc_item {
    struct wr_remote_charge copy; /* of what the caller asked */
    struct wr_limit limit;
    char name[WR_NAME_MAX + 1];
    struct wr_mc_charge charge;
    struct wr_mc_link *link;
    uint16_t slot; /* of holders; counts have none */
};

struct wr_mc_job {
    struct wr_mc_job *previous, *next; /* in the order of due_ns */
    struct wr_mc_store *store;
    struct wr_remote_call *call; /* NULL: nobody waits for it */
    int64_t due_ns;              /* by uv_hrtime */
    int64_t now_ns;              /* arena's clock */
    int64_t units;               /* of refund and force */
    uint32_t shadow;
    uint32_t wrong;  /* items whose replies made no sense, or never came: why: */
    uint8_t trouble; /* enum wr_remote_trouble */
    uint8_t op;      /* enum wr_mc_op */
    uint8_t count, waiting, tries;
    bool timed; /* in the list of those that are due one day */
    bool holds, queued, had_to_wait;
    struct wr_mc_item item[];
};

struct wr_mc_store {
    uv_loop_t *loop;
    uv_timer_t sweep;
    char *prefix;
    struct wr_policy_address *addresses;
    size_t address_count, server_count, open_handles; /* servers: those with a link */
    struct wr_mc_link *link[WR_MC_SERVERS_MAX];
    struct wr_sip server[WR_MC_SERVERS_MAX]; /* hash states after the servers' names */
    int64_t deadline_ns;
    int64_t end_ns; /* by uv_hrtime, when it closes whatever is under way; 0: it is open */
    unsigned nodes, job_count, queued_count;
    struct wr_mc_job *first, *last;     /* timed, in the order of due_ns */
    bool wake;                          /* words were let go of: somebody in the queue may start */
    uint16_t holders[WR_MC_WORD_SLOTS]; /* jobs that change words which hash to the slot: 0 or 1 */
    int64_t heard_ns[WR_MC_WORD_SLOTS]; /* by uv_hrtime, when their server last answered */
    struct wr_backend_state state;
};

/* A job over |count| charges, due after the store's deadline; its items are to be set. NULL: too
 * many. */
struct wr_mc_job *wr_mc_job_new(struct wr_mc_store *store, unsigned count, enum wr_mc_op op);

/* Tell the caller how it ended; the second time nothing. */
void wr_mc_job_answer(struct wr_mc_job *job, enum wr_remote_result result,
                      enum wr_remote_trouble trouble);
/* Out of the list of those that are due one day. */
void wr_mc_job_untime(struct wr_mc_job *job);
void wr_mc_job_free(struct wr_mc_job *job);
/* Is item |i| a word, that is read and stored? */
bool wr_mc_job_has_word(const struct wr_mc_job *job, unsigned i);

/* Item |i| is |charge|, copied, at |link|. */
void wr_mc_job_set(struct wr_mc_job *job, unsigned i, const struct wr_remote_charge *charge,
                   struct wr_mc_link *link);

/* Begin, or wait for its servers, or for whoever has its words. */
void wr_mc_job_start(struct wr_mc_job *job);

/* Change what a charge lies at; nobody waits for it. */
void wr_mc_job_change(struct wr_mc_store *store, enum wr_mc_op op, struct wr_mc_link *link,
                      const struct wr_remote_charge *charge, int64_t units, int64_t now_ns);

/* As wr_mc_reply_fn. */
bool wr_mc_job_reply(void *job, unsigned what, enum wr_mc_step step,
                     const struct wr_mc_reply *reply);

/* Start those in the queue that may: a server has come or gone, or words are free. To be called
 * where nobody is in the middle of a job. */
void wr_mc_jobs_resume(struct wr_mc_store *store);

/* Those that are due by |now_ns| of uv_hrtime end as gone, or, where others were before them at a
 * word, as refused for a moment; what is under way lives until its
 * replies have come. */
void wr_mc_jobs_expire(struct wr_mc_store *store, int64_t now_ns);

/* All callers hear that it is gone. Takes that have not begun end, with |at_once| all that have
 * not; what is under way lives until its replies have come, and gives back what it took. */
void wr_mc_jobs_close(struct wr_mc_store *store, bool at_once);

#endif
