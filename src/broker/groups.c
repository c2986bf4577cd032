/* groups.c: the box's cells have a cgroup each, as confine/cgroup_cell.c makes them, by numbers
 * below the folder that main gave us. One is made with its cell and removed when that was reaped,
 * or, if what it had started isn't dead yet, with the last of that. Trusts main alone. */
#include "broker/cells.h"

#include <errno.h>

int group_make(struct cells *c, struct sp_cgroup_fds *f, int *home, unsigned *n)
{
    for (unsigned i = 0; i < GROUPS_MAX; i++) {
        /* An earlier broker's may be there; one that isn't empty is nobody's to be started in. */
        if (c->group[i] != GROUP_FREE || sp_cgroup_cell_remove(SP_FD_CGROUP, i + 1) != 0)
            continue;
        int r = sp_cgroup_cell_make(SP_FD_CGROUP, i + 1, c->cfg, f, home);
        if (r != 0)
            (void)sp_cgroup_cell_remove(SP_FD_CGROUP, i + 1);
        c->group[i] = r == 0 ? GROUP_USED : GROUP_FREE;
        *n = r == 0 ? i + 1 : 0;
        return r;
    }
    return -ENOSPC;
}

int group_give(unsigned n, uid_t uid)
{
    return n == 0 ? 0 : sp_cgroup_cell_give(SP_FD_CGROUP, n, uid);
}

void group_end(struct cells *c, unsigned *n)
{
    if (*n == 0)
        return;
    c->group[*n - 1] = GROUP_LEFT;
    *n = 0;
    groups_clear(c);
}

void groups_clear(struct cells *c)
{
    for (unsigned i = 0; i < GROUPS_MAX; i++)
        if (c->group[i] == GROUP_LEFT && sp_cgroup_cell_remove(SP_FD_CGROUP, i + 1) == 0)
            c->group[i] = GROUP_FREE;
}
