// See module.h.
#define _GNU_SOURCE
#include "module.h"

#include <link.h>
#include <string.h>

#include "file.h"

enum { PATH = 4096 };

// `self` is where the program's own path goes. (What the linker calls the program is its first argument, which programs
// overwrite to show what they do.)
static const char *file_name(const struct dl_phdr_info *module, char *self) {
  const char *path = module->dlpi_name;
  if (!*path) path = os_program_path(self, PATH) ? self : "";
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  return strcmp(name, "*") == 0 ? "./*" : name;  // "*" is a profile's record of the whole process
}

struct search {
  uintptr_t address;
  char *name;
  size_t size;
  uint64_t *offset;
};

static int holds(struct dl_phdr_info *module, size_t size, void *argument) {
  (void)size;
  const struct search *search = argument;
  char self[PATH];
  uintptr_t offset = search->address - module->dlpi_addr;
  for (unsigned i = 0; i < module->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &module->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || offset - part->p_vaddr >= part->p_memsz) continue;
    const char *name = file_name(module, self);
    size_t length = strlen(name);
    if (length > search->size - 1) length = search->size - 1;
    memcpy(search->name, name, length);
    search->name[length] = 0;
    *search->offset = offset;
    return 1;
  }
  return 0;
}

bool os_module_of(uintptr_t address, char *name, size_t size, uint64_t *offset) {
  struct search search = {address, name, size, offset};
  return dl_iterate_phdr(holds, &search) != 0;
}

struct named {
  const char *name;
  size_t size;
  uintptr_t base;
};

static int is_named(struct dl_phdr_info *module, size_t size, void *argument) {
  (void)size;
  struct named *named = argument;
  char self[PATH];
  if (strncmp(file_name(module, self), named->name, named->size - 1) != 0) return 0;
  named->base = module->dlpi_addr;
  return 1;
}

bool os_module_base(const char *name, size_t size, uintptr_t *base) {
  struct named named = {name, size, 0};
  if (!dl_iterate_phdr(is_named, &named)) return false;
  *base = named.base;
  return true;
}
