# Two commands are all there is to know: `make reproduce` and `make test`.
# Each makes its own virtual environment in .venv the first time; later runs reuse it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
JAX_VENV := .venv-jax
JAX_INSTALLED := $(JAX_VENV)/.installed
PIP_OPTIONS := --quiet --disable-pip-version-check --constraint constraints.txt
PIP := $(BIN)/python -m pip install $(PIP_OPTIONS)
JAX_PIP := $(JAX_VENV)/bin/python -m pip install $(PIP_OPTIONS)
TEST_WORKERS ?= 2
WORKERS ?= $(shell nproc 2>/dev/null || echo 1)

.PHONY: reproduce lab test jax lint bench docs clean

reproduce: $(INSTALLED)
	$(BIN)/mpgd reproduce --out results --workers $(WORKERS)

lab: $(INSTALLED)
	$(BIN)/mpgd lab

test: $(INSTALLED) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal --ignore tests/jax

# JAX has an environment of its own, so that nobody else has to install it.
jax: $(JAX_INSTALLED)
	OMP_NUM_THREADS=1 $(JAX_VENV)/bin/python -m pytest -n $(TEST_WORKERS) --dist worksteal tests/jax

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

$(JAX_INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(JAX_VENV)
	$(JAX_PIP) "$$(grep '^torch==' constraints.txt)"
	$(JAX_PIP) --editable ".[fast,jax]" orbax-checkpoint pytest pytest-timeout pytest-xdist
	touch $@

clean:
	rm -rf $(VENV) $(JAX_VENV) results site
