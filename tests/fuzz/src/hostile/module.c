/* SPDX-License-Identifier: MIT
 * What a C module of a script may do to the router that loads it: see hostile.rs. Built several times, each with a
 * constructor of another kind. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t table[4096];

/* Computes for a while; for ever if it is 0. */
static void compute(int milliseconds) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (uint64_t n = 0;; n++) {
    table[n & 4095] += n;
    if (milliseconds == 0 || n & 0xffff) continue;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 > milliseconds) return;
  }
}

#ifdef CONSTRUCTOR
__attribute__((constructor)) static void prepare(void) {
  void *kept = malloc(100);
  compute(CONSTRUCTOR);
  free(kept);
}
#endif
#ifdef DESTRUCTOR
__attribute__((destructor)) static void leave(void) { compute(DESTRUCTOR); }
#endif

void computes(int milliseconds) { compute(milliseconds); }

/* With much on the stack that was never written: what earlier calls have left there looks like return addresses. */
void computes_on_a_deep_stack(int milliseconds) {
  volatile char old[20000];
  old[0] = 1;
  compute(milliseconds);
}

void sleeps(int seconds) { sleep(seconds); }
void waits_for_a_pipe(void) { int ends[2]; char byte; if (pipe(ends) == 0) for (;;) (void)!read(ends[0], &byte, 1); }
void waits_for_a_file(void) {
  int ends[2];
  char byte;
  if (pipe(ends) == 0) (void)!fread(&byte, 1, 1, fdopen(ends[0], "r"));
}
void waits_for_itself(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_lock(&mutex);
}
void waits_for_a_condition(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&mutex);
  for (;;) pthread_cond_wait(&condition, &mutex);
}

void allocates(void) {
  for (unsigned n = 1;; n++) {
    char *some = malloc(n % 100000 + 1);
    if (some) memset(some, 1, n % 4096 < n % 100000 + 1 ? n % 4096 : 1);
    free(some);
  }
}
void allocates_pages(void) {
  for (;;) {
    void *page = malloc(1 << 20);
    if (page) memset(page, 1, 1 << 20);
    free(page);
  }
}
void keeps_a_file_locked(void) { FILE *file = tmpfile(); if (file) flockfile(file); compute(0); }
void prints(void) { FILE *file = fopen("/dev/null", "w"); for (unsigned n = 0; file;) fprintf(file, "%u", n++); }

/* Code of the C library or of the dynamic loader that calls back, with or without a lock. */
typedef int compare(const void *, const void *);
static int computes_instead(const void *one, const void *other) { (void)one; (void)other; compute(0); return 0; }
void sorts_for_ever(void) { int some[] = {3, 2, 1}; qsort(some, 3, sizeof *some, computes_instead); }
static int each(struct dl_phdr_info *info, size_t size, void *data) {
  (void)info;
  (void)size;
  (void)data;
  compute(0);
  return 0;
}
void walks_through_libraries_for_ever(void) { dl_iterate_phdr(each, NULL); }
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void begin(void) { compute(0); }
void begins_for_ever(void) { pthread_once(&once, begin); }
void calls_back(void (*back)(void)) { back(); }
void sorts_by(compare *by) { int some[] = {3, 2, 1}; qsort(some, 3, sizeof *some, by); }

void loads(const char *path) { dlopen(path, RTLD_NOW); }
void looks_for_symbols(void) { for (;;) dlsym(RTLD_DEFAULT, "no_such_symbol"); }

/* Signals. */
void takes_no_signal(int milliseconds) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  compute(milliseconds);
}
static void nothing(int signal) { (void)signal; }
void handles_all_signals(void) {
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++) {
    struct sigaction action = {.sa_handler = nothing};
    sigaction(signal, &action, NULL);
  }
  compute(0);
}
void sends_signals(void) { for (;;) pthread_kill(pthread_self(), SIGRTMIN + 5); }

/* Threads. */
static void *computing(void *milliseconds) { compute((int)(intptr_t)milliseconds); return NULL; }
static void *loading(void *path) { dlopen(path, RTLD_NOW); return NULL; }
static void *crashing(void *unused) { (void)unused; *(volatile int *)16 = 1; return NULL; }
static void start(void *(*body)(void *), void *argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, argument) == 0) pthread_detach(thread);
}
/* Not for ever: it would take its share of the machine from all that follow. */
void starts_a_thread(void) { start(computing, (void *)500); }
void starts_a_thread_that_loads(const char *path) { start(loading, strdup(path)); }
void starts_a_thread_that_crashes(void) { start(crashing, NULL); usleep(100000); }
void joins_a_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, computing, (void *)3000) == 0) pthread_join(thread, NULL);
}

/* Ends. */
void crashes(void) { *(volatile int *)16 = 1; }
void calls_nothing(void) { void (*volatile none)(void) = NULL; none(); }
void runs_what_is_no_code(void) { __builtin_trap(); }
void aborts(void) { abort(); }
void frees_twice(void) { char *volatile some = malloc(10); free(some); free(some); }
void exits(void) { exit(3); }
static volatile int depth;
void recurses(void) { volatile char frame[4096]; frame[0] = 1; depth++; recurses(); frame[1] = 1; }
