/* Names for addresses of a process; see symbols.h.
 *
 * Layer: lab/steps, implements symbols.h.
 */
#include "symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_MODULES = 64 };

struct function {
    uint64_t value, size; /* module offset and bytes */
    const char *name;     /* in the mapped file */
};

struct module {
    char name[64];
    uint64_t start, end;  /* addresses of the executable mapping */
    uint64_t to_offset;   /* address - to_offset = module offset (the file's virtual address) */
    const char *file;     /* mapped for the names' sake; NULL if there is no file */
    size_t file_bytes;
    struct function *functions; /* sorted by value */
    size_t function_count;
};

struct symbols {
    struct module modules[MAX_MODULES];
    size_t count;
};

static int compare_functions(const void *left, const void *right)
{
    const struct function *a = left, *b = right;
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    bool a_reserved = a->name[0] == '_', b_reserved = b->name[0] == '_'; /* aliases: malloc before __libc_malloc */
    return a_reserved != b_reserved ? a_reserved - b_reserved : strcmp(a->name, b->name);
}

static void read_functions(struct module *module, const Elf64_Shdr *table, const Elf64_Shdr *names)
{
    const Elf64_Sym *symbols = (const void *)(module->file + table->sh_offset);
    size_t count = table->sh_size / sizeof *symbols;
    module->functions = malloc((count + 1) * sizeof *module->functions);
    for (size_t i = 0; module->functions != NULL && i < count; i++) {
        int type = ELF64_ST_TYPE(symbols[i].st_info);
        if ((type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) && symbols[i].st_shndx != SHN_UNDEF &&
            symbols[i].st_shndx < SHN_LORESERVE && symbols[i].st_name != 0)
            module->functions[module->function_count++] = (struct function){
                symbols[i].st_value, symbols[i].st_size, module->file + names->sh_offset + symbols[i].st_name};
    }
    if (module->function_count > 0)
        qsort(module->functions, module->function_count, sizeof *module->functions, compare_functions);
}

/* `file_offset`: of the mapping's start. Without a usable file the module keeps just its name. */
static void read_file(struct module *module, const char *path, uint64_t file_offset)
{
    module->to_offset = module->start;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0 || status.st_size < (off_t)sizeof(Elf64_Ehdr)) {
        if (file >= 0)
            close(file);
        return;
    }
    void *mapped = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (mapped == MAP_FAILED)
        return;
    module->file = mapped;
    module->file_bytes = (size_t)status.st_size;
    const Elf64_Ehdr *header = mapped;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
        return;

    const Elf64_Phdr *segments = (const void *)(module->file + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && file_offset >= (segments[i].p_offset & ~0xfffull) &&
            file_offset < segments[i].p_offset + segments[i].p_filesz)
            module->to_offset = module->start - (segments[i].p_vaddr - segments[i].p_offset + file_offset);

    const Elf64_Shdr *sections = (const void *)(module->file + header->e_shoff), *table = NULL;
    if (header->e_shoff == 0 || header->e_shoff + header->e_shnum * sizeof *sections > module->file_bytes)
        return;
    for (int i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB || (sections[i].sh_type == SHT_DYNSYM && table == NULL))
            table = &sections[i];
    if (table != NULL)
        read_functions(module, table, &sections[table->sh_link]);
}

struct symbols *symbols_open(const char *maps)
{
    struct symbols *symbols = calloc(1, sizeof *symbols);
    for (const char *line = maps; symbols != NULL && line != NULL && *line != '\0' && symbols->count < MAX_MODULES;) {
        unsigned long long start, end, offset;
        char permissions[8], path[512] = "";
        int fields = sscanf(line, "%llx-%llx %7s %llx %*s %*s%*[ ]%511[^\n]", &start, &end, permissions, &offset, path);
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
        if (fields < 5 || permissions[2] != 'x')
            continue;
        struct module *module = &symbols->modules[symbols->count++];
        const char *slash = strrchr(path, '/');
        snprintf(module->name, sizeof module->name, "%.63s", slash != NULL ? slash + 1 : path);
        module->start = start;
        module->end = end;
        read_file(module, path, offset);
    }
    return symbols;
}

uint64_t symbols_address(const struct symbols *symbols, const char *name, const char *function)
{
    for (size_t m = 0; symbols != NULL && m < symbols->count; m++) {
        const struct module *module = &symbols->modules[m];
        for (size_t i = 0; strcmp(module->name, name) == 0 && i < module->function_count; i++)
            if (strcmp(module->functions[i].name, function) == 0)
                return module->functions[i].value + module->to_offset;
    }
    return 0;
}

struct symbol_place symbols_find(const struct symbols *symbols, uint64_t address)
{
    for (size_t m = 0; symbols != NULL && m < symbols->count; m++) {
        const struct module *module = &symbols->modules[m];
        if (address < module->start || address >= module->end)
            continue;
        struct symbol_place place = {.module = module->name, .module_offset = address - module->to_offset};
        place.offset = place.module_offset;
        size_t low = 0, high = module->function_count; /* the first function above the address */
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (module->functions[middle].value <= place.module_offset)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == 0)
            return place;
        const struct function *below = &module->functions[low - 1];
        while (below > module->functions && below[-1].value == below->value)
            below--;
        place.offset -= below->value;
        bool inside = place.offset < below->size || below->size == 0; /* assembly labels have no size */
        *(inside ? &place.function : &place.before) = below->name;
        return place;
    }
    return (struct symbol_place){.module = "?", .offset = address, .module_offset = address};
}

void symbols_close(struct symbols *symbols)
{
    for (size_t m = 0; symbols != NULL && m < symbols->count; m++) {
        free(symbols->modules[m].functions);
        if (symbols->modules[m].file != NULL)
            munmap((void *)symbols->modules[m].file, symbols->modules[m].file_bytes);
    }
    free(symbols);
}
