/* main.c: threads, libraries, faults, processes, and the IPC of POSIX and System V. */
#define _GNU_SOURCE
#include "sum.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long out[4];
static void *work(void *p)
{
    long n = (long)p, v[1000];
    for (long i = 0; i < 1000; i++)
        v[i] = i * n;
    out[n] = sum(v, 1000);
    return 0;
}
static sigjmp_buf back;
static void fault(int s)
{
    (void)s;
    siglongjmp(back, 1);
}
extern char **environ;
int main(void)
{
    pthread_t t[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], 0);
    printf("threads %ld\n", sum(out, 4));
    void *h = dlopen("./plug.so", RTLD_NOW);
    const char *(*f)(void) = (const char *(*)(void))dlsym(h, "plug");
    puts(f());
    signal(SIGSEGV, fault);
    if (!sigsetjmp(back, 1))
        *(volatile int *)0 = 1;
    else
        puts("caught");
    int *s = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fork() == 0) {
        *s = 42;
        _exit(0);
    }
    wait(0);
    printf("shared %d\n", *s);
    pid_t pid;
    char *argv[] = {"sh", "-c", "exit 7", 0};
    int st;
    printf("spawn %d", posix_spawnp(&pid, "sh", 0, 0, argv, environ));
    waitpid(pid, &st, 0);
    printf(" %d\n", WEXITSTATUS(st));
    printf("system %d\n", WEXITSTATUS(system("exit 8")));
    FILE *p = popen("echo popen", "r");
    char b[20];
    fputs(fgets(b, 20, p), stdout);
    pclose(p);
    sem_t *sem = sem_open("/of-a-test", O_CREAT, 0600, 0);
    sem_unlink("/of-a-test");
    sem_post(sem);
    puts(sem_wait(sem) == 0 ? "sem" : "no sem");
    int fd = shm_open("/of-a-test", O_CREAT | O_RDWR, 0600);
    shm_unlink("/of-a-test");
    puts(ftruncate(fd, 4096) == 0 ? "shm" : "no shm");
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    char *m = shmat(id, 0, 0);
    shmctl(id, IPC_RMID, 0);
    strcpy(m, "sysv");
    puts(m);
    struct mq_attr a = {.mq_maxmsg = 2, .mq_msgsize = 8};
    mqd_t q = mq_open("/of-a-test", O_CREAT | O_RDWR, 0600, &a);
    mq_unlink("/of-a-test");
    mq_send(q, "queue", 6, 0);
    puts(mq_receive(q, b, 20, 0) == 6 ? b : strerror(errno));
    timer_t timer;
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, 0);
    timer_create(CLOCK_MONOTONIC, &e, &timer);
    timer_settime(timer, 0, &(struct itimerspec){.it_value.tv_nsec = 1}, 0);
    printf("timer %d\n", sigwaitinfo(&set, 0) == SIGRTMIN);
    pthread_setname_np(pthread_self(), "named");
    pthread_getname_np(pthread_self(), b, 20);
    puts(b);
    return 0;
}
