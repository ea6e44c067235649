# Every target sets up .venv first, so `make demo` and `make test` work on a machine with Python 3.11 and make.
PYTHON ?= python3
# Extra arguments for the torch install only, e.g. TORCH_ARGS='--index-url https://download.pytorch.org/whl/cpu'
TORCH_ARGS ?=
BIN := .venv/bin
STAMP := .venv/.gedi-setup

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow chaos same lint bench docs dist clean

help:  ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## create .venv with the tested versions and install gedi in it

# torch is installed first and alone: together with the rest, pip may pull in gigabytes of CUDA wheels.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -c constraints.txt $(TORCH_ARGS) torch==2.13.0
	$(BIN)/python -m pip install -c constraints.txt -e '.[dev,logic]'
	@touch $@

demo: $(STAMP)  ## compare GEDI with k-means, SwAV and JEM on moons, circles and digits (a few minutes)
	$(BIN)/gedi demo

# One thread per process: two workers that each start a thread per core are slower than one.
test: $(STAMP)  ## run the fast tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

test-slow: $(STAMP)  ## run the slow tests, which really train
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow

chaos: $(STAMP)  ## kill and resume a run 100 times, and compare its weights
	OMP_NUM_THREADS=1 $(BIN)/python tests/training/chaos.py 100

# `make same AGAINST=v0.1.0`: after a refactoring, no number may have changed.
same: $(STAMP)  ## compare seeded fits with those of another revision (AGAINST=REV), bit for bit
	$(BIN)/python benchmarks/same_weights.py $(AGAINST)

lint: $(STAMP)  ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# `make bench AGAINST=v0.1.0` takes hours on an idle machine; `benchmarks/run.py --help` lists smaller parts.
bench: $(STAMP)  ## compare speed with other libraries, and with another revision (AGAINST=REV)
	$(BIN)/python benchmarks/run.py $(if $(AGAINST),--against $(AGAINST))
	$(BIN)/python benchmarks/logic.py

docs: $(STAMP)  ## build the documentation into site/
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	$(BIN)/python -m mkdocs build --strict

dist: $(STAMP)  ## build the wheel and the sdist into dist/, and check them
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[release]'
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

clean:  ## remove caches and build products (keeps .venv and runs/)
	rm -rf build dist site .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
