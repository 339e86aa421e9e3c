/* webhook_turn.c - what the thread does each time: what was answered into the database, what is new
 * into the log, what the store is to be asked, what is due on its way.
 *
 * Invariants:
 *   1. A request keeps its place until its answer is in the database: while that cannot be written
 *      nothing is sent twice.
 *   2. An event is on its way at most once.
 *   3. Fresh events go before those that failed: what a receiver does not take delays what comes
 *      after by one timeout at most. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "meter/schema.h"
#include "meter/upgrade.h"
#include "meter/webhook_parts.h"

#define DUE_AT_ONCE ((size_t)2 * WR_POSTS) /* half of them may be flying */

static const char *const whom[WR_WEBHOOK_KINDS] = {
    [WR_ALERT_QUOTA] = "customers.webhook", [WR_ALERT_UPGRADE] = "customers.confirm_upgrade"};

static void say(struct wr_webhook *hook, enum wr_keeper_level level, const char *event,
                const char *detail)
{
    hook->options.say(hook->options.context, level, event, detail);
}

static void count(struct wr_webhook *hook, uint64_t *of_state)
{
    (void)pthread_mutex_lock(&hook->mutex);
    ++*of_state;
    (void)pthread_mutex_unlock(&hook->mutex);
}

/* ---- answers -------------------------------------------------------------------------------- */

static bool is_good(const struct wr_post *post)
{
    return post->status >= 200 && post->status < 300;
}

/* A no to an upgrade: what a receiver answers that may say something else later is none. */
static bool is_no(const struct wr_post *post)
{
    return post->alert.kind == WR_ALERT_UPGRADE && post->status >= 400 && post->status < 500 &&
           post->status != 408 && post->status != 425 && post->status != 429;
}

/* Said when it begins, and when it is over. */
static void say_how_it_goes(struct wr_webhook *hook, const struct wr_post *post, bool well)
{
    enum wr_alert_kind kind = post->alert.kind;
    char text[320];

    if (hook->failing[kind] != well)
        return;
    hook->failing[kind] = !well;
    (void)snprintf(text, sizeof text, "%s%s%s", whom[kind], well ? "" : ": ", post->error);
    say(hook, well ? WR_KEEPER_INFO : WR_KEEPER_WARNING,
        well ? "the webhook takes events again"
             : "the webhook does not take an event; it is tried again, later and later",
        text);
}

static void say_given_up(struct wr_webhook *hook, const struct wr_alert *alert)
{
    char text[WR_CUSTOMER_NAME_MAX + WR_ALERT_ERROR_MAX + 200];

    (void)snprintf(text, sizeof text, "%s, event %s of %s, after %u tries: %s; see weir alerts",
                   whom[alert->kind], alert->event, alert->name, alert->tries, alert->error);
    say(hook, WR_KEEPER_ERROR, "an event was given up", text);
}

/* The row that the failed |post| leaves. */
static void fail(const struct wr_webhook *hook, const struct wr_post *post, struct wr_alert *out)
{
    int64_t now_ns = hook->options.now_ns(), until_ns;
    int64_t give_up_ns = hook->ends != NULL ? hook->ends->end[post->alert.kind].give_up_ns : 0;
    uint32_t random = 0;

    *out = post->alert;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = (uint32_t)now_ns; /* early boot */
    out->tries++;
    memcpy(out->error, post->error, sizeof out->error);
    out->next_ns = now_ns + wr_webhook_backoff_ns(out->tries, random);
    until_ns = out->since_ns + give_up_ns;
    if (give_up_ns > 0 && now_ns >= until_ns) {
        out->state = WR_ALERT_DEAD;
        out->next_ns = now_ns + WR_UPGRADE_REST_NS; /* of an upgrade; of others it says nothing */
    } else if (give_up_ns > 0 && out->next_ns > until_ns)
        out->next_ns = until_ns; /* one more, at the end */
}

static int note_sent(struct wr_webhook *hook, const struct wr_post *post)
{
    struct wr_alert is = post->alert;

    is.state = WR_ALERT_SENT;
    is.sent_ns = hook->options.now_ns();
    is.error[0] = '\0';
    return wr_alert_note(hook->database, &is);
}

static int note_failed(struct wr_webhook *hook, const struct wr_post *post)
{
    struct wr_alert is;
    int result;

    fail(hook, post, &is);
    result = wr_alert_note(hook->database, &is);
    if (result != 0)
        return result;
    count(hook, &hook->state.failed[is.kind]);
    if (is.state == WR_ALERT_DEAD) {
        count(hook, &hook->state.given_up[is.kind]);
        say_given_up(hook, &is);
    }
    say_how_it_goes(hook, post, false);
    return 0;
}

static int note_upgrade(struct wr_webhook *hook, struct wr_post *post)
{
    char why[WR_CUSTOMER_WHY_MAX + 1];
    const struct wr_author author = {"webhook:confirm_upgrade", why, hook->options.now_ns()};
    int result;

    (void)snprintf(why, sizeof why, "a quota was used up; the confirmation answered %ld",
                   post->status);
    (void)snprintf(post->alert.error, sizeof post->alert.error, "%s", post->error);
    result = is_good(post) ? wr_upgrade_confirm(hook->database, &post->alert, &author)
                           : wr_upgrade_refuse(hook->database, &post->alert, &author);
    if (result == 0)
        hook->moved(hook->of, is_good(post));
    return result;
}

static int note(struct wr_webhook *hook, struct wr_post *post)
{
    bool heard = is_good(post) || is_no(post);
    int result = !heard                                 ? note_failed(hook, post)
                 : post->alert.kind == WR_ALERT_UPGRADE ? note_upgrade(hook, post)
                                                        : note_sent(hook, post);

    if (result == 0 && heard) {
        count(hook, &hook->state.sent[post->alert.kind]);
        say_how_it_goes(hook, post, true);
    }
    return result;
}

static int note_all(struct wr_webhook *hook)
{
    int result = 0;

    for (unsigned kind = 0; kind < WR_WEBHOOK_KINDS; kind++)
        for (unsigned i = 0; result == 0 && i < WR_POSTS; i++) {
            struct wr_post *post = &hook->post[kind][i];
            if (post->state != WR_POST_ANSWERED)
                continue;
            result = note(hook, post);
            if (result == 0)
                wr_post_free(hook, post);
        }
    return result;
}

/* ---- the log -------------------------------------------------------------------------------- */

/* Once, though the database may not be written for long. */
static void tell(struct wr_webhook *hook, const struct wr_alert *alert)
{
    for (int i = 0; i < hook->told_count; i++)
        if (hook->told[i] == alert->id)
            return;
    if (hook->options.told != NULL)
        hook->options.told(hook->options.context, alert);
    if (hook->told_count < WR_TOLD)
        hook->told[hook->told_count++] = alert->id;
}

static int note_told(struct wr_webhook *hook)
{
    int result = wr_database_begin(hook->database);

    if (result != 0)
        return result;
    for (int i = 0; result == 0 && i < hook->told_count; i++)
        result = wr_alert_said(hook->database, hook->told[i]);
    if (result != 0) {
        wr_database_rollback(hook->database);
        return result;
    }
    result = wr_database_commit(hook->database);
    hook->told_count = result == 0 ? 0 : hook->told_count;
    return result;
}

/* 0, 1 (there may be more), or an error. */
static int say_new(struct wr_webhook *hook)
{
    struct wr_alert *alerts = malloc(WR_TOLD * sizeof *alerts);
    int found = alerts != NULL ? wr_alerts_unsaid(hook->database, alerts, WR_TOLD) : WEIR_ENOMEM;
    int result = found < 0 ? found : 0;

    for (int i = 0; i < found; i++)
        tell(hook, &alerts[i]);
    free(alerts);
    if (result == 0 && hook->told_count > 0)
        result = note_told(hook);
    return result == 0 ? found == WR_TOLD : result;
}

/* ---- on their way --------------------------------------------------------------------------- */

static bool is_known(const struct wr_webhook *hook, const struct wr_alert *alert)
{
    for (unsigned i = 0; i < WR_POSTS; i++) {
        const struct wr_post *post = &hook->post[alert->kind][i];
        if (post->state != WR_POST_FREE && post->alert.id == alert->id)
            return true;
    }
    return false;
}

static struct wr_post *free_post(struct wr_webhook *hook, unsigned kind)
{
    for (unsigned i = 0; i < WR_POSTS; i++)
        if (hook->post[kind][i].state == WR_POST_FREE)
            return &hook->post[kind][i];
    return NULL;
}

static int send_due(struct wr_webhook *hook, enum wr_alert_kind kind)
{
    struct wr_alert *due = calloc(DUE_AT_ONCE, sizeof *due);
    struct wr_post *post = free_post(hook, kind);
    int found = 0;

    if (due == NULL)
        return WEIR_ENOMEM;
    if (post != NULL && hook->ends != NULL && hook->ends->end[kind].url != NULL)
        found = wr_alerts_due(hook->database, kind, hook->options.now_ns(), due, (int)DUE_AT_ONCE);
    for (int i = 0; i < found && post != NULL; i++) {
        if (is_known(hook, &due[i]))
            continue;
        wr_post_send(hook, post, &due[i]);
        post = free_post(hook, kind);
    }
    free(due);
    return found < 0 ? found : 0;
}

static int send_all(struct wr_webhook *hook)
{
    int result = wr_upgrades_drop(hook->database);

    for (unsigned kind = 0; result == 0 && kind < WR_WEBHOOK_KINDS; kind++)
        result = send_due(hook, (enum wr_alert_kind)kind);
    return result;
}

/* ---- a turn --------------------------------------------------------------------------------- */

static int count_all(struct wr_webhook *hook)
{
    struct wr_alert_numbers numbers;
    int result = wr_alerts_count(hook->database, &numbers);

    if (result != 0)
        return result;
    (void)pthread_mutex_lock(&hook->mutex);
    hook->state.waiting = numbers.waiting;
    hook->state.dead = numbers.dead;
    (void)pthread_mutex_unlock(&hook->mutex);
    return 0;
}

static void ask_nobody(void *context, struct wr_alert_ask *asks, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        asks[i].answer = WR_ALERT_NONE;
}

static int settle(struct wr_webhook *hook)
{
    bool hooked = hook->ends != NULL && hook->ends->end[WR_ALERT_QUOTA].url != NULL;

    return wr_alerts_settle(hook->database, hooked, hook->options.now_ns(),
                            hook->options.ask != NULL ? hook->options.ask : ask_nobody,
                            hook->options.context);
}

void wr_webhook_close_database(struct wr_webhook *hook)
{
    wr_database_close(hook->database);
    hook->database = NULL;
}

/* The keeper says what is wrong with the disk; here it is only tried again. */
static bool open_database(struct wr_webhook *hook)
{
    const struct wr_database_options options = {.path = hook->path};
    struct wr_fault fault;

    if (hook->database != NULL && wr_database_moved(hook->database))
        wr_webhook_close_database(hook);
    return hook->database != NULL || wr_database_open(&hook->database, &options, &fault) == 0;
}

static int work(struct wr_webhook *hook, bool last)
{
    int more, asked = 0, result = note_all(hook);

    if (result != 0)
        return result;
    more = say_new(hook);
    if (more >= 0 && !last)
        asked = settle(hook);
    if (more < 0 || asked < 0)
        return more < 0 ? more : asked;
    if (asked > 0 || more > 0)
        return 1;
    result = last ? 0 : send_all(hook);
    return result == 0 ? count_all(hook) : result;
}

bool wr_webhook_turn(struct wr_webhook *hook, bool last)
{
    int result = 0;

    (void)pthread_mutex_lock(&hook->turning);
    if (open_database(hook))
        result = work(hook, last);
    if (result < 0 && result != WEIR_EBUSY && result != WEIR_EAGAIN)
        wr_webhook_close_database(hook);
    (void)pthread_mutex_unlock(&hook->turning);
    return result == 1;
}
