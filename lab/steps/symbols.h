/* Names for addresses of a process, from its memory map and the symbol tables of the mapped files.
 *
 * Layer: lab/steps, above nothing; used by tracer.c and worst_trace.c. ELF64 of this machine's byte order only.
 */
#ifndef RTSTEPS_SYMBOLS_H
#define RTSTEPS_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

struct symbols; /* modules and their functions */

/* Where an address lies. Strings live as long as the struct symbols. */
struct symbol_place {
    const char *module;   /* file name without folders, "[vdso]", or "?" */
    const char *function; /* NULL if the file has no symbol for it (stripped): give addr2line module_offset */
    const char *before;   /* then: the nearest symbol below, or NULL */
    uint64_t offset;      /* from the start of the function, or of `before` */
    uint64_t module_offset; /* as addr2line and nm count */
};

/* From the text of /proc/PID/maps. Reads .symtab if a file has one, else .dynsym. */
struct symbols *symbols_open(const char *maps);
/* The address of a function of that module (file name without folders); 0: there is none, or the file is stripped. */
uint64_t symbols_address(const struct symbols *symbols, const char *module, const char *function);
struct symbol_place symbols_find(const struct symbols *symbols, uint64_t address);
void symbols_close(struct symbols *symbols);

#endif
