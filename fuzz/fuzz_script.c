/* Any bytes as an answer of Redis, through hiredis' reader, to a decision over limits that the
 * first bytes choose: charges are written only with an answer that makes sense, and then within
 * bounds. */
#include <hiredis/hiredis.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "remote/script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

/* Two bytes: algorithm and cost; units and lease. */
static void choose(const uint8_t *bytes, struct wr_limit *limit, struct wr_remote_charge *charge)
{
    enum wr_algo algo = (enum wr_algo)(1 + (bytes[0] & 7) % WR_ALGO_MAX);
    int64_t units = bytes[1] & 15;

    if (algo == WR_FIXED_WINDOW && (bytes[0] & 128) != 0)
        must(wr_limit_make_calendar(limit, WR_CALENDAR_MONTH, units, false) == NULL);
    else
        must(wr_limit_make(limit, algo, units, 60 * WR_NS_PER_S, -1, false) == NULL);
    *charge = (struct wr_remote_charge){.limit = limit, .name = "n", .cost = bytes[0] >> 4 & 7};
    charge->extra = bytes[1] >> 4;
    charge->ttl_ns = charge->extra * WR_NS_PER_S;
    charge->place = 7;
}

static void check(const struct wr_remote_charge *charge)
{
    must(charge->remaining >= 0 && charge->remaining <= wr_limit_capacity(charge->limit));
    must(charge->granted >= 0 && charge->granted <= charge->extra);
    must(charge->lease_ns >= 0 && charge->lease_ns <= charge->ttl_ns);
    must(charge->allowed || charge->granted == 0);
    must(charge->next_ns >= 0 && charge->reset_ns >= 0 && charge->delay_ns >= 0);
    if (charge->allowed)
        must(charge->retry_after_ns == 0 && !charge->never);
    else
        must(charge->never ? charge->retry_after_ns == 0 : charge->retry_after_ns > 0);
}

static void ask(const struct wr_remote_charge *charges, unsigned count)
{
    static struct wr_script_args args;
    struct wr_script_ask with = {.prefix = "weir", .nodes = 3, .slack_ms = 1000};

    must(wr_script_args(&args, &with, WR_SCRIPT_TAKE, charges, count, UINT32_MAX, 0));
    must(args.used <= sizeof args.bytes && args.argc == (int)(4 + count));
}

static void read_reply(struct wr_remote_charge *charges, unsigned count, const redisReply *reply)
{
    struct wr_remote_charge before[3];
    uint32_t all = (UINT32_C(1) << count) - 1;
    struct wr_script_answer answer;

    memcpy(before, charges, sizeof before);
    if (wr_script_read(charges, count, all, 1, WR_SCRIPT_TAKE, reply, &answer) == WR_SCRIPT_DONE) {
        for (unsigned i = 0; i < count; i++)
            check(&charges[i]);
        must(answer.now_ns > 0);
    } else {
        must(memcmp(before, charges, sizeof before) == 0 && !answer.passed);
    }
}

/* hiredis reserves room for as many elements as an array says it has, before they come: lists of
 * billions are its memory, not ours. */
static int says_great_list(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 5 < size; i++) {
        size_t digits = 0;
        while (data[i] == '*' && i + 1 + digits < size && digits < 6 &&
               (data[i + 1 + digits] == '+' || data[i + 1 + digits] == '0' ||
                (data[i + 1 + digits] >= '1' && data[i + 1 + digits] <= '9')))
            digits++;
        if (digits > 4)
            return 1;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wr_limit limits[3];
    struct wr_remote_charge charges[3];
    redisReader *reader = redisReaderCreate();
    unsigned count = size > 0 ? 1 + data[0] % 3 : 0;
    void *reply = NULL;

    must(reader != NULL);
    if (size > 7 && !says_great_list(data + 7, size - 7)) {
        for (unsigned i = 0; i < 3; i++)
            choose(data + 1 + 2 * i, &limits[i], &charges[i]);
        ask(charges, count);
        (void)redisReaderFeed(reader, (const char *)data + 7, size - 7);
        if (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
            read_reply(charges, count, reply);
            freeReplyObject(reply);
        }
    }
    redisReaderFree(reader);
    return 0;
}
