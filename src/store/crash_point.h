/* crash_point.h - where the tests kill: nothing in the product. */
#ifndef WR_STORE_CRASH_POINT_H
#define WR_STORE_CRASH_POINT_H

#ifdef WR_TEST_CRASH_POINTS
void wr_crash_point(const char *label);
#define WR_CRASH_POINT(label) wr_crash_point(label)
#else
#define WR_CRASH_POINT(label) ((void)0)
#endif

#endif
