/* webhook_parts.h - the thread of webhooks as its own files see it. Internal to src/meter. */
#ifndef WR_METER_WEBHOOK_PARTS_H
#define WR_METER_WEBHOOK_PARTS_H

#include <pthread.h>

#include <curl/curl.h>

#include "meter/webhook.h"

/* Being sent at once, of each kind: what one receiver holds up is its own. */
#define WR_POSTS 8

#define WR_TOLD 64 /* alerts that the log gets at once */

enum wr_post_state { WR_POST_FREE, WR_POST_FLYING, WR_POST_ANSWERED };

/* One request. */
struct wr_post {
    enum wr_post_state state;
    struct wr_alert alert; /* as it was read */
    /* ANSWERED: until that is in the database. */
    long status;                        /* of HTTP; 0: there was no answer */
    char error[WR_ALERT_ERROR_MAX + 1]; /* why not 2xx */
    /* private */
    CURL *easy;
    struct curl_slist *headers;
    size_t heard_bytes;
    char body[WR_WEBHOOK_BODY_MAX];
    char why[CURL_ERROR_SIZE];
};

struct wr_webhook {
    struct wr_keeper_options options;
    void (*moved)(void *of, bool upgraded);
    void *of;
    char path[4096 + 16];

    /* The thread's. */
    struct wr_webhook_ends *ends; /* NULL: nowhere */
    pthread_mutex_t turning;      /* of the database: held for a turn, or a pause */
    struct wr_database *database; /* NULL: not open */
    struct wr_post post[WR_WEBHOOK_KINDS][WR_POSTS];
    bool failing[WR_WEBHOOK_KINDS]; /* it was said */
    int64_t told[WR_TOLD];          /* rows in the log that the database does not know of yet */
    int told_count;

    CURLM *multi; /* others only wake it */
    pthread_t thread;
    bool running;
    pthread_mutex_t mutex; /* what follows; held for moments */
    bool stop, go;
    struct wr_webhook_ends *next;
    struct wr_webhook_state state;
};

/* ---- webhook_post.c ------------------------------------------------------------------------- */

/* Send |alert| by |post|, which is FREE. Trouble before it flies is an answer as well. */
void wr_post_send(struct wr_webhook *hook, struct wr_post *post, const struct wr_alert *alert);

/* Go on with what flies; those that end are ANSWERED. */
void wr_posts_go_on(struct wr_webhook *hook);
unsigned wr_posts_flying(const struct wr_webhook *hook);

/* Not flying or answered any more. */
void wr_post_free(struct wr_webhook *hook, struct wr_post *post);

/* ---- webhook_turn.c ------------------------------------------------------------------------- */

/* What there is to do by the database. |last|: nothing new is begun. True: more can be done at
 * once. */
bool wr_webhook_turn(struct wr_webhook *hook, bool last);

/* By whoever has |turning|. */
void wr_webhook_close_database(struct wr_webhook *hook);

#endif
