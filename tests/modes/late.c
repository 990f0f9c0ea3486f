// A program that opens a module whose threads allocate, and closes and opens it again.
//
//   late PLUGIN
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  for (unsigned round = 0; round < 2; round++) {
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return fprintf(stderr, "late: %s\n", dlerror()), 1;
    void (*run)(void) = (void (*)(void))dlsym(plugin, "plugin_run");
    if (!run) return 1;
    run();
    dlclose(plugin);
  }
  return 0;
}
