"""Which kernel works on which parameters, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from mpgd import ChaoticNoise
from mpgd.noise import engines
from mpgd.noise.engines import check_engine, check_integers, kernel_for
from tests.optim.descents import KINDS, made, parameters
from tests.optim.workers import run

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what sets which packages seem to be installed; the interpreter is not asked for."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)

    def pretend(cpu: bool, triton: bool) -> None:
        monkeypatch.setattr(engines, "_HAS_CPU", cpu)
        monkeypatch.setattr(engines, "_HAS_TRITON", triton)

    return pretend


def test_the_default_is_the_kernel_that_is_there(has: Any) -> None:
    for cpu, triton in ((True, True), (True, False), (False, True), (False, False)):
        has(cpu, triton)
        assert kernel_for(None, CPU) == ("cpu" if cpu else None)
        assert kernel_for(None, CUDA) == ("triton" if triton else None)
        assert kernel_for(None, torch.device("meta")) is None
        assert kernel_for("torch", CPU) is None
        assert kernel_for("torch", CUDA) is None


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_that_is_absent(kind: str, has: Any) -> None:
    has(cpu=False, triton=False)
    for engine, text in (
        ("triton", r"engine='triton' needs triton: pip install 'mpgd\[gpu\]'"),
        ("cpu", "engine='cpu' needs compiled kernels, and"),
    ):
        with pytest.raises(ImportError, match=text):
            ChaoticNoise(0.6, engine=engine)
        with pytest.raises(ImportError, match=text):
            made(kind, parameters([3]), engine=engine)
    run(made(kind, parameters([3])), 2)  # torch operations do the same


def test_triton_asked_for_on_a_cpu(has: Any) -> None:
    has(cpu=True, triton=True)
    text = r"engine='triton' runs on CUDA and ROCm .* on cpu; leave engine out, or set TRITON_INTE"
    for kind in KINDS:
        with pytest.raises(ValueError, match=text):
            made(kind, parameters([3]), engine="triton")
    noise = ChaoticNoise(0.6, engine="triton")
    with pytest.raises(ValueError, match=text):
        noise.step(noise.init(3))


def test_a_device_without_int64_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(device: torch.device) -> None:
        raise TypeError(f"{device} has no int64")

    monkeypatch.setattr(engines, "_try_integers", fail)
    check_integers.cache_clear()
    with pytest.raises(ValueError, match=r"'cpu' has no 64-bit integers \(torch.int64\), .* move"):
        made("mpgd", parameters([3]))
    monkeypatch.undo()
    made("mpgd", parameters([3]))  # an error is not remembered


FORK = """
import os, sys
import torch

torch.set_num_threads(2)
for _ in range(3):
    torch.ones(1_000_000).add_(1)  # starts torch's threads, which stay in this process
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
torch.set_num_threads(1)
p = torch.nn.Parameter(torch.ones(100_000))
p.grad = torch.ones(100_000)
if sys.argv[1] == "sgd":
    optimizer = torch.optim.SGD([p], lr=0.1)
else:
    import mpgd
    optimizer = mpgd.MPGD([p], lr=0.1, mu=0.01, sigma=0.01, engine=sys.argv[1])
for _ in range(3):
    optimizer.step()
os._exit(0 if torch.isfinite(p).all() else 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("optimizer", ["sgd", "torch", "cpu"])
def test_a_forked_child_trains_where_torch_can(optimizer: str) -> None:
    """The first import of mpgd may be in the child of a process that used torch's threads.

    On several threads torch itself, with `torch.optim.SGD`, hangs there; on one nobody does.
    """
    if optimizer == "cpu":
        check_engine("cpu")
    command = [sys.executable, "-W", "ignore", "-c", FORK, optimizer]
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250)
    assert done.returncode == 0, done.stderr
