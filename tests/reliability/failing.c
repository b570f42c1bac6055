/* Preloaded into a test process: makes the k-th change of a file below a folder fail, or kills the process there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { ONCE, EVER, TORN }; /* fail once; from the k-th on; write half of it, or do nothing of it, and die */
static char below[PATH_MAX];
static long at = -1, count = 0;
static int how = ONCE;

void failing_arm(const char *folder, long k, int mode) {
  strncpy(below, folder, sizeof below - 1);
  at = k, how = mode, count = 0;
}
long failing_count(void) { return count; }

static int inside(const char *path) { return below[0] && strncmp(path, below, strlen(below)) == 0; }

static int held(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return inside(path);
}

static int fails(int mine, int writes) { /* 0: go on, 1: fail, 2: write half and die */
  if (!mine || at < 0) return 0;
  count++;
  if (count == at && how == TORN && writes) return 2;
  if (count == at && how == TORN) kill(getpid(), SIGKILL);
  if (count == at || (how == EVER && count > at)) return errno = ENOSPC, 1;
  return 0;
}

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__) = 0; \
  if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t n) {
  REAL(ssize_t, "write", int, const void *, size_t);
  int f = fails(held(fd), 1);
  if (f == 2) real(fd, data, n / 2), kill(getpid(), SIGKILL);
  return f ? -1 : real(fd, data, n);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t place) {
  REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
  int f = fails(held(fd), 1);
  if (f == 2) real(fd, data, n / 2, place), kill(getpid(), SIGKILL);
  return f ? -1 : real(fd, data, n, place);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t place) { return pwrite64(fd, data, n, place); }
int fsync(int fd) {
  REAL(int, "fsync", int);
  return fails(held(fd), 0) ? -1 : real(fd);
}
int fdatasync(int fd) {
  REAL(int, "fdatasync", int);
  return fails(held(fd), 0) ? -1 : real(fd);
}
int ftruncate64(int fd, off64_t size) {
  REAL(int, "ftruncate64", int, off64_t);
  return fails(held(fd), 0) ? -1 : real(fd, size);
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int rename(const char *from, const char *to) {
  REAL(int, "rename", const char *, const char *);
  return fails(inside(to), 0) ? -1 : real(from, to);
}
int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", const char *, mode_t);
  return fails(inside(path), 0) ? -1 : real(path, mode);
}
int open64(const char *path, int flags, ...) {
  REAL(int, "open64", const char *, int, ...);
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return flags & O_CREAT && fails(inside(path), 0) ? -1 : real(path, flags, mode);
}
int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return open64(path, flags, mode);
}
