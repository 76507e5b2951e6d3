# The whole developer interface; `make` alone lists it. Everything is installed into .venv, which is made on first use
# and brought up to date when the files it was made from change (docs/decisions/0002-two-commands-and-the-venv.md).
#
#   PYTHON=python3.12 make test     another Python (3.11 or later)
#   CXX=clang++ make test           another C++ compiler
#   make test ARGS="-k gaussian"    more words for pytest
#   make bench CASES="ami*,import"  some of the benchmark cases
#   make battery SETS="noise-*"     some of the labelled sets
#   make fuzz SECONDS=600 FAMILIES=mixture,dbscan   a longer random search, of some families

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STEP := scripts/step.sh
CORE := $(shell find core -type f ! -path '*/tests/*' 2>/dev/null)
export VENV

# A compiler cache, where there is one: the wheel that the tests build has been compiled before, in another directory.
# Paths below the base directory are hashed relative to it. It is the whole checkout, not core alone: the bindings also
# include nanobind's headers from .venv, by absolute paths, and would never be found in the cache of another checkout.
ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
export CCACHE_DIR := $(CURDIR)/build/ccache
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
endif

# The package is installed in place, so each process that the tests start would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE

# Another PYTHON or CXX than last time makes everything anew.
CHOSEN := $(PYTHON)|$(if $(filter default,$(origin CXX)),,$(CXX))
$(shell mkdir -p build && { printf '%s\n' '$(CHOSEN)' | cmp -s - build/chosen || printf '%s\n' '$(CHOSEN)' >build/chosen; })

.DEFAULT_GOAL := help
.PHONY: help demo test check same-bits bench battery judge fuzz storm clean

help:
	@echo 'make demo    install into $(VENV), compare the methods on a real table, write demo/report.html'
	@echo 'make test    install into $(VENV), run all tests, C++ and Python          (ARGS="-k name" for some)'
	@echo 'make check   style, types, warnings as errors, sanitizers, other machines  (everything but the tests)'
	@echo 'make same-bits   which fits differ from those of another checkout   (BEFORE=../other-checkout, where make test has run)'
	@echo 'make bench   install the peers, time knoll beside them                     (CASES="ami*,import" for some)'
	@echo '             or beside knoll of another checkout, where make test has run  (BEFORE=../other-checkout)'
	@echo 'make battery how good the recommendation of knoll.compare is, beside scikit-learn    (SETS="noise-*" for some)'
	@echo 'make judge   train the tables that knoll.compare chooses by, from seeds       (about an hour)'
	@echo 'make fuzz    a random search for wrong answers, a minute per family   (SECONDS=600 FAMILIES=mixture,dbscan)'
	@echo 'make storm   kill workers of a dask cluster during fits, and compare bits    (CASES="kills slow" for some)'
	@echo 'make clean   remove everything that make has made'

# ---- what is installed: one stamp per layer -----------------------------------------------------------------------------

$(VENV)/.made: scripts/venv.sh scripts/find-python.sh build/chosen
	@if [ -e $@ ] && [ build/chosen -nt $@ ]; then rm -rf $(VENV) build/cp3* build/core-*; fi
	@$(STEP) 'virtual environment' scripts/venv.sh
	@touch $@

# The build tools live in the environment, not in a throw-away one, so that a change to the core rebuilds only itself.
$(VENV)/.build-tools: $(VENV)/.made pyproject.toml scripts/install.py
	@$(STEP) 'build tools' $(BIN)/python scripts/install.py build
	@touch $@

$(VENV)/.knoll: $(VENV)/.build-tools pyproject.toml CMakeLists.txt $(CORE)
	@$(STEP) 'knoll with its core' $(BIN)/python -m pip install --disable-pip-version-check --quiet \
	  --no-build-isolation --editable '.[test]'
	@touch $@

$(VENV)/.check-tools: pyproject.toml | $(VENV)/.knoll
	@$(STEP) 'check tools' $(BIN)/python scripts/install.py check
	@touch $@

$(VENV)/.bench-peers: pyproject.toml | $(VENV)/.knoll
	@$(STEP) 'benchmark peers' $(BIN)/python scripts/install.py bench
	@touch $@

# ---- the commands -------------------------------------------------------------------------------------------------------

demo: $(VENV)/.knoll
	@$(BIN)/knoll compare --out demo --force

test: test-core test-python

same-bits: $(VENV)/.knoll
	@$(BIN)/python -m tests.digest --before '$(BEFORE)'

bench: $(VENV)/.bench-peers $(VENV)/.knoll
	@$(BIN)/python -m benchmarks$(if $(BEFORE),.between --before '$(BEFORE)') $(if $(CASES),--cases '$(CASES)')

battery: $(VENV)/.knoll
	@$(BIN)/python -m battery $(if $(SETS),--sets '$(SETS)',--write)

judge: $(VENV)/.knoll
	@$(BIN)/python -m battery.train

fuzz: $(VENV)/.knoll
	@$(BIN)/python -m fuzz --seconds $(or $(SECONDS),60) $(if $(FAMILIES),--families '$(FAMILIES)') \
	  $(if $(SEED),--seed $(SEED)) --jobs 2

storm: $(VENV)/.knoll
	@$(BIN)/python -m storm $(CASES)

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis src/knoll/_core.pyi
	find src tests battery benchmarks fuzz storm examples scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# ---- make test ----------------------------------------------------------------------------------------------------------

.PHONY: test-core test-python
test-core: $(VENV)/.knoll
	@$(STEP) 'core tests, every instruction set' scripts/core-tests.sh release

test-python: | test-core
	@$(BIN)/python -m pytest -q -n auto --maxprocesses=4 $(ARGS)

# ---- make check, from the quick to the slow -----------------------------------------------------------------------------

CHECKS := check-lint check-format check-types check-symbols check-portable \
          check-address check-thread check-old-x86 check-arm
.PHONY: $(CHECKS)
check: $(CHECKS)

check-lint: $(VENV)/.check-tools
	@$(STEP) 'ruff: lint' $(BIN)/ruff check .
check-format: $(VENV)/.check-tools
	@$(STEP) 'format: Python' $(BIN)/ruff format --check .
	@$(STEP) 'format: C++' $(BIN)/clang-format --dry-run -Werror $(shell find core -name '*.[chi]pp' -o -name '*.inl')
check-types: $(VENV)/.check-tools $(VENV)/.knoll
	@$(STEP) 'mypy: strict' scripts/check-types.sh
check-symbols: $(VENV)/.knoll
	@$(STEP) 'no wide instruction leaks' scripts/check-symbols.sh
check-portable: $(VENV)/.build-tools
	@$(STEP) 'portable kernels' scripts/core-tests.sh portable
check-address: $(VENV)/.build-tools
	@$(STEP) 'sanitizers: address, undefined' scripts/core-tests.sh address
check-thread: $(VENV)/.build-tools
	@$(STEP) 'sanitizer: thread' scripts/core-tests.sh thread
check-old-x86: $(VENV)/.knoll
	@$(STEP) 'x86-64 without AVX (qemu)' scripts/core-tests.sh old-x86
check-arm: $(VENV)/.build-tools
	@$(STEP) 'aarch64 (qemu)' scripts/core-tests.sh arm

# ---- random calls -------------------------------------------------------------------------------------------------------

# Every function of the native core with wrong arguments, under sanitizers:  make fuzz-address SECONDS=60 SEED=1
.PHONY: fuzz-address
fuzz-address: $(VENV)/.knoll
	@scripts/fuzz-address.sh $(or $(SECONDS),600) $(or $(SEED),0)
