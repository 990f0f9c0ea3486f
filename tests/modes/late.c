// A program that opens modules whose threads allocate, and closes and opens them again, in the other order.
//
//   late PLUGIN...
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  enum { MOST = 8 };
  void *plugin[MOST];
  if (argc < 2 || argc > MOST) return 2;
  for (int round = 0; round < 2; round++) {
    for (int i = 1; i < argc; i++) {
      plugin[i] = dlopen(argv[round ? argc - i : i], RTLD_NOW | RTLD_LOCAL);
      if (!plugin[i]) return fprintf(stderr, "late: %s\n", dlerror()), 1;
      void (*run)(void) = (void (*)(void))dlsym(plugin[i], "plugin_run");
      if (!run) return 1;
      run();
    }
    for (int i = 1; i < argc; i++) dlclose(plugin[i]);
  }
  return 0;
}
