// Where code lies, named so that it is the same in another run: the module's file name, and the offset in it. Layer:
// above file. Takes the dynamic linker's lock for its list of modules, which it never holds while a module's own code
// runs.
#ifndef RTM_OS_MODULE_H
#define RTM_OS_MODULE_H

#include "../bits.h"

// The module that the address lies in: its file name without folders, cut to size - 1 bytes, and the offset from where
// it was loaded. False if it lies in none.
bool os_module_of(uintptr_t address, char *name, size_t size, uint64_t *offset);
// Where the module of this name was loaded; names are compared up to size - 1 bytes. False if none has it.
bool os_module_base(const char *name, size_t size, uintptr_t *base);

#endif
