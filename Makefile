.PHONY: demo test docs lint types unit test-long test-again test-browser test-flower test-ray clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Nothing is compiled ahead (--no-compile): that takes longer than the rest of an installation, and most is never imported.
# What is imported is compiled once, also where Python is told to keep nothing.
unexport PYTHONDONTWRITEBYTECODE

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

test-long: $(VENV)/.dev ## the kills, twenty times as many, more damage to the run store, mutated sketches, and new draws of every property
	FEDSKEW_KILLS=500 OMP_NUM_THREADS=1 $(BIN)/pytest tests/engine/test_resume.py -k ever_again
	FEDSKEW_FLIPS=2000 OMP_NUM_THREADS=1 $(BIN)/pytest tests/reliability/test_damaged_store.py
	FEDSKEW_FUZZ=100000 OMP_NUM_THREADS=1 $(BIN)/pytest --timeout 0 tests/profiles/test_sketch_file.py -k mutants
	FEDSKEW_EXAMPLES=2000 OMP_NUM_THREADS=1 $(BIN)/pytest --timeout 0 -m hypothesis --hypothesis-profile long tests

RUNS ?= 20
test-again: $(VENV)/.dev ## the tests that kill, that fill disks and memory, and that drive a browser, RUNS times over
	for run in $$(seq $(RUNS)); do \
		OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal -m kills tests && BIN=$(BIN) tests/browser/run || exit 1; \
	done

docs: $(VENV)/.docs ## the documentation as a site in build/site; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(VENV)/.docs: pyproject.toml constraints.txt $(VENV)/.user
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[docs]'
	touch $@

test-browser: $(VENV)/.dev ## look at report pages in chromium; skipped, with the reason, where that cannot be
	BIN=$(BIN) tests/browser/run

test-flower: .venv-flower/.done ## run exported apps in Flower's simulation, offline, in an environment of their own
	OMP_NUM_THREADS=1 .venv-flower/bin/python -m pytest -p no:cacheprovider tests/flower

# Flower's pins must not touch .venv. What both need, torch above all, is taken from there: a .pth file adds it, behind.
.venv-flower/.done: pyproject.toml constraints.txt $(VENV)/.dev
	$(BIN)/python -m venv --clear .venv-flower
	$(BIN)/python -c "from sysconfig import get_path; p = get_path('purelib'); \
		q = p.replace('/$(VENV)/', '/.venv-flower/'); \
		open(q + '/shared.pth', 'w').write(f'import site; site.addsitedir({p!r})\n')"
	.venv-flower/bin/python -m pip install --quiet --no-compile -c constraints.txt 'flwr[simulation]>=1.42,<2'
	touch $@

test-ray: $(VENV)/.ray ## run trials on a Ray started here and on a cluster started by hand
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/engine/test_ray.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.user: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(VENV)/.user
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/.ray: pyproject.toml constraints.txt $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev,ray]'
	touch $@

clean:
	rm -rf $(VENV) .venv-flower build dist .pytest_cache .mypy_cache .ruff_cache
