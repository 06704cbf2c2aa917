"""The compiled step has the bits of the plain one, without a graph break.

On the torch engine its operations are compiled; before a kernel it is one operator.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.backends.debugging import aot_eager

from mpgd import MPGD, perturb
from mpgd.noise.engines import has_numba
from mpgd.optim.operator import step_group
from tests.optim.descents import LOUD, core, ends, parameters
from tests.optim.workers import same_bits, set_gradients, snapshot


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


needs_numba = pytest.mark.skipif(not has_numba(), reason="the kernel needs numba: pip install it")
AROUND: list[dict[str, Any]] = [
    {},
    {"symmetric": True, "shared_multiplicative": True, "signs": "product"},
    {"mu": 0.0, "start": 2, "stop": 4},
]


def counted(found: list[Any]) -> Any:
    """Return a compiler that keeps its graphs in ``found``."""

    def compiler(graph: Any, inputs: Any) -> Any:
        found.append(graph)
        return aot_eager(graph, inputs)

    return compiler


def operators(graph: Any) -> list[str]:
    """Return the calls in a graph that compute something."""
    names = [str(node.target) for node in graph.graph.nodes if node.op.startswith("call_")]
    return [name for name in names if "grad_enabled" not in name]


@needs_numba
@COMPILER
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("variant", [*AROUND, {"maximize": True}], ids=str)
def test_before_a_kernel_the_step_is_one_operator_for_all_learning_rates(
    variant: dict[str, Any],
) -> None:
    """A first change compiles again, when the compiler learns that the number changes; no other."""
    shapes = [24, 1025, (), (0,), (3, 4)]
    plain, compiled = (MPGD(parameters(shapes), **{**LOUD, **variant}) for _ in range(2))
    graphs: list[Any] = []
    counts: list[int] = []
    step = torch.compile(compiled.step, backend=counted(graphs), fullgraph=True)
    for k in range(6):
        for optimizer in (plain, compiled):
            optimizer.param_groups[0]["lr"] = 0.05 / (k + 1)
            set_gradients(optimizer.param_groups[0]["params"], k)
        plain.step()
        step()
        counts.append(len(graphs))
    assert same_bits(core(compiled), core(plain))
    assert counts[1:] == [counts[1]] * 5
    called = [operators(graph) for graph in graphs if operators(graph)]
    assert called == [["mpgd.step_group.default"]] * 2
    compiled.param_groups[0]["lr"] = 0.0
    step()
    assert same_bits(core(compiled), core(plain))


@needs_numba
@COMPILER
@pytest.mark.usefixtures("_fresh_compiler")
def test_before_a_kernel_a_tensor_lr_is_the_float() -> None:
    lr = torch.tensor(LOUD["lr"], dtype=torch.float64)
    found = compiled_ends([24, ()], {"lr": lr}, 6, "aot_eager")
    assert same_bits(found, ends([24, ()], {}, 6))


@needs_numba
@COMPILER
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("variant", AROUND, ids=str)
def test_a_compiled_step_around_another_optimizer_has_the_plain_bits(
    variant: dict[str, Any],
) -> None:
    """All is one graph, and the perturbation one operator in it."""

    def made() -> torch.optim.Optimizer:
        inner = torch.optim.SGD(parameters([24, (3, 4)]), lr=0.05, momentum=0.9)
        return perturb(inner, **{"mu": 0.1, "sigma": 0.2, **variant})

    plain, compiled = made(), made()
    graphs: list[Any] = []
    step = torch.compile(compiled.step, backend=counted(graphs), fullgraph=True)
    for k in range(5):
        for optimizer in (plain, compiled):
            set_gradients(optimizer.param_groups[0]["params"], k)
        plain.step()
        step()
        assert len(graphs) <= 2  # the first step makes AdamW's state and SGD's buffers
    found, expected = (snapshot(each) for each in (compiled, plain))
    assert same_bits(found["state"], expected["state"])
    assert same_bits(found["parameters"], expected["parameters"])
    assert all(operators(graph).count("mpgd.step_group.default") == 1 for graph in graphs)


@needs_numba
def test_the_operator_declares_what_it_changes() -> None:
    optimizer = MPGD(parameters([24, (3, 4)]), **LOUD, shared_multiplicative=True)
    params = optimizer.param_groups[0]["params"]
    states = [optimizer.state[p] for p in params]
    arguments = (
        [p.detach() for p in params],
        [torch.ones_like(p) for p in params],
        [state["additive"] for state in states],
        [state["step"] for state in states],
        [state["key"] for state in states],
        [states[0]["shared_step"], states[0]["shared"]],
        [],
        [],
        [0, 0],
        None,
        optimizer._number,
        0,
    )
    torch.library.opcheck(step_group, arguments, test_utils=("test_schema", "test_faketensor"))
