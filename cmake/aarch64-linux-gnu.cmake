# Cross-compiling for aarch64; the tests run under qemu-user.
#   cmake -S . -B build-aarch64 --toolchain cmake/aarch64-linux-gnu.cmake -DRTM_LOADS=OFF
#   cmake --build build-aarch64 && RTM_TEST_OPERATIONS=300 ctest --test-dir build-aarch64 -L unit
# Debian: gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
