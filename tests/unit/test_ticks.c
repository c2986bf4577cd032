/* test_ticks.c: the loop's timers go by a clock that nobody sets. */
#include "front/front.h"

#include "unit.h"

#include <time.h>

static uint64_t since_start_ms(void)
{
    struct timespec t;
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static h2o_loop_t *loop; /* for good, as the front's */
static int fired;

static void on_time(h2o_timeout_entry_t *entry)
{
    (void)entry;
    fired++;
}

/* Also where the machine was started less than a timeout ago. */
START_TEST(steady)
{
    const uint64_t day = 86400000u, ahead = (UINT64_C(1) << 31) * 1000u;
    loop = ticks_loop();
    ck_assert_ptr_nonnull(loop);
    h2o_timeout_t now, year;
    h2o_timeout_entry_t soon = {.cb = on_time}, late = {.cb = on_time};
    h2o_timeout_init(loop, &now, 0);
    h2o_timeout_init(loop, &year, 365 * day);
    for (int i = 1; i < 4; i++) {
        const uint64_t before = since_start_ms();
        h2o_timeout_link(loop, &now, &soon);
        if (i == 1)
            h2o_timeout_link(loop, &year, &late);
        ck_assert_int_eq(h2o_evloop_run(loop, 10), 0);
        const uint64_t after = since_start_ms();
        ck_assert_uint_ge(h2o_now(loop), before + ahead);
        ck_assert_uint_le(h2o_now(loop), after + ahead);
        ck_assert_int_eq(fired, i);
    }
    h2o_timeout_unlink(&late);
}
END_TEST

UNIT_MAIN("ticks", steady)
