/* view.h: the private root of a cell and the empty one of the front. Called by a role that was
 * started in a mount namespace of its own (struct sp_role_ns), before it gives up its privileges.
 * Documented kernel interfaces: mount_namespaces(7), user_namespaces(7), pivot_root(2),
 * mount_setattr(2). */
#ifndef SALLYPORT_VIEW_H
#define SALLYPORT_VIEW_H

#include "sallyport/role.h"

/* Where building a view failed. */
struct sp_view_error {
    const char *step; /* "mounting /proc", a constant; NULL if nothing failed */
    char path[256];   /* what it was about, or "" */
};

/* In a fresh user namespace: maps uid and gid, which the caller already has outside, to themselves,
 * and nothing else. Supplementary groups stay as they are and can't be changed. 0 or -errno. */
int sp_userns_settle(uid_t uid, gid_t gid);

/* Replaces the caller's root by a private one: read-only programs (what policy/command.landlock
 * names), /tmp and /dev/shm of its own, the harmless devices, a /proc (fresh where c->pid_ns), and
 * the workspace at its own path, with the mounts in it. workspace_fd: the folder as main opened it;
 * on success it refers to the same folder in the view, under the same number. Nothing else of the
 * host can be reached by path afterwards. Needs CAP_SYS_ADMIN over the mount namespace. 0 or -errno
 * with *e set; then the caller has to exit. */
int sp_view_enter(const struct sp_config *c, int workspace_fd, struct sp_view_error *e);

/* The same in two parts, for a cell that is started before its workspace is known. Begin: all but
 * the workspace, and the caller is in it; *root is for the end, which closes it and tree. c of the
 * end names the workspace. */
int sp_view_begin(const struct sp_config *c, int *root, struct sp_view_error *e);
int sp_view_end(const struct sp_config *c, int root, int tree, int workspace_fd,
                struct sp_view_error *e);
/* A detached copy of the workspace's mount, with all below it, for the end: by its path, or, path
 * NULL, of the folder that workspace_fd is, for the broker. The descriptor, or -errno with *e set.
 * Needs CAP_SYS_ADMIN over the mount namespace that the folder was opened in. */
int sp_view_tree(const struct sp_config *c, int workspace_fd, const char *path,
                 struct sp_view_error *e);

/* Replaces the caller's root by an empty, read-only folder. As sp_view_enter. */
int sp_view_empty(struct sp_view_error *e);

/* Brings up the loopback device of the caller's network namespace. Needs CAP_NET_ADMIN over it. 0
 * or -errno. */
int sp_net_loopback(void);

#endif
