# Python 3.11 or newer and make are all that must be there; everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# mosaicml-streaming pins numpy<2.2 and transformers<5: it cannot share the environment.
STREAMING := .venv-streaming
# One thread for each process: workers share the cores.
export OMP_NUM_THREADS ?= 1

.PHONY: help install demo demo-video test test-long streaming-env test-streaming check format ui clean

help:
	@echo "make demo       a dataset of drawn pictures, through every stage"
	@echo "make demo-video a dataset of drawn clips, for text-to-video and image-to-video"
	@echo "make test       the whole suite"
	@echo "make test-long  the longer forms of some tests"
	@echo "make test-streaming  the MDS tests that need mosaicml-streaming, in an environment of its own"
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

demo-video: install
	@$(BIN)/diffprep demo --video

test: install
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests

test-long: install
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m long tests

$(STREAMING)/installed:
	@echo "installing mosaicml-streaming into $(STREAMING): some gigabytes with torch for CUDA"
	@test -x $(STREAMING)/bin/python || $(PYTHON) -m venv $(STREAMING)
	@$(STREAMING)/bin/python -m pip install --quiet 'mosaicml-streaming==0.13.*' 'numpy==2.1.*' 'torch==2.14.1' 'torchvision==0.29.1'
	@touch $@

streaming-env: $(STREAMING)/installed

test-streaming: install streaming-env
	DIFFPREP_STREAMING_PYTHON=$(abspath $(STREAMING))/bin/python $(BIN)/python -m pytest -m streaming tests

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
