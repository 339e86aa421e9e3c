/* measure.c - see measure.h. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, unsigned n)
{
    qsort(values, n, sizeof *values, compare);
    return values[n / 2];
}

void report(const struct measured *m)
{
    (void)printf("{\"bench\":\"%s\",\"case\":\"%s\",\"unit\":\"%s\",\"ours\":%.2f,\"peer\":%.2f,"
                 "\"ratio\":%.2f,\"target\":\"%s %.2f\",\"met\":%s}\n",
                 m->bench, m->name, m->unit, m->ours, m->peer, m->ratio,
                 m->at_most ? "<=" : ">=", m->target,
                 (m->at_most ? m->ratio <= m->target : m->ratio >= m->target) ? "true" : "false");
    (void)fflush(stdout);
}

void report_rounds(struct measured what, double *ours, double *peer, double *ratios, unsigned n)
{
    what.ours = median(ours, n);
    what.peer = median(peer, n);
    what.ratio = median(ratios, n);
    report(&what);
}
