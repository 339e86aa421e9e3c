/* points.h - a child that is killed at its n-th labelled point (store/crash_point.h), for n = 1, 2,
 * ... until it comes through. What is armed is armed for the test and all its children. */
#ifndef TESTS_STORE_POINTS_H
#define TESTS_STORE_POINTS_H

#include <stddef.h>

/* Before the first fork. Not called: nothing is killed. */
void points_init(void);

/* Whoever passes the |until|th point from now on is killed there. */
void points_arm(unsigned until);
void points_disarm(void);

/* Each of |labels| has been passed while armed; or the test fails. */
void points_assert_passed(const char *const labels[], size_t count);

#endif
