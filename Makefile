# Two commands are all there is to know: `make reproduce` and `make test`.
# Each makes its own virtual environment in .venv the first time; later runs reuse it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
TEST_WORKERS ?= 2
WORKERS ?= $(shell nproc 2>/dev/null || echo 1)

.PHONY: reproduce lab test lint bench docs clean

reproduce: $(INSTALLED)
	$(BIN)/mpgd reproduce --out results --workers $(WORKERS)

lab: $(INSTALLED)
	$(BIN)/mpgd lab

test: $(INSTALLED) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks --write benchmarks/README.md

docs: $(INSTALLED)
	$(BIN)/mkdocs build --strict

# torch comes first and pinned, so that nothing later asks for another build of it.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) results site
