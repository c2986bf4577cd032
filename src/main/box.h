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
/* workspaces: its folder; whatever an earlier daemon left running as an owner of one is ended. */
int box_clear_pool(const struct sp_config *c, int workspaces, char *err, size_t errlen);

#endif
