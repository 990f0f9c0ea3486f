// See file.h.
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *reason(int number) {
  switch (number) {
    case ENOENT:
      return "there is no such file or folder";
    case ENOTDIR:
      return "a part of its path is no folder";
    case EACCES:
    case EPERM:
      return "this user may not; check the permissions of the file and its folder";
    case EROFS:
      return "the file system is read-only";
    case ENOSPC:
    case EDQUOT:
      return "the disk is full";
    case EFBIG:
      return "it would be larger than this process may write (ulimit -f)";
    case EISDIR:
      return "it is a directory";
    default:
      return "the system refuses it";
  }
}

const char *os_file_size(const char *path, size_t *size) {
  int saved = errno;
  struct stat status;
  const char *wrong = NULL;
  if (stat(path, &status) != 0)
    wrong = reason(errno);
  else if (S_ISDIR(status.st_mode))
    wrong = reason(EISDIR);
  else if (!S_ISREG(status.st_mode))
    wrong = "it is no regular file";
  else
    *size = (size_t)status.st_size;
  errno = saved;
  return wrong;
}

static bool write_pieces(int fd, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t done = write(fd, bytes, count);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes += done;
    count -= (size_t)done;
  }
  return true;
}

// A write beyond the limit of a file's size (ulimit -f) is an error like others, and not the end of the program.
static bool write_all(int fd, const char *bytes, size_t count) {
  sigset_t too_large, before, pending;
  sigemptyset(&too_large);
  sigaddset(&too_large, SIGXFSZ);
  sigpending(&pending);
  bool raised = sigismember(&pending, SIGXFSZ) == 1;
  pthread_sigmask(SIG_BLOCK, &too_large, &before);
  bool good = write_pieces(fd, bytes, count);
  int number = errno;
  if (!good && number == EFBIG && !raised) sigtimedwait(&too_large, NULL, &(struct timespec){0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = number;
  return good;
}

const char *os_replace_file(const char *path, const char *beside, const char *bytes, size_t count) {
  int saved = errno;
  const char *wrong = NULL;
  struct stat status;
  bool exists = stat(path, &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    errno = saved;
    return S_ISDIR(status.st_mode) ? reason(EISDIR) : "it is no regular file";
  }
  int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    wrong = reason(errno);
  } else {
    // Who may read what is replaced may read this.
    if (exists) fchmod(fd, status.st_mode & 0777);
    bool good = write_all(fd, bytes, count);
    if (!good) wrong = reason(errno);
    if (close(fd) != 0 && !wrong) wrong = reason(errno);
    if (!wrong && rename(beside, path) != 0) wrong = reason(errno);
    if (wrong) unlink(beside);
  }
  errno = saved;
  return wrong;
}

int os_lock_folder(const char *path) {
  enum { WAIT_MS = 5, TRIES = 1000 };
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  size_t length = slash ? (size_t)(slash - path) + 1 : 0;
  if (length >= sizeof folder) return -1;
  memcpy(folder, path, length);
  memcpy(folder + length, ".", 2);
  int saved = errno, fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), tries = 0;
  while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if ((errno == EWOULDBLOCK || errno == EINTR) && tries++ < TRIES) {
      poll(NULL, 0, WAIT_MS);
      continue;
    }
    close(fd);
    fd = -1;
  }
  errno = saved;
  return fd;
}

void os_unlock_folder(int lock) {
  int saved = errno;
  // A child that was forked meanwhile has the same lock, and would keep it.
  if (lock >= 0) flock(lock, LOCK_UN);
  if (lock >= 0) close(lock);
  errno = saved;
}

const char *os_write_file(int fd, const char *bytes, size_t count) {
  int saved = errno;
  const char *wrong = write_all(fd, bytes, count) ? NULL : reason(errno);
  if (close(fd) != 0 && !wrong) wrong = reason(errno);
  errno = saved;
  return wrong;
}

const char *os_follow_link(const char **path, char *target) {
  int saved = errno;
  struct stat status;
  const char *wrong = NULL;
  if (lstat(*path, &status) == 0 && S_ISLNK(status.st_mode)) {
    if (realpath(*path, target))
      *path = target;
    else
      wrong = "it is a symbolic link to what is not there";
  }
  errno = saved;
  return wrong;
}

bool os_program_path(char *path, size_t size) {
  int saved = errno;
  ssize_t length = readlink("/proc/self/exe", path, size - 1);
  // Where the main thread has ended (pthread_exit), only the others know it.
  if (length <= 0) length = readlink("/proc/thread-self/exe", path, size - 1);
  errno = saved;
  if (length <= 0) return false;
  path[length] = 0;
  return true;
}
