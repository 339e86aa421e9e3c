/* tally.c - counting what a replay decides.
 *
 * The idea. A client is what the policy takes the caller to be (weir_client); for each limit it met
 * there is one small record, in a list with the last used first, as most clients meet the same few
 * limits again and again. To ask the policy for each request again who the caller is costs as much
 * as deciding, so the last answers are remembered by all that they depend on: the peer and the
 * fields.
 *
 * Invariant: at most WR_TALLY_CLIENTS_MAX clients are told apart; what comes after is counted under
 * one name. */
#include "cli/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "lib/handle.h"
#include "policy/quota.h"

#define OTHERS "(others)"
#define CLIENT_NAME_MAX 256 /* longer host names are cut */
#define MEMO_SLOTS 4096U    /* a power of two */
#define MEMO_ABSENT 127U    /* in the place of a length */
#define MEMO_KEY_MAX 112    /* bytes of peer and fields; requests with more are asked anew */

struct memo_slot {
    struct wr_client *client;
    size_t len;
    char key[MEMO_KEY_MAX];
};

struct wr_memo {
    struct memo_slot slots[MEMO_SLOTS];
};

static bool is_billed(const struct weir *w, size_t limit)
{
    const struct wr_policy_quota *quota = wr_policy_limit(w->policy, limit)->quota;

    return quota != NULL && quota->exact;
}

bool wr_tally_init(struct wr_tally *tally, struct weir *w)
{
    memset(tally, 0, sizeof *tally);
    tally->w = w;
    tally->limit_count = weir_limit_count(w);
    tally->limits = calloc(tally->limit_count + 1, sizeof *tally->limits);
    tally->memo = calloc(1, sizeof *tally->memo);
    if (tally->limits == NULL || tally->memo == NULL) {
        wr_tally_fini(tally);
        return false;
    }
    for (size_t i = 0; i < tally->limit_count; i++) {
        tally->limits[i].name = weir_limit_name(w, (unsigned)i);
        tally->limits[i].least_remaining = -1;
        tally->limits[i].counts_beyond = is_billed(w, i);
    }
    return true;
}

void wr_tally_fini(struct wr_tally *tally)
{
    struct wr_client *client = tally->clients;

    HASH_CLEAR(hh, tally->clients); /* the table only; the clients stay a list */
    while (client != NULL) {
        struct wr_client *next_client = client->hh.next;
        struct wr_touch *touch = client->touches;
        while (touch != NULL) {
            struct wr_touch *next = touch->next;
            free(touch);
            touch = next;
        }
        free(client);
        client = next_client;
    }
    free(tally->limits);
    free(tally->memo);
    tally->limits = NULL;
    tally->memo = NULL;
}

void wr_tally_bad(struct wr_tally *tally, const struct wr_bad_line *bad, const char *line,
                  size_t len)
{
    struct wr_bad_line *kept = &tally->bad[tally->bad_kept];

    tally->bad_lines++;
    if (tally->bad_kept == WR_TALLY_BAD_MAX)
        return;
    tally->bad_kept++;
    *kept = *bad;
    kept->len = len < WR_TALLY_EXCERPT ? len : WR_TALLY_EXCERPT;
    if (kept->len > 0)
        memcpy(kept->excerpt, line, kept->len);
}

size_t wr_tally_clients(const struct wr_tally *tally)
{
    return HASH_COUNT(tally->clients);
}

/* ---- clients ------------------------------------------------------------------------------ */

static struct wr_client *intern(struct wr_tally *tally, const char *name, size_t len)
{
    struct wr_client *client;

    HASH_FIND(hh, tally->clients, name, len, client);
    if (client != NULL)
        return client;
    if (HASH_COUNT(tally->clients) >= WR_TALLY_CLIENTS_MAX && strcmp(name, OTHERS) != 0) {
        HASH_FIND(hh, tally->clients, OTHERS, sizeof OTHERS - 1, client);
        if (client != NULL)
            return client;
        name = OTHERS;
        len = sizeof OTHERS - 1;
    }
    client = calloc(1, sizeof *client + len + 1);
    if (client == NULL)
        return NULL;
    memcpy(client->name, name, len);
    client->len = len;
    HASH_ADD_KEYPTR(hh, tally->clients, client->name, len, client);
    return client;
}

/* All that weir_client depends on, as one string; 0 where it is too long to be remembered. */
static size_t memo_key(const struct weir_request *request, char key[MEMO_KEY_MAX])
{
    size_t at = 0;

    _Static_assert(MEMO_KEY_MAX < MEMO_ABSENT, "a length is never taken for absence");
    for (size_t i = 0; i <= request->field_count; i++) {
        struct weir_slice part = i == 0 ? request->peer : request->fields[i - 1];
        if (part.len + 1 > MEMO_KEY_MAX - at)
            return 0;
        key[at++] = (char)(part.ptr == NULL ? MEMO_ABSENT : part.len);
        if (part.ptr != NULL && part.len > 0)
            memcpy(key + at, part.ptr, part.len);
        at += part.len;
    }
    return at;
}

/* FNV-1a, eight bytes at a time: only spreads, nobody gains by a collision. */
static unsigned memo_hash(const char *key, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ len;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t block = 0;
        memcpy(&block, key + i, len - i < 8 ? len - i : 8);
        hash = (hash ^ block) * UINT64_C(1099511628211);
        hash ^= hash >> 29;
    }
    return (unsigned)(hash >> 20) & (MEMO_SLOTS - 1);
}

static struct wr_client *ask_policy(struct wr_tally *tally, const struct weir_request *request)
{
    char name[CLIENT_NAME_MAX];
    size_t len = weir_client(tally->w, request, name, sizeof name);

    return intern(tally, name, len < sizeof name ? len : sizeof name - 1);
}

static struct wr_client *find_client(struct wr_tally *tally, const struct weir_request *request)
{
    char key[MEMO_KEY_MAX];
    size_t len = memo_key(request, key);
    struct memo_slot *slot;

    if (len == 0)
        return ask_policy(tally, request);
    slot = &tally->memo->slots[memo_hash(key, len)];
    if (slot->len == len && memcmp(slot->key, key, len) == 0)
        return slot->client;
    slot->client = ask_policy(tally, request);
    slot->len = slot->client != NULL ? len : 0;
    memcpy(slot->key, key, len);
    return slot->client;
}

static struct wr_touch *find_touch(struct wr_client *client, unsigned limit)
{
    struct wr_touch **link = &client->touches, *touch;

    while ((touch = *link) != NULL && touch->limit != limit)
        link = &touch->next;
    if (touch == NULL) {
        touch = calloc(1, sizeof *touch);
        if (touch == NULL)
            return NULL;
        touch->client = client;
        touch->limit = limit;
    } else {
        *link = touch->next;
    }
    touch->next = client->touches;
    client->touches = touch;
    return touch;
}

/* ---- counting ----------------------------------------------------------------------------- */

static void note_denied(struct wr_limit_tally *limit, int64_t now_ns)
{
    int64_t minute = now_ns / WR_NS_PER_MINUTE;

    if (limit->denied++ == 0)
        limit->first_denied_ns = now_ns;
    limit->last_denied_ns = now_ns;
    if (minute != limit->minute)
        limit->minute_denied = 0;
    limit->minute = minute;
    if (++limit->minute_denied > limit->busiest_denied) {
        limit->busiest_denied = limit->minute_denied;
        limit->busiest_minute = minute;
    }
}

/* Nearer to exhaustion: the smaller share of the capacity left. */
static void note_remaining(struct wr_limit_tally *limit, const struct weir_verdict *verdict)
{
    if (limit->least_remaining < 0 ||
        (__int128)verdict->remaining_units * limit->capacity <
            (__int128)limit->least_remaining * verdict->capacity_units) {
        limit->least_remaining = verdict->remaining_units;
        limit->capacity = verdict->capacity_units;
    }
}

static bool count_limit(struct wr_tally *tally, struct wr_client *client,
                        const struct weir_verdict *verdict, int64_t now_ns)
{
    struct wr_limit_tally *limit = &tally->limits[verdict->limit];
    struct wr_touch *touch = find_touch(client, verdict->limit);

    if (touch == NULL)
        return false;
    limit->shadow = verdict->shadow != 0;
    limit->requests++;
    if (touch->requests++ == 0)
        limit->clients++;
    if (verdict->outcome == WEIR_DENY) {
        note_denied(limit, now_ns);
        if (touch->denied++ == 0)
            limit->clients_denied++;
    } else {
        note_remaining(limit, verdict);
    }
    if (verdict->outcome == WEIR_DELAY) {
        limit->delayed++;
        touch->delayed++;
    }
    return true;
}

static void count_extra(struct wr_tally *tally, const struct wr_verdict_extra *extra)
{
    size_t i = 0;

    for (unsigned k = 0; k < extra->beyond_count; k++) {
        const struct wr_beyond *beyond = &extra->beyond[k];
        struct wr_limit_tally *limit = &tally->limits[beyond->limit];
        limit->overage_requests += beyond->overage_units > 0;
        limit->overage_units += beyond->overage_units;
        limit->grace_requests += beyond->grace_units > 0;
        limit->grace_units += beyond->grace_units;
    }
    if (!extra->upgraded)
        return;
    while (i < tally->upgrade_count &&
           (tally->upgrades[i].from != extra->from || tally->upgrades[i].to != extra->to))
        i++;
    if (i == WR_TALLY_UPGRADES_MAX)
        return;
    if (i == tally->upgrade_count)
        tally->upgrades[tally->upgrade_count++] = (struct wr_upgrades){extra->from, extra->to, 0};
    tally->upgrades[i].count++;
}

bool wr_tally_add(struct wr_tally *tally, const struct wr_item *item,
                  const struct weir_answer *answer, const struct wr_verdict_extra *extra)
{
    struct wr_client *client = find_client(tally, &item->request);

    if (client == NULL)
        return false;
    if (tally->requests++ == 0)
        tally->first_ns = tally->last_ns = item->time_ns;
    if (item->time_ns < tally->first_ns)
        tally->first_ns = item->time_ns;
    if (item->time_ns > tally->last_ns)
        tally->last_ns = item->time_ns;
    client->requests++;
    tally->late += item->late;
    tally->logged_429 += item->status == 429;
    if (answer == NULL) {
        tally->uncounted++;
        tally->outcomes[WEIR_ALLOW]++;
        return true;
    }
    tally->outcomes[answer->outcome & 3]++;
    count_extra(tally, extra);
    client->denied += answer->outcome == WEIR_DENY;
    for (size_t i = 0; i < answer->count; i++)
        if (!count_limit(tally, client, &answer->verdicts[i], answer->decided_ns))
            return false;
    return true;
}

/* ---- the worst ---------------------------------------------------------------------------- */

static bool worse(const struct wr_touch *a, const struct wr_touch *b)
{
    if (a->denied != b->denied)
        return a->denied > b->denied;
    if (a->delayed != b->delayed)
        return a->delayed > b->delayed;
    if (a->requests != b->requests)
        return a->requests > b->requests;
    return strcmp(a->client->name, b->client->name) < 0;
}

size_t wr_tally_top(const struct wr_tally *tally, unsigned limit, size_t n,
                    const struct wr_touch **out)
{
    size_t count = 0;

    for (const struct wr_client *c = tally->clients; c != NULL; c = c->hh.next) {
        const struct wr_touch *touch = c->touches;
        size_t i;
        while (touch != NULL && touch->limit != limit)
            touch = touch->next;
        if (touch == NULL || touch->denied + touch->delayed == 0)
            continue;
        if (count == n && (n == 0 || !worse(touch, out[n - 1])))
            continue;
        for (i = count < n ? count++ : n - 1; i > 0 && worse(touch, out[i - 1]); i--)
            out[i] = out[i - 1];
        out[i] = touch;
    }
    return count;
}
