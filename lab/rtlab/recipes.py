"""How each peer's library is made from its sources: its own build system, Release, nothing changed.

Each function takes the source's folder and an empty folder to build in, and returns the library.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rtlab.places import find_places
from rtlab.processes import Failed, run_tool

# The crate of mimalloc 2 and 3 leaves out the folder cmake/ of its CMakeLists.txt. These two files stand in for it:
# they only name the version and join paths for the pkg-config file, and touch no source and no flag.
MIMALLOC_CMAKE = {
    "mimalloc-config-version.cmake": "set(mi_version_major {major})\nset(mi_version_minor {minor})\n"
    "set(mi_version_patch {patch})\nset(mi_version {major}.{minor})\n",
    "JoinPaths.cmake": "function(join_paths result first)\n"
    '  string(JOIN "/" joined "${{first}}" ${{ARGN}})\n'
    '  set(${{result}} "${{joined}}" PARENT_SCOPE)\nendfunction()\n',
}


def jobs() -> str:
    return f"-j{os.cpu_count() or 1}"


def only(folder: Path, pattern: str) -> Path:
    """The one real file that matches (links aside)."""
    found = [path for path in sorted(folder.glob(pattern)) if not path.is_symlink()]
    if len(found) != 1:
        raise Failed(f"expected one {pattern} in {folder}, found {len(found)}")
    return found[0]


def cmake(source: Path, build: Path, target: str, *options: str) -> None:
    run_tool(["cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", *options])
    run_tool(["cmake", "--build", build, "--target", target, jobs()])


def mimalloc(folder: str, version: str, secure: bool = False):
    """The recipe for the mimalloc in this folder of the crate; `secure`: with all its mitigations."""
    extra = ("-DMI_SECURE=ON", "-DMI_SECURE_FULL=ON") if secure else ()

    def build(crate: Path, work: Path) -> Path:
        source = work / "source"
        shutil.copytree(crate / "c_src" / "mimalloc" / folder, source)
        if not (source / "cmake").is_dir():
            (source / "cmake").mkdir()
            major, minor, patch = version.split(".")
            for name, text in MIMALLOC_CMAKE.items():
                filled = text.format(major=major, minor=minor, patch=patch)
                (source / "cmake" / name).write_text(filled)
        cmake(
            source,
            work / "build",
            "mimalloc",
            *("-DMI_OVERRIDE=ON", "-DMI_BUILD_SHARED=ON", "-DMI_BUILD_STATIC=OFF"),
            *("-DMI_BUILD_OBJECT=OFF", "-DMI_BUILD_TESTS=OFF"),
            *extra,
        )
        return only(work / "build", "libmimalloc-secure.so*" if secure else "libmimalloc.so*")

    return build


def snmalloc(crate: Path, work: Path) -> Path:
    cmake(
        crate / "upstream",
        work / "build",
        "snmallocshim",
        *("-DSNMALLOC_BUILD_TESTING=OFF", "-DSNMALLOC_STATIC_LIBRARY=OFF"),
    )
    return only(work / "build", "libsnmallocshim.so")


def jemalloc(version: str):
    def build(crate: Path, work: Path) -> Path:
        source, out = work / "source", work / "build"
        shutil.copytree(crate / "jemalloc", source)
        shutil.copy2(crate / "configure" / "configure", source / "configure")
        out.mkdir()
        run_tool(
            [source / "configure", f"--with-version={version}", "--disable-static"],
            cwd=out,
        )
        run_tool(["make", jobs(), "build_lib_shared"], cwd=out)
        return only(out / "lib", "libjemalloc.so*")

    return build


def rpmalloc(crate: Path, work: Path) -> Path:
    """Its build system (configure.py) is not in the crate; these are its release flags for gcc on Linux."""
    source = crate / "rpmalloc" / "rpmalloc"
    library = work / "librpmalloc.so"
    run_tool(
        [
            os.environ.get("CC", "cc"),
            "-std=c11",
            "-O3",
            "-DNDEBUG",
            "-D_GNU_SOURCE",
            "-funroll-loops",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-fno-builtin-malloc",
            "-DENABLE_PRELOAD=1",
            "-DENABLE_OVERRIDE=1",
            "-o",
            library,
            source / "rpmalloc.c",
            "-lpthread",
            "-ldl",
        ]
    )
    return library


# glibc has them no longer since 2.34, and Hoard's wrapper still sets them; what it exports does not depend on them.
MALLOC_HOOKS = """
#include <stddef.h>
static void *(*__malloc_hook)(size_t, const void *);
static void (*__free_hook)(void *, const void *);
static void *(*__realloc_hook)(void *, size_t, const void *);
static void *(*__memalign_hook)(size_t, size_t, const void *);
"""


def hoard(crate: Path, work: Path) -> Path:
    """With the flags of the crate's own build."""
    source, hooks = work / "source", work / "hooks.h"
    shutil.copytree(crate / "Hoard" / "src", source)
    shutil.copytree(crate / "Heap-Layers", source / "Heap-Layers")
    hooks.write_text(MALLOC_HOOKS)
    flags = "-std=c++14 -flto -O3 -DNDEBUG -ffast-math -fno-builtin-malloc -Dalways_inline="
    compiler = f"{os.environ.get('CXX', 'c++')} -include {hooks}"
    run_tool(["make", "Linux-gcc-x86_64", f"CXX={compiler}", f"CPPFLAGS={flags}"], cwd=source)
    return only(source, "libhoard.so")


def foreign(adapter: str, sources: str):
    """An allocator over the caller's memory: `sources` of what was fetched, with its adapter in algorithms/foreign."""

    def build(source: Path, work: Path) -> Path:
        return link_foreign(adapter, work, "-iquote", source / sources)

    return build


def dlmalloc_272(source: Path, work: Path) -> Path:
    """Its files cannot be joined in one: each includes the same header, which has no guard."""
    folder, own, objects = source / "libc" / "stdlib" / "malloc-standard", algorithms() / "foreign", []
    for name in ("malloc", "free", "realloc", "memalign"):
        objects.append(work / f"{name}.o")
        named = ("-include", own / "foreign_dlmalloc_272.h", f"-I{own}", "-c", folder / f"{name}.c", "-o", objects[-1])
        run_tool([*FOREIGN_COMPILER, *named])
    return link_foreign("dlmalloc_272", work, "-iquote", folder, *objects)


# The crate has no C: a library of Rust that the adapter is linked with, from what `cargo vendor` has fetched.
RLSF_MANIFEST = """[package]
name = "rlsf-in-c"
version = "0.0.0"
edition = "2021"
[lib]
path = "{source}"
crate-type = ["staticlib"]
[dependencies]
rlsf = {{ path = "{crate}", default-features = false, features = ["unstable"] }}
[profile.release]
opt-level = 3
lto = true
codegen-units = 1
panic = "abort"
"""
VENDORED = """[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = "{vendor}"
"""


def rlsf(crate: Path, work: Path) -> Path:
    project = work / "rust"
    (project / ".cargo").mkdir(parents=True)
    source = algorithms() / "foreign" / "foreign_rlsf.rs"
    (project / "Cargo.toml").write_text(RLSF_MANIFEST.format(source=source, crate=crate))
    (project / ".cargo" / "config.toml").write_text(VENDORED.format(vendor=crate.parent))
    run_tool(["cargo", "build", "--release", "--offline"], cwd=project)
    return link_foreign("rlsf", work, only(project / "target" / "release", "librlsf_in_c.a"))


def algorithms() -> Path:
    return find_places().root / "algorithms"


# With the flags of algorithms/CMakeLists.txt.
FOREIGN_COMPILER = (
    *(os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-w"),
    *("-fno-strict-aliasing", "-fno-tree-vectorize", "-fno-builtin-malloc", "-fno-builtin-calloc"),
    *("-fno-builtin-realloc", "-fno-builtin-free"),
)


def link_foreign(adapter: str, work: Path, *more: str | Path) -> Path:
    """The library that is preloaded and that lab/paper opens."""
    own, library = algorithms(), work / f"lib{adapter}.so"
    run_tool(
        [
            *(*FOREIGN_COMPILER, "-shared", "-Wl,-z,now", "-Wl,-Bsymbolic"),
            *("-DPRELOAD_ALGORITHM=algorithm_foreign", "-DPRELOAD_LOCK=1", f"-I{own}", f"-I{own / 'foreign'}"),
            *(own / "foreign" / f"foreign_{adapter}.c", own / "preload.c", own / "preload_profile.c", *more),
            *("-o", library, "-lpthread"),
        ]
    )
    return library
