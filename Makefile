.PHONY: demo test lint types unit test-long test-browser clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

demo: $(VENV)/.user ## install into .venv, then profile, recommend and validate on the shipped data
	$(BIN)/fedskew advise --demo

test: lint types unit ## everything CI runs

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal --ignore=tests/browser

test-browser: $(VENV)/.dev ## look at report pages in chromium; skipped, with the reason, where that cannot be
	BIN=$(BIN) tests/browser/run

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.user: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(VENV)/.user
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
