// Lines on stderr without printf, which allocates. Lowest layer.
#ifndef RT_MIMALLOC_MESSAGE_H
#define RT_MIMALLOC_MESSAGE_H

#include <string.h>
#include <unistd.h>

#ifndef MESSAGE_FROM
#define MESSAGE_FROM "rt-mimalloc"
#endif

// Who says it, then the texts up to the NULL, then a line's end.
static inline void rtmi_say(const char *const *texts) {
  char line[1024] = MESSAGE_FROM ": ";
  for (; *texts; texts++) strncat(line, *texts, sizeof line - strlen(line) - 2);
  strcat(line, "\n");
  if (write(STDERR_FILENO, line, strlen(line)) < 0) return;
}
#define RTMI_SAY(...) rtmi_say((const char *const[]){__VA_ARGS__, NULL})

#endif
