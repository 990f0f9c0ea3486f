#!/bin/sh
# Cross-builds the core and its unit tests for aarch64 and runs them under qemu-user, in their short forms.
set -eu
cd "$(dirname "$0")/.."
export RTM_TEST_OPERATIONS="${RTM_TEST_OPERATIONS:-1000}"
cmake --preset aarch64
cmake --build build-aarch64 -j "$(nproc)"
ctest --test-dir build-aarch64 -L 'unit|preload' --output-on-failure -j "$(nproc)"
