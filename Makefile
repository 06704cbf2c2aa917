# Two commands are all there is to know: `make reproduce` and `make test`.
# Each makes its own virtual environment in .venv the first time; later runs reuse it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
JAX_VENV := .venv-jax
JAX_INSTALLED := $(JAX_VENV)/.installed
GPU_VENV := .venv-gpu
GPU_INSTALLED := $(GPU_VENV)/.installed
CLIENTS_VENV := .venv-clients
CLIENTS_INSTALLED := $(CLIENTS_VENV)/.installed
CLIENTS := lightning jsonargparse[signatures] accelerate transformers skorch schedulefree pytorch_optimizer
PIP_OPTIONS := --quiet --disable-pip-version-check --constraint constraints.txt
PIP := $(BIN)/python -m pip install $(PIP_OPTIONS)
JAX_PIP := $(JAX_VENV)/bin/python -m pip install $(PIP_OPTIONS)
GPU_PIP := $(GPU_VENV)/bin/python -m pip install $(PIP_OPTIONS)
CLIENTS_PIP := $(CLIENTS_VENV)/bin/python -m pip install $(PIP_OPTIONS) --constraint constraints-clients.txt
GPU_RUN := $(if $(wildcard /dev/nvidia0 /dev/kfd),,TRITON_INTERPRET=1)
TEST_WORKERS ?= 2
WORKERS ?= $(shell nproc 2>/dev/null || echo 1)

.PHONY: reproduce lab test lint sweeps generic without-numba gpu jax clients notebooks bench docs clean

reproduce: $(INSTALLED)
	$(BIN)/mpgd reproduce --out results --workers $(WORKERS)

lab: $(INSTALLED)
	$(BIN)/mpgd lab

SWEEPS := tests/mpgd_lab/runner tests/mpgd_lab/studies/cifar10

test: $(INSTALLED) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal --ignore tests/jax \
		--ignore tests/clients --ignore tests/notebooks --ignore tests/browser $(addprefix --ignore ,$(SWEEPS))

# JAX has an environment of its own, so that nobody else has to install it. Products of bfloat16
# matrices by torch's oneDNN end some CPUs' processes, so it is told to use older instructions.
jax: $(JAX_INSTALLED)
	OMP_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=AVX512_CORE $(JAX_VENV)/bin/python -m pytest \
		-n $(TEST_WORKERS) --dist worksteal tests/jax

# The examples of docs/integrations.md; other libraries' own warnings are no failures.
clients: $(CLIENTS_INSTALLED)
	OMP_NUM_THREADS=1 $(CLIENTS_VENV)/bin/python -m pytest -W default -n $(TEST_WORKERS) \
		--dist worksteal tests/clients

# The notebooks of examples/ run and print what they were committed with (to keep what they print
# now: `python -m tools.notebooks --write`), the README's settings train, the published results give
# docs/results, and site, report and lab stand in a browser.
notebooks: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal tests/notebooks \
		tests/browser

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Legs of the tests: what must also hold elsewhere. Each takes a representative set.

REPRESENTATIVE := tests/noise/test_engines.py tests/noise/test_counter_hash.py \
	tests/noise/test_chaotic_arguments.py tests/optim/test_fast_paths.py \
	tests/optim/test_dtypes.py tests/optim/test_memory.py tests/optim/test_update.py \
	tests/optim/test_wrapper.py tests/optim/test_engine_choice.py
LEG := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal

# Sweeps that are killed, run twice at once, on a cluster or on a full disk; trainings on CIFAR-10.
sweeps: $(INSTALLED)
	$(LEG) $(SWEEPS)

# A CPU without vector instructions.
generic: $(INSTALLED)
	NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= $(LEG) $(REPRESENTATIVE) -k "not million"

# Tests that ask for numba are skipped here, and say so.
without-numba: $(INSTALLED)
	MPGD_NO_SKIPS= $(LEG) -p tests.without_numba $(REPRESENTATIVE) tests/noise/test_lanes.py \
		tests/noise/test_long_orbits.py -k "not million"

# Triton on the GPU, or interpreted on the CPU; it comes without its dependencies, after torch.
gpu: $(GPU_INSTALLED)
	OMP_NUM_THREADS=1 MPGD_NO_SKIPS=all $(GPU_RUN) $(GPU_VENV)/bin/python -m pytest \
		-n $(TEST_WORKERS) --dist worksteal tests/optim/test_gpu_code.py tests/optim/test_triton.py

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks --write benchmarks/README.md

docs: $(INSTALLED)
	$(BIN)/python -m mkdocs build --strict

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

$(GPU_INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(GPU_VENV)
	$(GPU_PIP) "$$(grep '^torch==' constraints.txt)"
	$(GPU_PIP) --no-deps "$$(grep '^triton==' constraints.txt)"
	$(GPU_PIP) --editable ".[fast,gpu]" pytest pytest-timeout pytest-xdist
	touch $@

# torch is named again, so that no client brings another.
$(CLIENTS_INSTALLED): pyproject.toml constraints.txt constraints-clients.txt
	$(PYTHON) -m venv $(CLIENTS_VENV)
	$(CLIENTS_PIP) "$$(grep '^torch==' constraints.txt)"
	$(CLIENTS_PIP) "$$(grep '^torch==' constraints.txt)" --editable ".[fast]" $(CLIENTS) \
		pytest pytest-timeout pytest-xdist
	touch $@

clean:
	rm -rf $(VENV) $(JAX_VENV) $(GPU_VENV) $(CLIENTS_VENV) results site
