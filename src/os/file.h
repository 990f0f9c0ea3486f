// Whole files, for profiles. Layer: above bits. Nothing here allocates or changes errno.
#ifndef RTM_OS_FILE_H
#define RTM_OS_FILE_H

#include "../bits.h"

// NULL, or why it has none: missing, a directory, no permission.
const char *os_file_size(const char *path, size_t *size);
// Writes `beside`, and renames it to `path` once it is whole. NULL, or why that failed; then `path` is as it was.
// (What is there must be a regular file.)
const char *os_replace_file(const char *path, const char *beside, const char *bytes, size_t count);
// Keeps other processes that ask for the same folder's lock away until os_unlock_folder; waits for them, some seconds
// at most. `path`: a file in the folder. Negative where the folder cannot be locked: the caller goes on without.
int os_lock_folder(const char *path);
void os_unlock_folder(int lock);
// Writes to the open file and closes it. NULL, or why it could not be written.
const char *os_write_file(int fd, const char *bytes, size_t count);
// Where `path` is a symbolic link, `*path` becomes `target`, of PATH_MAX bytes: what it leads to. NULL, or why that is
// nothing.
const char *os_follow_link(const char **path, char *target);
// The file that this process runs, ended by a zero; false if the system does not say.
bool os_program_path(char *path, size_t size);

#endif
