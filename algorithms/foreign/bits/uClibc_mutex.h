// For foreign_dlmalloc_272.c: the locks that uClibc has, which are none here.
#define __UCLIBC_MUTEX_EXTERN(name) extern int name
#define __UCLIBC_MUTEX_LOCK(name) (void)0
#define __UCLIBC_MUTEX_UNLOCK(name) (void)0
