/* environ.h: argv and environment of a command, in memory that is kept between commands. */
#ifndef SALLYPORT_CELL_ENVIRON_H
#define SALLYPORT_CELL_ENVIRON_H

#include "sallyport/proto.h"
#include "sallyport/role.h"

#define SP_BASE_VARS 1024u
#define SP_VARS (SP_BASE_VARS + SP_ENV_COUNT_MAX + 8u)

struct sp_environ {
    const struct sp_config *config;
    char home[5 + 4096], shell[6 + 4096], pwd[4 + 4096 + 1 + 4096];
    const char *base[SP_BASE_VARS + 4]; /* what every command gets but PWD */
    size_t nbase;
    char *argv[6];
    char *envp[SP_VARS + 1];
    char command[SP_COMMAND_MAX + 1];
    char own[SP_ENV_BYTES_MAX + 1]; /* the request's variables */
};

/* 0, or -E2BIG: more base variables than we take. */
int sp_environ_init(struct sp_environ *e, const struct sp_config *c);
/* Fills argv and envp for m. cwd: m->cwd relative to the workspace, NUL-terminated. False: a limit
 * of proto.h is broken. */
bool sp_environ_set(struct sp_environ *e, const struct sp_msg *m, const char *cwd);

#endif
