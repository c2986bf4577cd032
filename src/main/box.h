/* box.h: what `sallyport box` needs before its first role. */
#ifndef SALLYPORT_MAIN_BOX_H
#define SALLYPORT_MAIN_BOX_H

#include "main/settings.h"

/* Keys, user ids and folders: fills the box's part of c, makes what is missing below the root
 * folder and locks it. *workspaces_fd is the folder of workspaces. 0, or -1 with a sentence. */
int box_prepare(const struct settings *s, struct sp_config *c, int *workspaces_fd, char *err,
                size_t errlen);
/* boxids.c: who runs as whom, the pool of user ids, and nobody in it that isn't ours. */
int box_choose_ids(const struct settings *s, struct sp_config *c, char *err, size_t errlen);
/* workspaces: its folder; whatever an earlier daemon left running as an owner of one is ended, or
 * with look left alone. */
int box_clear_pool(struct sp_config *c, int workspaces, bool look, char *err, size_t errlen);
/* For `check`: what box_prepare would refuse is refused, but nothing is made, ended or locked, and
 * a box may be running there. 0, or -1 with a sentence. Where the folder of workspaces isn't there
 * yet c->workspace is another in the meantime. */
int box_look(const struct settings *s, struct sp_config *c, char *err, size_t errlen);
/* After the plan: c->workspace becomes the folder that identities have to be able to go through,
 * as far as it is there; after all, whether it failed or not, its own name. */
void box_look_at_way(struct sp_config *c);
void box_look_end(struct sp_config *c);

#endif
