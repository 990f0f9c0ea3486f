# A thin layer over CMake: `make` builds everything into build/. The two commands of the README are demo and test.
JOBS ?= $(shell nproc)
MAKEFLAGS += --no-print-directory
CTEST = ctest --test-dir build --output-on-failure

.PHONY: all setup lab demo test bench peers fuzz sanitizers aarch64 install clean

all:
	cmake --preset release
	cmake --build build -j$(JOBS)

# Debian packages that are missing (needs root or sudo); nothing where all are there.
setup:
	tools/setup-debian $(SETUP)

.venv/installed: lab/pyproject.toml tools/rtmalloc/pyproject.toml
	python3 -m venv .venv
	.venv/bin/pip install --quiet --editable 'lab[test]' --editable 'tools/rtmalloc[test]'
	touch $@
lab: .venv/installed

demo:
	tools/setup-debian build demo
	$(MAKE) lab
	cmake --preset release >/dev/null
	cmake --build build -j$(JOBS) --target rtmalloc_shared rtlab_measure rtlab_probe control_loop \
		algorithm_tlsf_preload
	.venv/bin/rtlab demo

test:
	tools/setup-debian build test
	$(MAKE) lab
	$(MAKE) all
	$(CTEST) -j$(JOBS)
	$(MAKE) sanitizers aarch64

peers:
	tools/setup-debian build bench
	$(MAKE) lab
	.venv/bin/rtlab peers

bench:
	tools/setup-debian build demo bench
	$(MAKE) all lab
	.venv/bin/rtlab peers
	.venv/bin/rtlab bench $(BENCH)

# Long forms of what `make test` does for seconds.
# Five fuzzers, one after another: an hour.
FUZZ_SECONDS ?= 720
fuzz:
	tools/setup-debian build test
	$(MAKE) lab
	$(MAKE) all
	FUZZ_SECONDS=$(FUZZ_SECONDS) ctest --test-dir build -L fuzz --verbose

sanitizers:
	tools/setup-debian build test
	tests/sanitizers.sh 'address;undefined'
	CC=clang CXX=clang++ tests/sanitizers.sh thread

aarch64:
	tools/setup-debian build test
	tests/aarch64.sh

install: all
	cmake --install build

clean:
	rm -rf build build-*
