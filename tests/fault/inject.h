/* inject.h: what the driver (tests/harness/faults.py, which knows this layout too) and the daemon
 * of a faults build share, in a file that every role maps. Trusts the driver. */
#ifndef SALLYPORT_TESTS_FAULT_INJECT_H
#define SALLYPORT_TESTS_FAULT_INJECT_H

#include <stdint.h>

#define FAULT_ROLES 5
/* calls.inc: X(its name, what it returns when it fails; ERRNO: the error itself). */
enum fault_call {
#define X(name, result) FAULT_##name,
#include "calls.inc"
#undef X
    FAULT_CALLS_COUNT
};

struct fault_table {
    /* Of the driver. The n-th call from now on, and `times` from it, of that role fails with `err`.
     */
    uint32_t role, call, nth, times, err;
    /* Of the roles: how often it failed, and the calls made. */
    uint32_t hits;
    uint32_t made[FAULT_ROLES][FAULT_CALLS_COUNT];
};

#endif
