/* quota.h: what a workspace may take, in the box. The figure is that of the last count, with what
 * uploads added since; a count costs a walk through the tree, so it is made when it matters. Any
 * thread may call what is here. */
#ifndef SALLYPORT_CELL_QUOTA_H
#define SALLYPORT_CELL_QUOTA_H

#include "cell/files.h"

#include <pthread.h>

#define SP_QUOTA_SLACK (256ull << 20) /* what a fast disk takes between two counts */

struct sp_quota {
    uint64_t limit; /* bytes, 0 none: nothing is counted then */
    pthread_mutex_t lock;
    bool known;          /* it was counted once */
    bool stale;          /* something else than an upload changed the tree since */
    uint64_t used;       /* on disk */
    uint64_t pending;    /* of uploads that aren't at their place yet */
    uint64_t entries;    /* at the last count */
    uint64_t added;      /* since then, files and folders that uploads may have made */
    uint64_t cost_ns;    /* processor time of the last count */
    uint64_t counted_ns; /* when it ended */
};

void sp_quota_init(struct sp_quota *q, uint64_t limit);
/* Walks the tree. SP_OK, or why it couldn't. */
enum sp_err sp_quota_count(struct sp_quota *q, const struct sp_workspace *w);
/* Before an upload: SP_OK, SP_E_QUOTA, or why it could not be counted. */
enum sp_err sp_quota_room(struct sp_quota *q, const struct sp_workspace *w);
/* An upload got n bytes more. False: too much; they count until they are given back. */
bool sp_quota_take(struct sp_quota *q, const struct sp_workspace *w, uint64_t n);
/* An upload's n bytes are gone, or at their place: in on_disk bytes there, with `added` entries at
 * most. */
void sp_quota_give(struct sp_quota *q, uint64_t n);
void sp_quota_keep(struct sp_quota *q, uint64_t n, uint64_t on_disk, uint64_t added);
/* A command ran. */
void sp_quota_changed(struct sp_quota *q);
/* Something was removed: counts where that may have made room for commands. */
void sp_quota_removed(struct sp_quota *q, const struct sp_workspace *w);
/* More than twice as much as there may be and SP_QUOTA_SLACK, by the last count. Commands that each
 * end before they are counted would fill the disk together: no further. */
bool sp_quota_doubled(struct sp_quota *q);

#endif
