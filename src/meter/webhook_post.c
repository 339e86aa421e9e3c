/* webhook_post.c - requests on their way, by libcurl's multi handle.
 *
 * Redirects are not followed: what is signed for one place is not for another. Certificates are
 * checked. What is answered besides the status is of no interest, and not kept. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "meter/webhook_parts.h"

#define HEARD_BYTES_MAX 65536 /* of an answer; with more it is no webhook */

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
    struct wr_post *post = context;

    (void)bytes;
    post->heard_bytes += size * count;
    return post->heard_bytes <= HEARD_BYTES_MAX ? size * count : 0;
}

static bool add_header(struct wr_post *post, const char *text)
{
    struct curl_slist *more = curl_slist_append(post->headers, text);

    if (more != NULL)
        post->headers = more;
    return more != NULL;
}

static bool make_headers(struct wr_post *post, const struct wr_webhook_end *end, int64_t now_ns,
                         size_t len)
{
    char signature[WR_WEBHOOK_SIGNATURE_MAX], text[WR_WEBHOOK_SIGNATURE_MAX + 64];

    wr_webhook_sign(signature, end->secret, now_ns, (struct weir_slice){post->body, len});
    (void)snprintf(text, sizeof text, "Weir-Signature: %s", signature);
    if (!add_header(post, text))
        return false;
    (void)snprintf(text, sizeof text, "Weir-Event: %s", post->alert.event);
    return add_header(post, text) && add_header(post, "Content-Type: application/json") &&
           add_header(post, "User-Agent: weir") && add_header(post, "Expect:");
}

static bool set_up(struct wr_post *post, const struct wr_webhook_end *end, size_t len)
{
    CURL *easy = post->easy;
    long timeout_ms = (long)(end->timeout_ns / WR_NS_PER_MS);
    CURLcode bad = CURLE_OK;

#define SET(option, value) bad = bad != CURLE_OK ? bad : curl_easy_setopt(easy, option, value)
    SET(CURLOPT_URL, end->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_TIMEOUT_MS, timeout_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_POSTFIELDS, post->body);
    SET(CURLOPT_POSTFIELDSIZE, (long)len);
    SET(CURLOPT_HTTPHEADER, post->headers);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, post);
    SET(CURLOPT_ERRORBUFFER, post->why);
    SET(CURLOPT_PRIVATE, post);
    if (end->ca_file != NULL)
        SET(CURLOPT_CAINFO, end->ca_file);
#undef SET
    return bad == CURLE_OK;
}

void wr_post_send(struct wr_webhook *hook, struct wr_post *post, const struct wr_alert *alert)
{
    const struct wr_webhook_end *end = &hook->ends->end[alert->kind];
    size_t len;

    *post = (struct wr_post){.state = WR_POST_FLYING, .alert = *alert};
    len = wr_webhook_body(post->body, alert);
    post->easy = curl_easy_init();
    if (post->easy != NULL && make_headers(post, end, hook->options.now_ns(), len) &&
        set_up(post, end, len) && curl_multi_add_handle(hook->multi, post->easy) == CURLM_OK)
        return;
    post->state = WR_POST_ANSWERED;
    (void)snprintf(post->error, sizeof post->error, "it cannot be sent: out of memory");
}

/* In words that have no address in them: there may be a secret in it. */
static void explain(struct wr_post *post, CURLcode result)
{
    if (result != CURLE_OK) {
        post->status = 0;
        (void)snprintf(post->error, sizeof post->error, "no answer: %.180s",
                       post->why[0] != '\0' ? post->why : curl_easy_strerror(result));
    } else if (post->status >= 300 && post->status < 400) {
        (void)snprintf(post->error, sizeof post->error,
                       "answered %ld, a redirect, which is not followed", post->status);
    } else if (post->status < 200 || post->status >= 300) {
        (void)snprintf(post->error, sizeof post->error, "answered %ld", post->status);
    }
    for (char *at = post->error; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = ' ';
}

static void land(struct wr_post *post, CURLcode result)
{
    (void)curl_easy_getinfo(post->easy, CURLINFO_RESPONSE_CODE, &post->status);
    explain(post, result);
    post->state = WR_POST_ANSWERED;
}

void wr_posts_go_on(struct wr_webhook *hook)
{
    struct CURLMsg *message;
    int running = 0, left = 0;

    (void)curl_multi_perform(hook->multi, &running);
    while ((message = curl_multi_info_read(hook->multi, &left)) != NULL) {
        struct wr_post *post = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &post);
        if (post != NULL)
            land(post, message->data.result);
    }
}

unsigned wr_posts_flying(const struct wr_webhook *hook)
{
    unsigned count = 0;

    for (unsigned kind = 0; kind < WR_WEBHOOK_KINDS; kind++)
        for (unsigned i = 0; i < WR_POSTS; i++)
            count += hook->post[kind][i].state == WR_POST_FLYING;
    return count;
}

void wr_post_free(struct wr_webhook *hook, struct wr_post *post)
{
    if (post->easy != NULL) {
        (void)curl_multi_remove_handle(hook->multi, post->easy);
        curl_easy_cleanup(post->easy);
    }
    curl_slist_free_all(post->headers);
    post->easy = NULL;
    post->headers = NULL;
    post->state = WR_POST_FREE;
}
