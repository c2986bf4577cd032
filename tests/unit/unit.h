/* unit.h: the frame around one Check runner: UNIT_MAIN("name", test, test, ...). Trusts its test.
 */
#ifndef SP_TESTS_UNIT_H
#define SP_TESTS_UNIT_H

#include <check.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
/* A slice of a literal, NULs in it included. */
#define SLICE(lit) ((struct sp_slice){(lit), sizeof(lit) - 1})

/* Each test gets 30 seconds: a bound on a hang, not a measure. */
static inline int unit_run(const char *name, const TTest *const *tests, size_t n)
{
    Suite *suite = suite_create(name);
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 30);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(tc, tests[i]);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define UNIT_MAIN(name, ...)                                                                       \
    int main(void)                                                                                 \
    {                                                                                              \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
        return unit_run(name, tests, COUNT(tests));                                                \
    }

#endif
