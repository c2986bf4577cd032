/* listen.h: the sockets that the front accepts from. main opens them and keeps them, so that a new
 * front takes over with no connection refused. */
#ifndef SALLYPORT_MAIN_LISTEN_H
#define SALLYPORT_MAIN_LISTEN_H

#include "main/settings.h"

struct listeners {
    int fd[SP_LISTEN_MAX];
    char name[SP_LISTEN_MAX][160]; /* "http://127.0.0.1:8080", "unix:/run/x" */
    int n;
    char unlink_path[108]; /* the unix socket's, which is ours to remove */
};

/* Opens what the settings ask for, or takes what systemd handed over. 0, or -1 with a sentence and
 * nothing left open. envp: LISTEN_PID, LISTEN_FDS. */
int listen_open(struct listeners *l, const struct settings *s, char *const *envp, char *err,
                size_t errlen);
void listen_close(struct listeners *l);

#endif
