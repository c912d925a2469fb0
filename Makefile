# DevUI: `make` lists what can be done.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LOCK := requirements-dev.lock
HOST ?= 127.0.0.1
PORT ?= 8000
POSTGRES ?= postgresql://postgres@127.0.0.1:5432/devui

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "DevUI needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "Installing DevUI and what it needs: this takes a minute or two, once."
	$(PIP_INSTALL) -e .
	touch $@

# uv installs in seconds what takes pip two minutes; pip does it where only pip is told how packages are reached
$(VENV)/.dev: pyproject.toml $(LOCK) | $(BIN)/python
	@echo "Installing everything that developing needs: this takes a minute or two, once."
	awk '/^[^ #]/ {is_uv = /^uv==/} is_uv' $(LOCK) >$(VENV)/uv.txt
	$(PIP_INSTALL) --require-hashes -r $(VENV)/uv.txt
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r $(LOCK) || \
		$(PIP_INSTALL) --require-hashes -r $(LOCK)
	$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	touch $(VENV)/.run $@

.PHONY: run
run: $(VENV)/.run ## install, and serve the example agents with demo sessions on http://127.0.0.1:8000/
	$(BIN)/python manage.py web examples/agents --demo examples/demo.json --host $(HOST) --port $(PORT)

$(VENV)/.team: pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) -e '.[scale]'
	touch $(VENV)/.run $@

.PHONY: team
team: $(VENV)/.team ## install, and serve the example agents for a team: users, two web processes, three workers, PostgreSQL
	$(BIN)/python manage.py team examples/agents --port $(PORT)

.PHONY: install
install: $(VENV)/.dev ## install everything that developing needs, in the versions of the lock file

.PHONY: lock
lock: $(VENV)/.dev ## update the lock file after a change of pyproject.toml (to the newest releases: make lock UPGRADE=--upgrade)
	$(BIN)/uv pip compile --quiet pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(UPGRADE) --output-file $(LOCK)
	$(MAKE) --no-print-directory licenses

.PHONY: test
test: $(VENV)/.dev ## run the tests, on SQLite
	sh tests/run $(BIN)/python

.PHONY: test-lowest
test-lowest: $(VENV)/.dev ## run some tests with the lowest releases that pyproject.toml allows, on the oldest Python here
	sh tests/run_versions $(BIN)/uv lowest-direct

.PHONY: test-newest
test-newest: $(VENV)/.dev ## run the same tests with the newest releases, on the newest Python here
	sh tests/run_versions $(BIN)/uv highest

.PHONY: soak
soak: $(VENV)/.dev ## run the tests that take long (kills, limits, every page in a browser), then those of the store on PostgreSQL
	sh tests/run $(BIN)/python soak

ADK_JS := .adk-js

.PHONY: adk-js
adk-js: $(ADK_JS)/.installed ## install ADK's server for JavaScript, which two tests run (needs Node 20)

$(ADK_JS)/.installed: tests/remote/javascript/package.json
	mkdir -p $(ADK_JS)
	cp tests/remote/javascript/package.json $(ADK_JS)/
	cd $(ADK_JS) && npm install --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error
	touch $@

.PHONY: lint
lint: $(VENV)/.dev ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: format
format: $(VENV)/.dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(VENV)/.dev ## measure the budgets against ADK's own services and tools
	$(BIN)/python -m benchmarks

.PHONY: parity
parity: $(VENV)/.dev ## show that scores are those of `adk eval` (which gets a virtual environment of its own)
	$(BIN)/python -m tests.parity

TRUST_DRAWS ?= 400
TRUST_RUNS ?= 40

.PHONY: trust
trust: $(VENV)/.dev ## show by simulation how often comparisons of eval runs are wrong, beside the targets
	$(BIN)/python -m tests.trust --draws $(TRUST_DRAWS) --real-runs $(TRUST_RUNS)

.PHONY: screenshots
screenshots: $(VENV)/.dev ## take the README's pictures from the server of `make run`
	$(BIN)/python docs/take_screenshots.py http://$(HOST):$(PORT)

.PHONY: licenses
licenses: $(VENV)/.dev ## write docs/licenses.md
	$(BIN)/python docs/list_licenses.py

.PHONY: list-prices
list-prices: $(VENV)/.dev ## write the list prices that DevUI ships, from a release: make list-prices RELEASE=0.2.3 DATE=2026-11-10
	$(BIN)/uv run --no-project --with genai-prices==$(RELEASE) python deploy/update_list_prices.py $(DATE)

.PHONY: new-store
new-store: $(VENV)/.dev ## write the scripts that create the tables of a new store, after a new migration
	$(BIN)/python deploy/write_new_stores.py

.PHONY: dist
dist: $(VENV)/.dev ## build the wheel and the sdist of the last commit into dist/, always with the same bytes
	$(BIN)/python deploy/build_dist.py dist

.PHONY: clean
clean: ## remove the virtual environments, ADK for JavaScript, built releases and the store in .devui/
	rm -rf $(VENV) .venv-lowest-direct .venv-highest $(ADK_JS) dist .devui
