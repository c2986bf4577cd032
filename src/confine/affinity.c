/* affinity.c: which processors a role's threads may use, where the operator asked for one
 * (SALLYPORT_ONE_CPU). Between two processors a message wakes an idle one, which in a virtual
 * machine takes longer than what the message is about. main notes what it has; the roles trust
 * that. */
#include "sallyport/affinity.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

_Static_assert(sizeof(cpu_set_t) == SP_CPUS_BYTES, "sched.h's own bound, 1024 processors");

int sp_affinity_note(struct sp_config *c)
{
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return -errno; /* EINVAL: there are more */
    int cpu = sched_getcpu();
    if (cpu < 0)
        return -errno;
    memcpy(c->cpus, &all, sizeof all);
    c->one_cpu = CPU_COUNT(&all) > 1;
    c->cpu = (uint32_t)cpu;
    return 0;
}

int sp_affinity_pin(const struct sp_config *c)
{
    cpu_set_t one;
    if (!c->one_cpu)
        return 0;
    CPU_ZERO(&one);
    CPU_SET(c->cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0 ? 0 : -errno;
}

int sp_affinity_spread(const struct sp_config *c)
{
    cpu_set_t all;
    if (!c->one_cpu)
        return 0;
    memcpy(&all, c->cpus, sizeof all);
    return sched_setaffinity(0, sizeof all, &all) == 0 ? 0 : -errno;
}
