# Every target installs what it needs. Newcomers only need `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USER_TOOLS := $(VENV)/.installed
TEST_TOOLS := $(VENV)/.installed-test
DEV_TOOLS := $(VENV)/.installed-dev
PIP := -m pip install --quiet --disable-pip-version-check
# Other people's packages, each with the hash of its file; `make lock` writes the lists.
LOCKED = $(PIP) --require-hashes $(patsubst %,--requirement requirements/%.txt,$(1))
PYTEST := $(BIN)/python -m pytest --numprocesses 4 --dist worksteal

.PHONY: setup demo test test-all test-rest check chaos interop bench lock clean

setup: $(USER_TOOLS)

# What users need. pip compiles only the packages it installs, so we compile our own sources here: every start is faster.
$(USER_TOOLS): pyproject.toml $(wildcard requirements/*.txt)
	@$(PYTHON) -c 'import sys; sys.exit("agentos needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(call LOCKED,build user)
	$(BIN)/python $(PIP) --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q src
	touch $@

$(TEST_TOOLS): $(USER_TOOLS)
	$(BIN)/python $(call LOCKED,user postgres test)
	touch $@

$(DEV_TOOLS): $(TEST_TOOLS)
	$(BIN)/python $(call LOCKED,user postgres test dev)
	touch $@

demo: $(USER_TOOLS)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/demo.sh

# Under five minutes, because commands are forked from a process that has already imported everything
# (tests/harness/warm.py).
test: $(TEST_TOOLS)
	$(PYTEST) -m 'not slow and not chaos' tests/unit tests/integration tests/acceptance

# Everything except make chaos, with each command in a new process; then the fast tests in unusual environments.
test-all: $(DEV_TOOLS) .venv-interop/.installed
	AGENTOS_TESTS_COLD=1 $(PYTEST)
	sh scripts/test-environments.sh

# What make test leaves out of test-all, for CI, which runs both.
test-rest: $(DEV_TOOLS) .venv-interop/.installed
	AGENTOS_TESTS_COLD=1 $(PYTEST) tests/acceptance tests/browser tests/interop
	$(PYTEST) -m slow tests/unit tests/integration
	sh scripts/test-environments.sh

check: $(DEV_TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml --severity-level medium src

# The long tests: hundreds of kills at random moments, thousands of examples.
chaos: $(TEST_TOOLS)
	AGENTOS_TESTS_COLD=1 $(BIN)/python -m pytest -m chaos --numprocesses auto --timeout 3600 tests/unit tests/integration tests/acceptance

# Other people's software: their clients against our simulator, and agentos against a LiteLLM proxy in its own
# environment.
interop: $(DEV_TOOLS) .venv-interop/.installed
	$(BIN)/python -m pytest tests/interop

.venv-interop/.installed: requirements/interop.txt
	$(PYTHON) -m venv .venv-interop
	.venv-interop/bin/python $(call LOCKED,interop)
	touch $@

bench: $(DEV_TOOLS)
	$(BIN)/python benchmarks/run.py

# Keeps versions where it can; `make lock UPGRADE=--upgrade` takes the newest.
lock: $(DEV_TOOLS)
	PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/lock.sh $(UPGRADE)

clean:
	rm -rf $(VENV) .venv-interop build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
