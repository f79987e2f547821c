# Two commands on a fresh machine with Python 3.11: `make demo` and `make test`. Everything else is for developers.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
NODE := tests/node/node_modules/.ready
DSH := tests/dsh/.host/.ready
SANDBOX := tests/.tools/.ready

# Tests wait more than they compute, so two processes are right even on one core.
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-dsh pictures faults check format requirements soak bench test-agents clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[engine,dev]'
	touch $@

# Node comes from a PyPI wheel; npm puts the pinned TypeScript clients beside the tests.
$(NODE): tests/node/package.json $(STAMP)
	$(BIN)/python tests/node/install.py
	touch $@

# Bubblewrap, from the distribution's package where it is not installed.
$(SANDBOX): tests/helpers/bubblewrap.py $(STAMP)
	$(BIN)/python tests/helpers/bubblewrap.py
	mkdir -p $(@D) && touch $@

# The real host is a PyPI wheel; pnpm, TypeScript and wheels for private environments come with it.
$(DSH): tests/dsh/install.py tests/dsh/package.json $(STAMP)
	$(BIN)/python tests/dsh/install.py
	touch $@

demo: $(STAMP) ## the main job on the embedded engine, offline, end to end
	$(BIN)/antigravity-acp demo

# A file's tests stay together: they share what is costly to set up, and those that measure do not meet themselves.
test: $(STAMP) $(NODE) $(SANDBOX) ## all tests (under 12 minutes on two cores)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

test-dsh: $(DSH) ## the bundle in the real DeepSeek Harness
	$(BIN)/python -m pytest tests/dsh -m dsh --timeout 600 -n $(JOBS) --dist loadfile

pictures: $(DSH) ## the pictures of the docs, from the real host in Chromium
	$(BIN)/python tests/dsh/pictures.py

faults: $(STAMP) ## the fault matrix of an agent, stage by fault, printed as tables (part of `make test`)
	$(BIN)/python -m pytest tests/faults -q --matrix

check: $(STAMP) ## format, lint, types, import rule of the wings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP) ## format and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

requirements: $(STAMP) ## every requirement id with the tests that prove it
	$(BIN)/python tests/requirements_report.py

soak: $(STAMP) $(NODE) $(SANDBOX) ## long tests
	$(BIN)/python -m pytest -m soak --timeout 1800 -s

bench: $(STAMP) ## ratios, measured side by side; JSON under bench/results/
	$(BIN)/python -m bench

test-agents: $(STAMP) $(NODE) ## one tool turn of foreign agents that npm installs
	$(BIN)/python tests/node/install.py --agents
	$(BIN)/python -m pytest -m agents --timeout 600

clean: ## remove what the commands above made
	rm -rf $(VENV) tests/.tools tests/dsh/.host tests/dsh/node_modules tests/node/node_modules tests/node/agents/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
