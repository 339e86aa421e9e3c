/* points.c - where the tests kill: wr_crash_point, in memory that a test shares with its children.
 */
#include "points.h"

#include "process.h"

#include "store/crash_point.h"

#define LABELS_MAX 32
#define LABEL_BYTES 32

static struct points {
    unsigned until; /* points to pass before death; 0: live */
    unsigned passed;
    char labels[LABELS_MAX][LABEL_BYTES]; /* all that were ever passed */
} * points;

void points_init(void)
{
    points = shared_memory(sizeof *points);
}

void points_arm(unsigned until)
{
    points->passed = 0;
    points->until = until;
}

void points_disarm(void)
{
    points->until = 0;
}

static void remember(const char *label)
{
    for (unsigned i = 0; i < LABELS_MAX; i++) {
        if (strcmp(points->labels[i], label) == 0)
            return;
        if (points->labels[i][0] == '\0') {
            (void)snprintf(points->labels[i], LABEL_BYTES, "%s", label);
            return;
        }
    }
}

void wr_crash_point(const char *label)
{
    if (points == NULL || points->until == 0)
        return;
    remember(label);
    if (++points->passed == points->until)
        (void)kill(getpid(), SIGKILL);
}

static bool was_passed(const char *label)
{
    for (unsigned i = 0; i < LABELS_MAX; i++)
        if (strcmp(points->labels[i], label) == 0)
            return true;
    return false;
}

void points_assert_passed(const char *const labels[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!was_passed(labels[i]))
            fail_msg("never at: %s", labels[i]);
}
