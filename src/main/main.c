/* main.c: the command line. `sallyport seat` becomes main, the process that starts and watches the
 * others; `--role=X` is how main and the broker start them. Trusts its arguments and environment.
 */
#include "main/guest.h"
#include "main/inner.h"
#include "main/supervise.h"

#include "sallyport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define USAGE_STATUS 2

static struct super super;

static int usage(FILE *out, int status)
{
    fputs("usage: sallyport seat       serve one workspace: commands one at a time, and its files\n"
          "       sallyport box        serve many identities, each with a workspace and a user id\n"
          "       sallyport check [box] [--json]  tell which layers of confinement this host gives "
          "a\n"
          "                            seat, or a box\n"
          "       sallyport policy     check policy files, show the built-in ones\n"
          "       sallyport health [URL]  ask a seat, or http(s)://ADDRESS:PORT or unix:PATH, for "
          "/healthz\n"
          "       sallyport guest [seat|box]  be the first process of a virtual machine\n"
          "       sallyport --help | --version\n\n"
          "Settings come from the environment; an empty one is as if it weren't there:\n",
          out);
    settings_print(out, SP_MODE_SEAT);
    fputs("\nOf the box, and those SALLYPORT_ settings above that it has no RUNBOX_ one for:\n",
          out);
    settings_print(out, SP_MODE_BOX);
    fputs("\nStatus: 0 stopped as asked, 1 failed, 2 refused to start.\n"
          "Whoever reaches the seat's socket may run commands: it has no authentication.\n",
          out);
    return fflush(out) == 0 ? status : 1;
}

/* By the names that pools give the file, which they start without an argument. */
static bool dropped_in(const char *name)
{
    const char *slash = strrchr(name, '/');
    name = slash == NULL ? name : slash + 1;
    return strcmp(name, "sandbox") == 0 || strcmp(name, ".sandbox-agent") == 0;
}

/* So that no descriptor of ours ever gets a standard stream's number. */
static bool open_standard_streams(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd)
            return false;
    return true;
}

static int refused(const char *why)
{
    settings_refused(why);
    return USAGE_STATUS;
}

static void end_now(int sig)
{
    (void)sig;
    _exit(0);
}

/* Until children_init takes them. Nothing is there yet that would have to be ended, but a first
 * process, as of a container, has no default to end by; and a reload waits until there is something
 * to read anew. What whoever started us ignores stays so. */
static void heed_signals(void)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGQUIT};
    const struct sigaction now = {.sa_handler = end_now};
    struct sigaction old;
    sigset_t later;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaction(ends[i], &now, NULL);
    sigemptyset(&later);
    sigaddset(&later, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &later, NULL);
}

static int serve(enum sp_mode mode)
{
    char err[REFUSAL_MAX];
    struct sp_plan plan;
    heed_signals();
    if (environ_hide() != 0)
        return refused("there is no memory for the environment.");
    if (seat_prepare(&super, mode, &plan, false, environ, err, sizeof err) != 0)
        return refused(err);
    inner_use();
    int status = supervise(&super);
    listen_close(&super.listeners);
    sp_cgroup_remove(&super.cgroup);
    return status;
}

static int check(int argc, char **argv)
{
    char err[REFUSAL_MAX];
    enum sp_mode mode = SP_MODE_SEAT;
    if (argc > 0 && (strcmp(argv[0], "seat") == 0 || strcmp(argv[0], "box") == 0)) {
        mode = strcmp(argv[0], "box") == 0 ? SP_MODE_BOX : SP_MODE_SEAT;
        argc--;
        argv++;
    }
    bool json = argc == 1 && strcmp(argv[0], "--json") == 0;
    if (argc > 1 || (argc == 1 && !json))
        return usage(stderr, USAGE_STATUS);
    int r = check_plan(&super, mode, json, err, sizeof err);
    return r < 0 ? refused(err) : r;
}

static int run_role(char *name)
{
    static const struct {
        const char *name, *title;
        int (*run)(void);
    } roles[] = {{"front", "sp-front", sp_front_main},
                 {"broker", "sp-broker", sp_broker_main},
                 {"cell", "sp-cell", sp_cell_main},
                 {"registry", "sp-registry", sp_registry_main}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(name, roles[i].name) != 0)
            continue;
        (void)prctl(PR_SET_NAME, roles[i].title);
        sp_log_init(roles[i].name, SP_LOG_INFO);
        return roles[i].run();
    }
    if (strcmp(name, "idle") == 0) {
        (void)prctl(PR_SET_NAME, "sp-idle");
        sp_log_init("cell", SP_LOG_INFO);
        return sp_idle_main(name);
    }
    return refused("there is no such role.");
}

int main(int argc, char **argv)
{
    if (argc > 0 && guest_is_init(argv[0])) /* there are no devices yet */
        return guest(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "guest") == 0)
        return guest(argc - 2, argv + 2);
    if (!open_standard_streams())
        return refused("the standard streams are closed, and /dev/null can't be opened for them.");
    if (argc >= 2 && strcmp(argv[1], "policy") == 0)
        return policy_command(argc - 2, argv + 2);
    if (argc >= 2 && strcmp(argv[1], "check") == 0)
        return check(argc - 2, argv + 2);
    if ((argc == 2 || argc == 3) && strcmp(argv[1], "health") == 0)
        return health(argc == 3 ? argv[2] : NULL, environ);
    if (argc == 1 && dropped_in(argv[0]))
        return serve(SP_MODE_SEAT);
    if (argc == 2) {
        if (strncmp(argv[1], "--role=", 7) == 0)
            return run_role(argv[1] + 7);
        if (strcmp(argv[1], "seat") == 0)
            return serve(SP_MODE_SEAT);
        if (strcmp(argv[1], "box") == 0)
            return serve(SP_MODE_BOX);
        if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
            return usage(stdout, 0);
        if (strcmp(argv[1], "--version") == 0) {
            puts("sallyport " SP_VERSION);
            return fflush(stdout) == 0 ? 0 : 1;
        }
    }
    return usage(stderr, USAGE_STATUS);
}
