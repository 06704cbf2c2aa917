# Three commands are all there is to know: `make reproduce`, `make test` and `make lint`.
# Each makes its own virtual environment in .venv the first time; later runs reuse it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
KERNELS := $(VENV)/.kernels
JAX_VENV := .venv-jax
JAX_INSTALLED := $(JAX_VENV)/.installed
GPU_VENV := .venv-gpu
GPU_INSTALLED := $(GPU_VENV)/.installed
CLIENTS_VENV := .venv-clients
CLIENTS_INSTALLED := $(CLIENTS_VENV)/.installed
LOWEST_VENV := .venv-lowest
LOWEST_INSTALLED := $(LOWEST_VENV)/.installed
CLIENTS := lightning jsonargparse[signatures] accelerate transformers skorch schedulefree pytorch_optimizer
PIP_OPTIONS := --quiet --no-compile --disable-pip-version-check --constraint constraints.txt
PIP := $(BIN)/python -m pip install $(PIP_OPTIONS)
JAX_PIP := $(JAX_VENV)/bin/python -m pip install $(PIP_OPTIONS)
GPU_PIP := $(GPU_VENV)/bin/python -m pip install $(PIP_OPTIONS)
CLIENTS_PIP := $(CLIENTS_VENV)/bin/python -m pip install $(PIP_OPTIONS) --constraint constraints-clients.txt
GPU_RUN := $(if $(wildcard /dev/nvidia0 /dev/kfd),,TRITON_INTERPRET=1)
TEST_WORKERS ?= 2
WORKERS ?= $(shell nproc 2>/dev/null || echo 1)

.PHONY: reproduce lab test long lint coverage data read-only sweeps generic without-kernels sanitize aarch64 clang gpu jax \
	clients notebooks kernels lowest pythons bench docs clean

reproduce: $(KERNELS)
	$(BIN)/mpgd reproduce --out results --workers $(WORKERS)

lab: $(KERNELS)
	$(BIN)/mpgd lab

LEG := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal
ELSEWHERE := $(addprefix --ignore tests/,jax clients notebooks browser)
SWEEPS := tests/mpgd_lab/runner tests/mpgd_lab/studies/cifar10
LONG := tests/test_packaging.py tests/mpgd_lab/report tests/optim/test_compiled.py \
	tests/optim/test_distributed.py tests/optim/test_sequences.py \
	tests/optim/test_attacked_checkpoints.py tests/optim/test_state_size.py
MAIN_TESTS := $(LEG) $(ELSEWHERE) $(addprefix --ignore ,$(SWEEPS) $(LONG))

test: $(KERNELS) lint
	$(MAIN_TESTS)

# Those that take longest: inductor, several processes, random sequences, packages, whole reports.
long: $(KERNELS)
	$(LEG) $(LONG)

# The tests that need the data sets, and nothing else; `make test` skips them without MPGD_DATA.
data: $(KERNELS)
	MPGD_NO_SKIPS=all $(LEG) $(ELSEWHERE) -m data

# The same tests, slower; the last line is the share of the statements of `mpgd` that they run.
coverage: $(KERNELS)
	$(MAIN_TESTS) --cov --cov-report term

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
notebooks: $(KERNELS)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal tests/notebooks \
		tests/browser

# The hooks of .pre-commit-config.yaml on every file that git knows. They are programs of .venv.
lint: $(INSTALLED)
	PATH="$(abspath $(BIN)):$$PATH" PRE_COMMIT_HOME="$(abspath $(VENV))/pre-commit" \
		$(BIN)/pre-commit run --all-files

# Legs of the tests: what must also hold elsewhere. Each takes a representative set.

REPRESENTATIVE := tests/noise/test_engines.py tests/noise/test_counter_hash.py \
	tests/noise/test_chaotic_arguments.py tests/optim/test_fast_paths.py \
	tests/optim/test_memory.py tests/optim/test_update.py \
	tests/optim/test_torch_optimizers.py tests/optim/test_engine_choice.py

# Where nothing but TMPDIR can be written; `.ci/sealed make read-only` makes such a place.
read-only: $(INSTALLED)
	MPGD_NO_SKIPS=1 $(LEG) -p no:cacheprovider $(REPRESENTATIVE) tests/maps/test_tables.py \
		tests/test_files.py tests/mpgd_lab/test_cli.py tests/mpgd_lab/test_store.py -k "not million"

# Sweeps that are killed, run twice at once, on a cluster or on a full disk; CIFAR-10 without data.
sweeps: $(KERNELS)
	$(LEG) $(SWEEPS) -m "not data"

# A CPU without vector instructions.
generic: $(KERNELS)
	MPGD_CPU=scalar $(LEG) $(REPRESENTATIVE) -k "not million"

# As where there was no C compiler. Tests that ask for kernels are skipped here, and say so.
without-kernels: $(INSTALLED)
	MPGD_NO_SKIPS= $(LEG) -p tests.without_kernels $(REPRESENTATIVE) tests/noise/test_kernels.py \
		tests/noise/test_displacement.py tests/limits/test_variation.py -k "not million"

# Random calls of the C files with sanitizers, on another CPU under qemu, and by another compiler.
sanitize aarch64 clang: $(INSTALLED)
	$(BIN)/python -m tools.check_kernels $@

# Triton on the GPU, or interpreted on the CPU; it comes without its dependencies, after torch.
gpu: $(GPU_INSTALLED)
	OMP_NUM_THREADS=1 MPGD_NO_SKIPS=all $(GPU_RUN) $(GPU_VENV)/bin/python -m pytest \
		-n $(TEST_WORKERS) --dist worksteal tests/optim/test_gpu_code.py tests/optim/test_triton.py

# The lowest versions that pyproject.toml promises and no extra: imports, examples, the update. Left
# out are tests that ask for an extra; those of test_update.py that do are skipped and say so.
lowest: $(LOWEST_INSTALLED)
	OMP_NUM_THREADS=1 MPGD_NO_SKIPS= $(LOWEST_VENV)/bin/python -m pytest -n $(TEST_WORKERS) \
		--dist worksteal tests/test_layers.py tests/optim/test_update.py \
		-k "not extra and not waits and not mpgd_lab"

# Other Pythons, where they are found; torch has builds for some of them only, so it is not asked for.
pythons:
	$(PYTHON) -m tools.pythons 3.12 3.13 3.14

bench: $(KERNELS)
	$(BIN)/python -m benchmarks --write benchmarks/README.md

docs: $(KERNELS)
	$(BIN)/python -m mkdocs build --strict

# torch comes first and pinned, so that nothing later asks for another build of it.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) --editable ".[dev]"
	touch $@

# The C files are compiled at installation, and again when they have changed.
kernels: $(KERNELS)

$(KERNELS): $(INSTALLED) hatch_build.py $(shell find src -name "*.[ch]")
	-$(BIN)/python hatch_build.py
	touch $@

$(JAX_INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(JAX_VENV)
	$(JAX_PIP) "$$(grep '^torch==' constraints.txt)"
	$(JAX_PIP) --editable ".[jax]" numpyro orbax-checkpoint pytest pytest-timeout pytest-xdist
	touch $@

$(GPU_INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(GPU_VENV)
	$(GPU_PIP) "$$(grep '^torch==' constraints.txt)"
	$(GPU_PIP) --no-deps "$$(grep '^triton==' constraints.txt)"
	$(GPU_PIP) --editable ".[gpu]" pytest pytest-timeout pytest-xdist
	touch $@

# torch is named again, so that no client brings another.
$(CLIENTS_INSTALLED): pyproject.toml constraints.txt constraints-clients.txt
	$(PYTHON) -m venv $(CLIENTS_VENV)
	$(CLIENTS_PIP) "$$(grep '^torch==' constraints.txt)"
	$(CLIENTS_PIP) "$$(grep '^torch==' constraints.txt)" --editable . $(CLIENTS) \
		pytest pytest-timeout pytest-xdist
	touch $@

$(LOWEST_INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		$$(sed -n '/^dependencies = /{s/.*\[//; s/\].*//; s/[",]//g; s/>=/==/g; p}' pyproject.toml)
	$(LOWEST_VENV)/bin/python -m pip install $(PIP_OPTIONS) --no-deps --editable .
	$(LOWEST_VENV)/bin/python -m pip install $(PIP_OPTIONS) pytest pytest-timeout pytest-xdist
	touch $@

clean:
	rm -rf $(VENV) $(JAX_VENV) $(GPU_VENV) $(CLIENTS_VENV) $(LOWEST_VENV) .venv-3.* results site
