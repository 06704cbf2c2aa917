"""The compiled step has the bits of the plain one, without a graph break."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.optim.descents import LOUD, core, ends, parameters
from tests.optim.workers import same_bits, set_gradients

from mpgd import MPGD


@pytest.fixture
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# what torch.compile imports uses torch's own deprecated functions
COMPILER = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


def compiled_ends(
    shapes: Any, settings: dict[str, Any], steps: int, backend: str, **rest: Any
) -> dict[str, Any]:
    """The same as `ends` with the step compiled; a graph break is an error."""
    optimizer = MPGD(parameters(shapes, **rest), **{**LOUD, **settings})
    step = torch.compile(optimizer.step, backend=backend, fullgraph=True)
    for k in range(steps):
        set_gradients(optimizer.param_groups[0]["params"], k)
        step()
    return core(optimizer)


COMPILED: list[tuple[list[Any], dict[str, Any]]] = [
    ([1, 24, 1025, (), (0,)], {}),
    ([24], {"symmetric": True, "gamma": (0.55, 0.7)}),
    ([()], {"shared_multiplicative": True, "symmetric": True, "signs": "product"}),
    ([24], {"start": 2, "stop": 4}),
    ([24], {"shared_multiplicative": True, "start": 2, "stop": 4}),
    ([24], {"foreach": True, "maximize": True, "start": 2, "stop": 4}),
    ([24, 7], {"noise": "gaussian"}),
    ([7], {"noise": "stable"}),
    ([24], {"mu": 0.0, "sigma": 0.0}),
]


@COMPILER
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize(("shapes", "variant"), COMPILED, ids=str)
def test_compiled_without_a_graph_break_the_bits_are_the_same(
    shapes: list[Any], variant: dict[str, Any]
) -> None:
    settings = {"engine": "torch", **variant}
    expected = ends(shapes, settings, 6)
    assert same_bits(compiled_ends(shapes, settings, 6, "aot_eager"), expected)


@COMPILER
@pytest.mark.usefixtures("_fresh_compiler")
def test_compiled_a_float64_scalar_moves() -> None:
    """Torch 2.13 compiles `copy_` onto a float64 tensor without axes to nothing."""
    settings = {"engine": "torch", "mu": 0.0}
    expected = ends([()], settings, 4, dtype=torch.float64)
    found = compiled_ends([()], settings, 4, "aot_eager", dtype=torch.float64)
    assert same_bits(found, expected)


@COMPILER
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("variant", [{}, {"shared_multiplicative": True}], ids=str)
def test_compiled_with_a_tensor_lr_the_orbits_are_the_same(variant: dict[str, Any]) -> None:
    """Powers of a tensor may differ from Python's in the last bit; the orbits do not use them."""
    lr = torch.tensor(LOUD["lr"], dtype=torch.float64)
    settings = {"engine": "torch", **variant}
    expected = ends([24, ()], settings, 6)
    found = compiled_ends([24, ()], {**settings, "lr": lr}, 6, "aot_eager")
    assert same_bits(found["state"], expected["state"])
    for a, b in zip(found["parameters"], expected["parameters"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("default")  # inductor's own
@pytest.mark.usefixtures("_fresh_compiler")
def test_compiled_by_inductor_the_bits_are_the_same() -> None:
    settings = {"engine": "torch"}
    expected = ends([24], settings, 6)
    assert same_bits(compiled_ends([24], settings, 6, "inductor"), expected)
