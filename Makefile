# Python 3.11 or newer and make are all that must be there; everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread for each process: workers share the cores.
export OMP_NUM_THREADS ?= 1

.PHONY: help install demo test test-long check format ui clean

help:
	@echo "make demo       a dataset of drawn pictures, through every stage"
	@echo "make test       the whole suite"
	@echo "make test-long  the longer forms of some tests"
	@echo "make check      ruff, format, pyright"
	@echo "make ui         the Dagster web UI, on port 3000"

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "diffprep needs Python 3.11 or newer, this is " + sys.version)'
	@echo "installing into $(VENV); the first time takes a few minutes"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

install: $(VENV)/installed

demo: install
	@$(BIN)/diffprep demo

test: install
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests

test-long: install
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m long tests

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: install
	@$(BIN)/diffprep ui

clean:
	rm -rf $(VENV) build dist *.egg-info
