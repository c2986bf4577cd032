/* view.h: between the files that build a view. All paths of the new root are relative to its
 * descriptor, all sources are the old root's. */
#ifndef SP_CONFINE_VIEW_H
#define SP_CONFINE_VIEW_H

#include "sallyport/view.h"

#include <stdbool.h>
#include <stdint.h>

struct view {
    const struct sp_config *c;
    struct sp_view_error *e;
    int root;      /* the new root */
    bool switches; /* we aren't the commands' user yet */
};

/* view_mount.c. Each: 0 or -errno with v->e set. */
/* Walks paths with the rights of the commands' user, whose the way to the workspace may be. */
void view_as_user(const struct view *v, bool on);
int view_fail(struct sp_view_error *e, int err, const char *step, const char *path);
/* A file system of its own on path (absolute, made if it isn't there) in the new root. options:
 * pairs of key and value, an end of NULL; a value of NULL for a flag. */
int view_new_fs(struct view *v, const char *type, const char *path, uint64_t attr,
                const char *const *options);
/* The new root itself, as an empty tmpfs on top of the old one; *fd its descriptor. */
int view_new_root(struct sp_view_error *e, int *fd);
/* What is at path in the old root, with all mounts below, at the same path in the new one: a link
 * is made anew; what isn't there is nothing. attr: MOUNT_ATTR_* added to all of it. */
int view_bind(struct view *v, const char *path, uint64_t attr);
/* A folder at path in the new root. */
int view_make(struct view *v, const char *path);
/* Moves a detached tree to path in the new root. */
int view_attach(struct view *v, int tree, const char *path, bool is_dir);
/* Hides path in the new root, if it is there: a file behind an empty one, a folder too. */
int view_mask(struct view *v, const char *path);
/* After the last mask. */
int view_masks_end(struct view *v);
/* Adds attr to the mount at path in the new root, not to those below. */
int view_set_attr(struct view *v, const char *path, uint64_t attr);
/* Goes into the new root for good; the old one is gone. */
int view_pivot(struct sp_view_error *e, int root);

#endif
