/* meter.c - see meter.h.
 *
 * What is taken back is forgotten as generously as can be (of a bucket at once and whole): a meter
 * never counts more than has passed, so that what it complains of is a fault. */
#include "meter.h"

#include <stdlib.h>
#include <string.h>

#define SLACK_NS 4 /* moments are rounded to quanta of up to 2 ns */

void meter_reset(struct meter *meter)
{
    struct meter_row *row = meter->row;

    if (row != NULL)
        memset(row, 0, METER_ROWS * sizeof *row);
    *meter = (struct meter){.row = row};
}

void meter_free(struct meter *meter)
{
    free(meter->row);
    meter->row = NULL;
}

/* ---- windows ----------------------------------------------------------------------------- */

static void turn_window(struct meter *meter, const struct wr_limit *limit, int64_t at_ns)
{
    int64_t index = at_ns / limit->window_ns;

    if (index == meter->index)
        return;
    meter->before = index == meter->index + 1 ? meter->count : 0;
    meter->count = 0;
    meter->index = index;
}

static bool pass_window(struct meter *meter, const struct wr_limit *limit, int64_t at_ns,
                        int64_t cost)
{
    int64_t left_ns = limit->window_ns - at_ns % limit->window_ns;
    wr_u128 used;

    turn_window(meter, limit, at_ns);
    meter->count += cost;
    used = (wr_u128)(uint64_t)meter->count * (uint64_t)limit->window_ns;
    if (limit->algo == WR_SLIDING_WINDOW)
        used += (wr_u128)(uint64_t)meter->before * (uint64_t)left_ns;
    return used <= (wr_u128)(uint64_t)limit->units * (uint64_t)limit->window_ns;
}

static void back_window(struct meter *meter, const struct wr_limit *limit, int64_t passed_ns,
                        int64_t cost)
{
    int64_t index = passed_ns / limit->window_ns;

    if (index == meter->index)
        meter->count = wr_max_i64(0, meter->count - cost);
    else if (index == meter->index - 1)
        meter->before = wr_max_i64(0, meter->before - cost);
}

int64_t meter_count(const struct meter *meter, const struct wr_limit *limit, int64_t at_ns)
{
    return meter->index == at_ns / limit->window_ns ? meter->count : 0;
}

/* ---- bucket ------------------------------------------------------------------------------ */

/* admitted <= B + rate * t over every interval, as a bucket that is never more than empty. */
static void pay_back(struct meter *meter, const struct wr_limit *limit, int64_t now_ns)
{
    wr_u128 paid = (wr_u128)(uint64_t)(now_ns - meter->at_ns) * (uint64_t)limit->units;

    meter->debt = paid >= (uint64_t)meter->debt ? 0 : meter->debt - (int64_t)paid;
    meter->at_ns = now_ns;
}

static bool pass_bucket(struct meter *meter, const struct wr_limit *limit, int64_t at_ns,
                        int64_t cost)
{
    pay_back(meter, limit, at_ns);
    meter->debt += cost * limit->window_ns;
    return meter->debt <= limit->burst * limit->window_ns + SLACK_NS * limit->units;
}

/* ---- lists ------------------------------------------------------------------------------- */

static struct meter_row *add_row(struct meter *meter, int64_t at_ns, int64_t cost, uint64_t number)
{
    struct meter_row *row;

    if (meter->row == NULL)
        meter->row = calloc(METER_ROWS, sizeof *meter->row);
    if (meter->row == NULL)
        abort();
    row = &meter->row[meter->next];
    meter->next = (meter->next + 1) % METER_ROWS;
    *row = (struct meter_row){at_ns, cost, number};
    return row;
}

/* Over any window ending now, and as many places. */
static bool pass_list(struct meter *meter, const struct wr_limit *limit, int64_t at_ns,
                      int64_t cost, uint64_t number)
{
    int64_t used = 0;

    (void)add_row(meter, at_ns, cost, number);
    for (unsigned i = 0; i < METER_ROWS; i++)
        if (meter->row[i].number != 0 && meter->row[i].at_ns > at_ns - limit->window_ns)
            used += meter->row[i].cost;
    return used <= limit->units;
}

/* Departures are apart by what the one before costs, and none is put off by more than the queue. */
static bool pass_leaky(struct meter *meter, const struct wr_limit *limit, int64_t leaves_ns,
                       int64_t cost, int64_t delay_ns, uint64_t number)
{
    struct meter_row *row = add_row(meter, leaves_ns, cost, number);
    struct meter_row *last = NULL;

    for (unsigned i = 0; i < METER_ROWS; i++)
        if (meter->row[i].number != 0 && &meter->row[i] != row &&
            (last == NULL || meter->row[i].at_ns > last->at_ns))
            last = &meter->row[i];
    if ((delay_ns - SLACK_NS) * limit->units > limit->burst * limit->window_ns)
        return false;
    return last == NULL ||
           (leaves_ns - last->at_ns + SLACK_NS) * limit->units >= last->cost * limit->window_ns;
}

/* ---- all --------------------------------------------------------------------------------- */

bool meter_pass(struct meter *meter, const struct wr_limit *limit, int64_t at_ns, int64_t cost,
                int64_t delay_ns, uint64_t number)
{
    if (cost == 0)
        return true;
    if (limit->algo == WR_FIXED_WINDOW || limit->algo == WR_SLIDING_WINDOW)
        return pass_window(meter, limit, at_ns, cost);
    if (limit->algo == WR_TOKEN_BUCKET)
        return pass_bucket(meter, limit, at_ns, cost);
    if (limit->algo == WR_LEAKY_BUCKET)
        return pass_leaky(meter, limit, at_ns + delay_ns, cost, delay_ns, number);
    return pass_list(meter, limit, at_ns, cost, number);
}

void meter_back(struct meter *meter, const struct wr_limit *limit, int64_t passed_ns,
                int64_t now_ns, int64_t cost, uint64_t number)
{
    if (limit->algo == WR_FIXED_WINDOW || limit->algo == WR_SLIDING_WINDOW) {
        back_window(meter, limit, passed_ns, cost);
    } else if (limit->algo == WR_TOKEN_BUCKET) {
        pay_back(meter, limit, now_ns);
        meter->debt = wr_max_i64(0, meter->debt - cost * limit->window_ns);
    } else {
        for (unsigned i = 0; meter->row != NULL && i < METER_ROWS; i++) {
            struct meter_row *row = &meter->row[i];
            if (row->number != number)
                continue;
            row->cost -= cost;
            if (row->cost <= 0)
                row->number = 0;
        }
    }
}
