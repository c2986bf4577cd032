/* unmarked.h: before each unit test's own headers. Check writes to a file at every assertion that
 * holds, so that a crash shows the last one: nine tenths of what tests with a million of them cost,
 * and a core or a sanitizer tells more. */
#ifndef SP_TESTS_UNMARKED_H
#define SP_TESTS_UNMARKED_H

#include <check.h>

#undef _mark_point
#define _mark_point(file, line) ((void)0)

#endif
