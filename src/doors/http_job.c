/* http_job.c - jobs by the connection that they are for.
 *
 * Invariants:
 *   1. A job is in its door's list as long as its caller is there; then it frees itself when its
 *      thread is done, and touches the door no more.
 *   2. An answer is given out once, to the request that its job was begun for: that request is the
 *      connection's next until it is answered. */
#include "doors/http_job.h"

#include <stdlib.h>
#include <string.h>

struct http_job {
    uv_work_t work;
    struct http_jobs *jobs;
    const struct wr_asks *asks; /* the caller; NULL: gone */
    http_work *run;
    void *order;
    void (*forget)(void *order);
    struct http_job_answer answer;
    bool done;     /* the thread is */
    bool consumed; /* its answer is with the response, until the next request */
    struct http_job *next;
};

static void free_job(struct http_job *job)
{
    if (job->forget != NULL)
        job->forget(job->order);
    wr_page_free(&job->answer.page);
    free(job);
}

/* Out of its list, at |at|: nobody waits for it. */
static struct http_job *take_out(struct http_job **at)
{
    struct http_job *job = *at;

    *at = job->next;
    job->jobs->count--;
    job->asks = NULL;
    return job;
}

/* The same; if its thread still works, it frees itself. */
static void let_go(struct http_job **at)
{
    struct http_job *job = take_out(at);

    if (job->done)
        free_job(job);
}

static void on_work(uv_work_t *work)
{
    struct http_job *job = work->data;

    job->run(job->order, &job->answer);
}

static void on_worked(uv_work_t *work, int status)
{
    struct http_job *job = work->data;
    (void)status;

    job->done = true;
    if (job->asks == NULL)
        free_job(job);
    else
        job->asks->resume(job->asks->context);
}

/* What was given out lies in memory of its job: until this door is asked something again. */
static void free_consumed(struct http_jobs *jobs)
{
    struct http_job **at = &jobs->first;

    while (*at != NULL) {
        if ((*at)->consumed)
            free_job(take_out(at));
        else
            at = &(*at)->next;
    }
}

static void give(struct http_service *service, struct http_job *job, struct http_response *response)
{
    struct http_job_answer *answer = &job->answer;
    const char *member = answer->member != NULL ? answer->member : "";

    job->consumed = true;
    if (answer->page.full) {
        http_problem(service, response, 503, "out of memory", (struct weir_slice){NULL, 0});
    } else if (answer->status >= 400) {
        http_problem(service, response, answer->status, answer->detail,
                     (struct weir_slice){member, strlen(member)});
    } else {
        *response =
            (struct http_response){.status = answer->status,
                                   .type = answer->type != NULL ? answer->type : "application/json",
                                   .body = wr_page_text(&answer->page)};
    }
}

static bool is_finished(struct http_service *service, struct http_job *job)
{
    struct http_job_answer *answer = &job->answer;

    return answer->finish == NULL || answer->status >= 400 ||
           answer->finish(job->order, service, answer);
}

bool http_job_answered(struct http_jobs *jobs, struct http_service *service,
                       struct http_response *response)
{
    free_consumed(jobs);
    for (struct http_job *job = jobs->first; job != NULL; job = job->next) {
        if (job->asks != service->asks)
            continue;
        if (job->done && is_finished(service, job))
            give(service, job, response);
        else
            response->waits = true;
        return true;
    }
    return false;
}

void http_job_begin(struct http_jobs *jobs, struct http_service *service, http_work *work,
                    void *order, void (*forget)(void *order), struct http_response *response)
{
    struct http_job *job = jobs->count < HTTP_JOBS_MAX ? calloc(1, sizeof *job) : NULL;

    if (job != NULL) {
        job->jobs = jobs;
        job->asks = service->asks;
        job->run = work;
        job->order = order;
        job->work.data = job;
        job->answer.status = 500;
        if (uv_queue_work(&service->loop->uv, &job->work, on_work, on_worked) == 0) {
            job->forget = forget;
            job->next = jobs->first;
            jobs->first = job;
            jobs->count++;
            response->waits = true;
            return;
        }
        free(job);
    }
    forget(order);
    http_problem(service, response, 503, "too much is asked of the ledger at the moment",
                 (struct weir_slice){NULL, 0});
}

void http_jobs_abandon(struct http_jobs *jobs, const struct wr_asks *asks)
{
    struct http_job **at = &jobs->first;

    while (*at != NULL) {
        if ((*at)->asks == asks)
            let_go(at);
        else
            at = &(*at)->next;
    }
}

void http_jobs_free(struct http_jobs *jobs)
{
    while (jobs->first != NULL)
        let_go(&jobs->first);
}
