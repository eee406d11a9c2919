# Every target sets up what it needs; `make demo` and `make test` are all a newcomer has to know.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check bench chaos interop clean setup

setup: $(STAMP)

# pip compiles what it installs; our own sources are compiled here, so that every start is a quick one.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("agentos needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m compileall -q src
	touch $(STAMP)

demo: $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/demo.sh

test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses 4 --dist worksteal

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The long runs: hundreds of kills at random moments, thousands of examples.
chaos: $(STAMP)
	$(BIN)/python -m pytest -m chaos --numprocesses auto --timeout 3600

# Other people's servers as ours: a LiteLLM proxy, in an environment of its own, answering by itself.
interop: $(STAMP) .venv-interop/.installed
	$(BIN)/python -m pytest tests/interop

.venv-interop/.installed: Makefile
	$(PYTHON) -m venv .venv-interop
	.venv-interop/bin/python -m pip install --quiet --disable-pip-version-check 'litellm[proxy]>=1.106'
	touch .venv-interop/.installed

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) .venv-interop build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
