.PHONY: demo test docs lint types unit test-long test-browser test-flower test-ray clean

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

test-long: $(VENV)/.dev ## the kills, twenty times as many, and more damage to the run store
	FEDSKEW_KILLS=500 OMP_NUM_THREADS=1 $(BIN)/pytest tests/engine/test_resume.py -k ever_again
	FEDSKEW_FLIPS=2000 OMP_NUM_THREADS=1 $(BIN)/pytest tests/reliability/test_damaged_store.py

docs: $(VENV)/.docs ## the documentation as a site in build/site; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(VENV)/.docs: pyproject.toml constraints.txt $(VENV)/.user
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

test-browser: $(VENV)/.dev ## look at report pages in chromium; skipped, with the reason, where that cannot be
	BIN=$(BIN) tests/browser/run

test-flower: .venv-flower/.done ## run exported apps in Flower's simulation, offline, in an environment of their own
	OMP_NUM_THREADS=1 .venv-flower/bin/python -m pytest -n 2 --dist worksteal -p no:cacheprovider tests/flower

.venv-flower/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-flower
	.venv-flower/bin/python -m pip install --quiet -c constraints.txt -e . 'flwr[simulation]>=1.42,<2' 'pytest>=9,<10' \
		'pytest-timeout>=2.3' 'pytest-xdist>=3.6' 'hypothesis>=6.100'
	touch $@

test-ray: $(VENV)/.ray ## run trials on a Ray started here and on a cluster started by hand
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/engine/test_ray.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.user: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(VENV)/.user
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/.ray: pyproject.toml constraints.txt $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,ray]'
	touch $@

clean:
	rm -rf $(VENV) .venv-flower build dist .pytest_cache .mypy_cache .ruff_cache
