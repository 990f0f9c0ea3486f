// Implements preload_profile.h.
#include "preload_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "preload_message.h"

enum { TEXT_MOST = 200 };

static void say_file(const char *what, const char *path, const char *why) {
  say_name();
  say(what);
  say(" the profile '");
  say(path);
  say("': ");
  say(why);
  say("\n");
}

static void print(char text[TEXT_MOST], size_t bytes) {
  snprintf(text, TEXT_MOST, "%s profile 1\nbytes %zu\n", PRELOAD_ALGORITHM.name, bytes);
}

// 0: the file holds no profile of this allocator.
static size_t read_bytes(int file) {
  char text[TEXT_MOST] = "", same[TEXT_MOST];
  if (pread(file, text, sizeof text - 1, 0) < 0) return 0;
  const char *number = strstr(text, "\nbytes ");
  size_t bytes = number ? strtoull(number + strlen("\nbytes "), NULL, 10) : 0;
  print(same, bytes);
  return strcmp(text, same) == 0 ? bytes : 0;
}

void preload_profile_prepare(char *area, size_t area_bytes, const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  size_t bytes = file < 0 ? 0 : read_bytes(file);
  if (bytes == 0) {
    say_file("cannot load", path, file < 0 ? strerror(errno) : "it is none of this allocator; record it again");
    _exit(2);
  }
  close(file);
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  bytes += page;  // the free block behind the last one begins there
  if (bytes > area_bytes) bytes = area_bytes;
  for (size_t i = 0; i < bytes; i += page) ((volatile char *)area)[i] = 0;
  if (mlock(area, bytes) == 0) return;
  say_name();
  say("cannot lock ");
  say_number(bytes);
  say(" bytes (");
  say(strerror(errno));
  say("): raise ulimit -l\n");
}

void preload_profile_save(const char *path, size_t bytes) {
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  char text[TEXT_MOST];
  // Other processes may save at this moment.
  bool good = file >= 0 && flock(file, LOCK_EX) == 0;
  bool empty = good && lseek(file, 0, SEEK_END) == 0;
  size_t before = good && !empty ? read_bytes(file) : 0;
  if (good && !empty && before == 0) {
    say_file("cannot join", path, "it is none of this allocator; name another file");
  } else {
    print(text, before > bytes ? before : bytes);
    good = good && ftruncate(file, 0) == 0 && pwrite(file, text, strlen(text), 0) == (ssize_t)strlen(text);
    if (!good) say_file("cannot write", path, strerror(errno));
  }
  if (file >= 0) close(file);
}
