#!/bin/sh
# A project that finds an installed rtmalloc by pkg-config, shared and static.
#   build.sh PREFIX OUTPUT_DIRECTORY
set -eu

prefix=${1:?usage: build.sh PREFIX OUTPUT_DIRECTORY}
output=${2:?usage: build.sh PREFIX OUTPUT_DIRECTORY}
source=$(dirname "$0")/main.c
file=$(find "$prefix" -name rtmalloc.pc | head -n 1)
[ -n "$file" ] || { echo "no rtmalloc.pc below $prefix" >&2; exit 1; }
export PKG_CONFIG_PATH="$(dirname "$file")"
mkdir -p "$output"
cc=${CC:-cc}

# shellcheck disable=SC2046  # the flags are words
$cc $(pkg-config --cflags rtmalloc) -o "$output/with_shared" "$source" $(pkg-config --libs rtmalloc)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir rtmalloc) "$output/with_shared"

# -l:librtmalloc.a: the linker would take the shared library that lies beside it.
# shellcheck disable=SC2046
$cc $(pkg-config --static --cflags rtmalloc) -o "$output/with_static" "$source" \
  $(pkg-config --static --libs rtmalloc | sed 's/-lrtmalloc\b/-l:librtmalloc.a/')
"$output/with_static"
