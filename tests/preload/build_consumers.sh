#!/bin/sh
# Installs the project into a temporary prefix and builds and runs the projects that use it: one
# with CMake's find_package, one with pkg-config, one that links librtmalloc-override.o first, and
# one where librtmalloc.a lives beside the system's malloc.
#   build_consumers.sh BUILD_DIRECTORY
set -eu

build=$(cd "${1:?usage: build_consumers.sh BUILD_DIRECTORY}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
prefix=$work/prefix
export CC="${CC:-cc}"

echo "== install into $prefix"
cmake --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }

echo "== find_package(rtmalloc)"
cmake -S "$here/consumer-cmake" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC" >"$work/cmake.log" 2>&1 \
  && cmake --build "$work/cmake" >>"$work/cmake.log" 2>&1 || { cat "$work/cmake.log"; exit 1; }
"$work/cmake/with_static"
"$work/cmake/with_shared"

echo "== pkg-config rtmalloc"
"$here/consumer-pkgconfig/build.sh" "$prefix" "$work/pkgconfig"

echo "== the C++ headers"
(cd "$prefix/include" && printf '#include <%s>\n' rtmalloc/*.hpp) >"$work/headers.cpp"
"${CXX:-c++}" -std=c++17 -I"$prefix/include" -fsyntax-only "$work/headers.cpp"

echo "== librtmalloc-override.o, linked first"
"$CC" -fno-builtin -o "$work/overridden" "$build/librtmalloc-override.o" "$here/consumer-override/overridden.c" -lpthread -ldl
"$work/overridden"

echo "== librtmalloc.a beside the system's malloc"
"$CC" -fno-builtin -I"$prefix/include" -o "$work/beside" "$here/consumer-override/beside.c" "$build/librtmalloc.a" -lpthread -ldl
"$work/beside"
echo "all consumers built and ran"
