/* http_job.h - answers that need a disk: made in another thread, while the loop serves others.
 *
 * A handler that finds no job of its request begins one and stops (response->waits); it is called
 * again when the job is done, with the same request, and finds its answer. A caller who leaves
 * meanwhile leaves the job to end by itself. */
#ifndef WR_DOORS_HTTP_JOB_H
#define WR_DOORS_HTTP_JOB_H

#include "doors/http_service.h"
#include "doors/page.h"

#define HTTP_JOBS_MAX 64U /* of a door at a time; more are answered 503 */
#define HTTP_DETAIL_MAX 600U

struct http_job;

/* Of one door; all zeros at first. */
struct http_jobs {
    struct http_job *first;
    unsigned count;
};

/* What the work comes to: a page, or with a status of 400 and more what is wrong. */
struct http_job_answer {
    int status;
    struct wr_page page;
    const char *type; /* of the page; NULL: application/json */
    char detail[HTTP_DETAIL_MAX];
    const char *member; /* static; NULL: none */
    /* NULL, or what is left to do in the loop, where stores can be asked. False: it waits for one,
     * and is called again. */
    bool (*finish)(void *order, struct http_service *service, struct http_job_answer *answer);
};

/* In a thread of its own; |order| is what the handler gave, and is freed by |forget|. */
typedef void http_work(void *order, struct http_job_answer *answer);

/* Is there a job of the request at hand? Then |response| is its answer, or waits, and there is
 * nothing more to do. */
bool http_job_answered(struct http_jobs *jobs, struct http_service *service,
                       struct http_response *response);

/* Begin |work|. Owns |order| from here on, whatever becomes of it; |forget| is called with it. */
void http_job_begin(struct http_jobs *jobs, struct http_service *service, http_work *work,
                    void *order, void (*forget)(void *order), struct http_response *response);

/* Of a door's function |abandoned|. */
void http_jobs_abandon(struct http_jobs *jobs, const struct wr_asks *asks);

/* Nobody is connected any more, and the door is freed: whoever still works does so for nobody. */
void http_jobs_free(struct http_jobs *jobs);

#endif
