// Whole files, for profiles. Layer: above bits. Nothing here allocates or changes errno.
#ifndef RTM_OS_FILE_H
#define RTM_OS_FILE_H

#include "../bits.h"

// NULL, or why it has none: missing, a directory, no permission.
const char *os_file_size(const char *path, size_t *size);
// Writes `beside`, and renames it to `path` once it is whole. NULL, or why that failed; then `path` is as it was.
const char *os_replace_file(const char *path, const char *beside, const char *bytes, size_t count);
// The file that this process runs, ended by a zero; false if the system does not say.
bool os_program_path(char *path, size_t size);

#endif
