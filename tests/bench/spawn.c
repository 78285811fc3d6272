// SPDX-License-Identifier: Apache-2.0 OR MIT
// Spawn several programs in turn, N times, and print each one's median wall time, ratio and peak memory.
//
// usage: spawn N OUT { -- NAME ROOT PROGRAM [ARGUMENT]... }...
// Every program runs in its ROOT (chroot). OUT is a directory that each ROOT has; its contents are
// removed, outside the measured time, before every spawn. The first program is the one ratios refer to.
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX 32
struct program { const char *name, *root; char **argv; double *us; long rss; int failed; };
extern char **environ;
static const char *emptied;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int discard(const char *path, const struct stat *s, int type, struct FTW *f) {
    (void)s; (void)type;
    if (f->level > 0) remove(path);
    return 0;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void spawn(struct program *p, int run, int null) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", p->root, emptied);
    nftw(path, discard, 16, FTW_DEPTH | FTW_PHYS);
    for (const char *const *d = (const char *const[]){"n", "e", "l", NULL}; *d; d++) {
        snprintf(path, sizeof path, "%s%s/%s", p->root, emptied, *d);
        mkdir(path, 0755);
    }
    double start = now();
    pid_t pid = vfork();
    if (pid == 0) {
        if (chroot(p->root) || chdir("/") || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0) _exit(126);
        execve(p->argv[0], p->argv, environ);
        _exit(127);
    }
    int status = 0;
    struct rusage usage;
    if (pid < 0 || wait4(pid, &status, 0, &usage) != pid) { perror("spawn"); exit(1); }
    p->us[run] = now() - start;
    if (usage.ru_maxrss > p->rss) p->rss = usage.ru_maxrss;
    if (status != 0) p->failed = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
    struct program programs[MAX];
    int count = 0, runs = argc > 3 ? atoi(argv[1]) : 0;
    if (runs < 1) { fputs("usage: spawn N OUT { -- NAME ROOT PROGRAM [ARGUMENT]... }...\n", stderr); return 2; }
    emptied = argv[2];
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--") != 0) continue;
        argv[i] = NULL;
        if (count == MAX || i + 3 >= argc) { fputs("spawn: too many or too short programs\n", stderr); return 2; }
        programs[count++] = (struct program){argv[i + 1], argv[i + 2], argv + i + 3, calloc(runs, sizeof(double)), 0, 0};
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    // In a new order every time: what runs after a costly program finds cold caches.
    int order[MAX];
    for (int i = 0; i < count; i++) order[i] = i;
    for (int run = 0; run < runs; run++) {
        for (int i = count - 1; i > 0; i--) {
            int j = rand() % (i + 1), other = order[i];
            order[i] = order[j];
            order[j] = other;
        }
        for (int i = 0; i < count; i++) spawn(&programs[order[i]], run, null);
    }
    double base = 0;
    for (int i = 0; i < count; i++) {
        struct program *p = &programs[i];
        qsort(p->us, runs, sizeof(double), compare);
        double median = p->us[runs / 2];
        if (i == 0) base = median;
        printf("| %s | %.0f | %.0f | %.0f | %.2f | %ld |", p->name, median, p->us[runs / 10], p->us[runs * 9 / 10],
               median / base, p->rss);
        if (p->failed) printf(" exit status %d", p->failed);
        putchar('\n');
    }
    return 0;
}
