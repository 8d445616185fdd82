# Everything a newcomer types. All of it stays in this checkout: .venv (Python), target (Rust), results (what was measured).
# `make setup PYTHON=python3.12` picks an interpreter; ARGS="..." is handed to pytest or to the bench.

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
PIP_INSTALL := $(PIP) install --root-user-action=ignore
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --durations 10 --durations-min 5
RUST_SOURCES := Cargo.toml Cargo.lock $(wildcard crates/*/Cargo.toml) $(shell find crates -name '*.rs')
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

.PHONY: help
help: ## say what can be made
	@echo 'make TARGET, where TARGET is one of:'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-13s %s\n", $$1, $$2 }'

.PHONY: demo
demo: setup ## say how much faster storage could gain on this machine, at most
	@$(BIN)/storagelab demo

# Linters and Rust's tests stand beside each other; pytest comes last, as it fills all cores by itself.
SIDE_BY_SIDE := $(MAKE) --no-print-directory --jobs 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

.PHONY: test
test: setup-dev ## everything: linters, layers, types, Rust and Python tests (some 20 minutes on 2 slow cores)
	@$(SIDE_BY_SIDE) lint test-rust
	@$(MAKE) --no-print-directory test-python

.PHONY: check
check: setup-dev ## as test, without the slow tests
	@$(SIDE_BY_SIDE) lint test-rust
	@$(MAKE) --no-print-directory test-quick

.PHONY: validate
validate: setup-dev test-tools ## what `make test` leaves out, before a release: figures confirmed by many drawings, kills at random moments
	@echo 'pytest, campaigns only ...'
	@$(PYTEST) -m campaign $(ARGS)

.PHONY: docs
docs: setup-dev ## write the documentation's tables, and build its site in build/docs
	@$(BIN)/python tools/make_docs.py $(ARGS)

.PHONY: bench
bench: setup-dev ## what storagelab itself costs, as paired ratios
	@$(BIN)/python -m bench $(ARGS)

.PHONY: wheel
wheel: setup $(STAMPS)/release ## build wheels for Linux, which install without a compiler, and a source distribution, in build/wheels
	@PATH="$(CURDIR)/$(BIN):$$PATH" tools/build-wheels.sh build/wheels

.PHONY: release
release: wheel ## build, check and try what would be released, and write its notes from CHANGELOG.md; nothing is uploaded
	@$(BIN)/python tools/release.py build/wheels

# --- Setting up: each step leaves a stamp, and is done again only when what it was made from has changed -------------

.PHONY: setup
setup: $(STAMPS)/package ## install storagelab into .venv, from requirements.lock

.PHONY: setup-dev
setup-dev: setup $(STAMPS)/dev ## the same, and what linters and tests need

# umask: as root, servers run as another user, who must be able to read what is installed.
# --no-deps: a lock is complete. pip would look for `coverage[toml]`, which no lock pins in these words, and refuse a newer release of it.

# A checkout that was copied or moved holds a .venv that still points at its old place: it is made again.
ifneq ($(shell cat $(STAMPS)/venv 2>/dev/null),$(CURDIR))
.PHONY: $(STAMPS)/venv
endif
$(STAMPS)/venv:
	@echo 'making a virtual environment in $(VENV) ...'
	@umask 022; PYTHON='$(PYTHON)' tools/make-venv.sh $(VENV)
	@mkdir -p $(STAMPS) && echo "$(CURDIR)" > $@

$(STAMPS)/runtime: requirements.lock $(STAMPS)/venv
	@echo 'installing pinned packages into $(VENV) ...'
	@umask 022; $(PIP_INSTALL) --no-deps --require-hashes --only-binary :all: -r requirements.lock
	@touch $@

# PATH: the build backend is found there, since it is installed in .venv and not in a throw-away environment.
$(STAMPS)/package: $(RUST_SOURCES) pyproject.toml $(STAMPS)/runtime
	@echo 'building the Rust extension and installing storagelab into $(VENV) ...'
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# What tests read files of stands apart: what it says it depends on does not fit beside ours, or is not needed.
$(STAMPS)/dev: requirements-dev.lock requirements-alone.txt $(STAMPS)/runtime | $(STAMPS)/package
	@echo 'installing pinned packages for linters and tests into $(VENV) ...'
	@umask 022; $(PIP_INSTALL) --no-deps --require-hashes --only-binary :all: -r requirements-dev.lock
	@$(PIP_INSTALL) --no-deps --require-hashes --only-binary :all: -r requirements-alone.txt
	@touch $@

$(STAMPS)/release: requirements-release.lock $(STAMPS)/runtime
	@echo 'installing pinned packages for releases into $(VENV) ...'
	@$(PIP_INSTALL) --no-deps --require-hashes --only-binary :all: -r requirements-release.lock
	@touch $@

.PHONY: test-tools
test-tools:
	@tools/install-test-tools.sh

# --- Linters and tests, one target each, so that they can be typed alone and run side by side -------------------------

.PHONY: lint lint-style lint-size lint-types lint-layers lint-rust
lint: lint-style lint-size lint-types lint-layers lint-rust ## linters, formats, sizes, types and layers only

lint-style: setup-dev
	@echo 'ruff ...'
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .

lint-size: setup-dev
	@echo 'sizes ...'
	@$(BIN)/python tools/count_house.py --check

lint-types: setup-dev
	@echo 'mypy --strict ...'
	@$(BIN)/mypy --no-error-summary

lint-layers: setup-dev
	@echo 'import layers ...'
	@$(BIN)/lint-imports --no-logo --no-cache > $(VENV)/layers.log || { cat $(VENV)/layers.log; exit 1; }

lint-rust: setup-dev
	@echo 'cargo fmt, cargo clippy ...'
	@cargo fmt --check && cargo clippy --quiet --locked --workspace --all-targets -- -D warnings

.PHONY: test-rust test-python test-quick
test-rust: setup-dev ## the tests of the Rust crates
	@echo 'cargo test ...'
	@cargo test --quiet --locked --package storagelab-sim --package storagelab-replay

# A test that failed while all cores were busy may have lacked a CPU. Up to ten such tests are run again, one at a time.
FAILED := .pytest_cache/v/cache/lastfailed
AGAIN = [ "$$(grep -c true $(FAILED))" -le 10 ] \
  && echo 'pytest, those that failed beside others, alone ...' && $(PYTEST) $(ARGS) --numprocesses 0 --last-failed

test-python: setup-dev test-tools ## the Python tests; ARGS="-k waits" for some of them
	@echo 'pytest ...'
	@rm -f $(FAILED)
	@$(PYTEST) $(ARGS) || { [ $$? = 1 ] && $(AGAIN); }

test-quick: setup-dev
	@echo 'pytest, slow tests left out ...'
	@$(PYTEST) -m 'not slow and not campaign' $(ARGS)

# --- Upkeep ----------------------------------------------------------------------------------------------------------

.PHONY: format
format: setup-dev ## put all sources into the house's form
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet . && cargo fmt

.PHONY: lock
lock: ## pin again what requirements*.in and pyproject.toml allow (needs uv; ARGS=--upgrade for newer versions)
	@tools/lock.sh $(ARGS)

.PHONY: clean
clean: ## remove what was built and installed here; results stay
	@rm -rf $(VENV) target build src/storagelab/_sim*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
