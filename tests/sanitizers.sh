#!/bin/sh
# Builds the core and its unit tests with sanitizers (thread: the C++ pools and pointers too), in build-<name>, and runs
# them in their short forms.
#   tests/sanitizers.sh 'address;undefined'
#   tests/sanitizers.sh thread
# CC and CXX choose the compiler; RTM_TEST_OPERATIONS the length of the random tests.
set -eu
if [ $# -ne 1 ]; then
  echo "usage: $0 SANITIZERS (for example 'address;undefined' or thread)" >&2
  exit 2
fi
cd "$(dirname "$0")/.."
build=build-$(echo "$1" | tr ';' '-')
export RTM_TEST_OPERATIONS="${RTM_TEST_OPERATIONS:-500}"
# The allocator's own memory is not the sanitizer's to count; the first report ends the test.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=0}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1}"
cmake -S . -B "$build" -DRTM_SANITIZE="$1" -DRTM_LOADS=OFF -DRTM_OVERRIDE=OFF
cmake --build "$build" -j "$(nproc)"
ctest --test-dir "$build" -L 'unit|cxx|proofs' --output-on-failure -j "$(nproc)"
