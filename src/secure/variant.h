// Which variant of the library this is: the secure one is built from the same sources with RTM_SECURE defined.
// Bottom layer. Conditions on these constants cost nothing in the variant that they are false in.
#ifndef RTM_VARIANT_H
#define RTM_VARIANT_H

#ifdef RTM_SECURE
enum { SECURE_VARIANT = 1 };
#else
enum { SECURE_VARIANT = 0 };
#endif

#endif
