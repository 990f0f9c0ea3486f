// For foreign_dlmalloc_272.c, which defines PAGE_SHIFT.
