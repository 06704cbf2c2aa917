"""Which kernel works on which parameters, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from mpgd import MPGD, ChaoticNoise, perturb
from mpgd.noise import engines
from mpgd.noise.engines import check_engine, check_integers, kernel_for
from tests.optim.descents import LOUD, parameters
from tests.optim.workers import run, same_bits, snapshot

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what sets which packages seem to be installed; the interpreter is not asked for."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)

    def pretend(numba: bool, triton: bool) -> None:
        monkeypatch.setattr(engines, "_HAS_NUMBA", numba)
        monkeypatch.setattr(engines, "_HAS_TRITON", triton)

    return pretend


def test_the_default_is_the_kernel_that_is_there(has: Any) -> None:
    for numba, triton in ((True, True), (True, False), (False, True), (False, False)):
        has(numba, triton)
        assert kernel_for(None, CPU) == ("cpu" if numba else None)
        assert kernel_for(None, CUDA) == ("triton" if triton else None)
        assert kernel_for(None, torch.device("meta")) is None
        assert kernel_for("torch", CPU) is None
        assert kernel_for("torch", CUDA) is None


def test_triton_asked_for_but_absent(has: Any) -> None:
    has(numba=True, triton=False)
    text = r"engine='triton' needs triton: pip install 'mpgd\[gpu\]'"
    with pytest.raises(ImportError, match=text):
        ChaoticNoise(0.6, engine="triton")
    with pytest.raises(ImportError, match=text):
        MPGD(parameters([3]), **LOUD, engine="triton")


def test_triton_asked_for_on_a_cpu(has: Any) -> None:
    has(numba=True, triton=True)
    text = r"engine='triton' runs on CUDA and ROCm .* on cpu; leave engine out, or set TRITON_INTE"
    with pytest.raises(ValueError, match=text):
        MPGD(parameters([3]), **LOUD, engine="triton")
    noise = ChaoticNoise(0.6, engine="triton")
    with pytest.raises(ValueError, match=text):
        noise.step(noise.init(3))
    with pytest.raises(ValueError, match=text):
        perturb(torch.optim.SGD(parameters([3]), lr=0.1), sigma=0.1, engine="triton")


BAD: list[tuple[tuple[bool, bool], Any, dict[str, Any], type[Exception], str]] = [
    ((False, False), torch.float32, {}, ImportError, r"fused=True on cpu needs numba: .*mpgd\[fa"),
    (
        (True, False),
        torch.float32,
        {"noise": "stable"},
        ValueError,
        "kernels know chaotic and normal",
    ),
]


@pytest.mark.parametrize(("there", "dtype", "settings", "error", "text"), BAD, ids=str)
def test_fused_says_what_is_missing(
    has: Any,
    there: tuple[bool, bool],
    dtype: torch.dtype,
    settings: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    has(*there)
    with pytest.raises(error, match=text):
        MPGD(parameters([3], dtype), **LOUD, **settings, fused=True)
    with pytest.raises(error, match=text):
        perturb(torch.optim.SGD(parameters([3], dtype), lr=1), mu=0.1, **settings, fused=True)


def test_fused_on_a_device_without_a_kernel(has: Any) -> None:
    has(numba=True, triton=True)
    p = torch.nn.Parameter(torch.ones(3, device="meta"))
    with pytest.raises(ValueError, match="there is none for device 'meta'; leave fused out"):
        MPGD([p], **LOUD, fused=True)


def test_fused_chooses_the_engine_and_leaves_the_wrapped_optimizers_alone(has: Any) -> None:
    has(numba=True, triton=False)
    for fused, engine in ((None, None), (True, "cpu"), (False, "torch")):
        own = MPGD(parameters([3]), **LOUD, fused=fused)
        inner = torch.optim.AdamW(parameters([3]), lr=0.1, fused=True)
        around = perturb(inner, sigma=0.1, fused=fused)
        around.add_param_group({"params": parameters([2])})
        assert [g["engine"] for g in own.param_groups] == [engine]
        assert [g["perturbation.engine"] for g in around.param_groups] == [engine] * 2
        assert [g["fused"] for g in around.param_groups] == [True] * 2


def test_an_earlier_checkpoint_without_fused_still_loads() -> None:
    optimizer, other = (MPGD(parameters([3]), **LOUD) for _ in range(2))
    run(optimizer, 2)
    saved = optimizer.state_dict()
    del saved["param_groups"][0]["fused"]
    other.load_state_dict(saved)
    assert other.param_groups[0]["fused"] is None
    assert same_bits(snapshot(other)["state"], snapshot(optimizer)["state"])


def test_a_device_without_int64_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(device: torch.device) -> None:
        raise TypeError(f"{device} has no int64")

    monkeypatch.setattr(engines, "_try_integers", fail)
    check_integers.cache_clear()
    with pytest.raises(ValueError, match=r"'cpu' has no 64-bit integers \(torch.int64\), .* move"):
        MPGD(parameters([3]), **LOUD)
    monkeypatch.undo()
    MPGD(parameters([3]), **LOUD)  # an error is not remembered


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
