"""The compiled step is one graph with one operator, and has the plain one's noise.

The operator's bits are those of the plain step. Those of torch's own compiled optimizers are not
always; MPGD's and SGD's are.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.debugging import aot_eager

from mpgd import MPGD, GaussianNoise, StableNoise, perturb
from mpgd.optim.displacement.compiled import displace_groups
from tests.optim.checkpoints import SHARED, drivers_state, prefix_of
from tests.optim.descents import drivers, parameters
from tests.optim.workers import make_optimizer, run, same_bits, set_gradients, snapshot

# what torch.compile imports uses torch's own deprecated functions
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"),
    pytest.mark.usefixtures("_fresh_compiler"),
]
OPERATOR = "mpgd.displace_groups.default"


@pytest.fixture
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(optimizer: Any, graphs: list[Any], fullgraph: bool = True) -> Any:
    """Return the compiled step, which keeps its graphs; a graph break is an error."""

    def compiler(graph: Any, inputs: Any) -> Any:
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return aot_eager(graph, inputs)

    return torch.compile(optimizer.step, backend=compiler, fullgraph=fullgraph)


def run_both(
    plain: Any, other: Any, step: Any, steps: range, lr: Any = None, scale: float = 1.0
) -> None:
    """Take the same steps with two optimizers; ``lr`` is a function of (k, the present one)."""
    for k in steps:
        for optimizer in (plain, other):
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] if lr is None else lr(k, group["lr"])
            params = [p for group in optimizer.param_groups for p in group["params"]]
            set_gradients(params, k)
            for p in params:
                p.grad *= scale
        plain.step()
        step()


def shrink(k: int, old: Any) -> Any:
    """Return the learning rate of step k, in place where it is a tensor."""
    return old.fill_(0.05 / (k + 1)) if isinstance(old, Tensor) else 0.05 / (k + 1)


VARIANTS: list[dict[str, Any]] = [
    {},
    {"engine": "torch", "symmetric": True, "gamma": (0.55, 0.7)},
    {"noise": SHARED, "symmetric": True, "start": 2, "stop": 4},
    {"noise": (GaussianNoise(), StableNoise(1.5))},
    {"mu": 0.0, "sigma": 0.0},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_bits_are_those_of_the_plain_step(variant: dict[str, Any], dtype: torch.dtype) -> None:
    """With a learning rate that changes; a compiler starts again for a number, as torch's SGD.

    The gradients are 0, so that the parameters show the displacement alone: torch's compiled SGD
    rounds alpha * g where its plain one does not.
    """
    shapes = [1, 24, 1025, (), (0,), (3, 4)]
    plain, other = (
        make_optimizer("mpgd", parameters(shapes, dtype), momentum=0.9, **variant) for _ in range(2)
    )
    graphs: list[Any] = []
    step = compiled(other, graphs)
    run_both(plain, other, step, range(5), shrink, scale=0.0)
    assert same_bits(snapshot(plain), snapshot(other))
    is_perturbed = variant.get("sigma") != 0.0
    assert all(graph.count(OPERATOR) == is_perturbed for graph in graphs)
    run_both(plain, other, step, range(5, 6), lambda k, old: 0.0, scale=0.0)
    assert same_bits(snapshot(plain), snapshot(other))


@pytest.mark.parametrize("name", ["AdamW", "RMSprop", "Adagrad", "NAdam", "Adafactor"])
def test_around_another_optimizer_the_noise_has_the_plain_bits(name: str) -> None:
    plain, other = (
        perturb(getattr(torch.optim, name)(parameters([24, (3, 4)]), lr=0.05), mu=0.1, sigma=0.1)
        for _ in range(2)
    )
    graphs: list[Any] = []
    run_both(plain, other, compiled(other, graphs), range(5))
    assert same_bits(drivers_state(plain), drivers_state(other))
    pairs = zip(snapshot(plain)["parameters"], snapshot(other)["parameters"], strict=True)
    for p, q in pairs:
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
    assert all(graph.count(OPERATOR) == 1 for graph in graphs)


@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
def test_a_learning_rate_that_is_a_tensor_compiles_once(kind: str) -> None:
    """Powers of a tensor may differ from Python's in the last bit; the orbits do not use them."""
    plain, other = (
        make_optimizer(kind, parameters([24, ()]), lr=torch.tensor(0.05)) for _ in range(2)
    )
    graphs: list[Any] = []
    run_both(plain, other, compiled(other, graphs), range(12), shrink)
    assert len(graphs) == 1
    assert same_bits(drivers_state(plain), drivers_state(other))
    pairs = zip(snapshot(plain)["parameters"], snapshot(other)["parameters"], strict=True)
    for p, q in pairs:
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


def test_what_changes_after_compiling_is_followed() -> None:
    """A seed, noise where there was none, drivers that were not there, gradients that are not."""
    ps, qs = (parameters([24, (3, 4), 5]) for _ in range(2))
    plain, other = (
        MPGD([{"params": x[:2], "sigma": 0.1}, {"params": x[2:]}], lr=0.05) for x in (ps, qs)
    )
    step = compiled(other, [])
    changes: list[tuple[int, dict[str, Any]]] = [
        (0, {}),
        (0, {"seed": (3, "critic")}),
        (1, {"sigma": 0.2}),
        (0, {"mu": 0.1, "symmetric": True}),
        (1, {"noise": SHARED, "mu": 0.1}),
    ]
    for k, (number, change) in enumerate(changes):
        for optimizer, params in ((plain, ps), (other, qs)):
            optimizer.param_groups[number].update(change)
            set_gradients(params, k)
            params[0].grad = None if k in (1, 3) else params[0].grad
        plain.step()
        step()
        assert same_bits(snapshot(plain), snapshot(other)), change


@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
@pytest.mark.parametrize("copy", [deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_whose_first_step_is_compiled_goes_on(kind: str, copy: Any) -> None:
    """`state` and the drivers beside it are copied apart: the compiled step must advance both."""
    source = make_optimizer(kind, parameters([24, 5]))
    run(source, 2)
    plain, other = copy(source), copy(source)
    run_both(plain, other, compiled(other, []), range(2, 5))
    assert same_bits(drivers_state(plain), drivers_state(other))
    first = other.param_groups[0]["params"][0]
    assert int(other.state[first][prefix_of(kind) + "step"]) == 5


def test_a_wrong_setting_is_refused_before_anything_moves() -> None:
    other = MPGD(parameters([24]), lr=0.05, sigma=0.1)
    step = compiled(other, [])
    set_gradients(other.param_groups[0]["params"], 0)
    step()
    before = snapshot(other)
    for name, value in (("sigma", float("nan")), ("gamma", 2.0), ("lr", -1.0)):
        kept = other.param_groups[0][name]
        other.param_groups[0][name] = value
        with pytest.raises(ValueError, match=f"{name} must lie in"):
            step()
        other.param_groups[0][name] = kept
    assert same_bits(snapshot(other), before)


@pytest.mark.parametrize("missing", [(1,), (0,), (0, 1)])
def test_a_shared_driver_waits_without_gradients(missing: tuple[int, ...]) -> None:
    """As it does in a plain step: by the steps of each parameter."""

    def make() -> MPGD:
        groups = [{"params": [p]} for p in parameters([5, 4])]
        return MPGD(groups, lr=0.05, mu=0.1, noise=SHARED)

    plain, other = make(), make()
    for step, optimizer in ((plain.step, plain), (compiled(other, []), other)):
        params = [p for group in optimizer.param_groups for p in group["params"]]
        set_gradients(params, 0)
        for number in missing:
            params[number].grad = None
        for _ in range(4):
            step()
    assert [int(drivers(other, k)["step"]) for k in (0, 1)] == [
        4 * (k not in missing) for k in (0, 1)
    ]
    assert same_bits(snapshot(plain), snapshot(other))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_complex_parameters(backend: str) -> None:
    plain, other = (MPGD(parameters([5], torch.complex64), lr=0.05, sigma=0.1) for _ in range(2))
    compiled_step = torch.compile(other.step, backend=backend)
    for step, optimizer in ((plain.step, plain), (compiled_step, other)):
        for k in range(3):
            set_gradients(optimizer.param_groups[0]["params"], k)
            step()
    assert same_bits(snapshot(plain), snapshot(other))


def test_the_first_parameter_of_a_shared_group_may_go() -> None:
    plain, other = (MPGD(parameters([5, 4]), lr=0.05, mu=0.1, noise=SHARED) for _ in range(2))
    for step, optimizer in ((plain.step, plain), (compiled(other, []), other)):
        params = optimizer.param_groups[0]["params"]
        for k in range(4):
            set_gradients(params, k)
            step()
            del params[: int(k == 1)]
    assert same_bits(snapshot(plain), snapshot(other))


def test_a_parameter_that_is_appended_gets_a_driver() -> None:
    plain, other = (MPGD(parameters([5]), lr=0.05, sigma=0.1) for _ in range(2))
    for step, optimizer in ((plain.step, plain), (compiled(other, []), other)):
        params = optimizer.param_groups[0]["params"]
        for k in range(3):
            set_gradients(params, k)
            step()
            if k == 0:
                params.append(parameters([4], torch.float64)[0])
    assert same_bits(snapshot(plain), snapshot(other))


@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
def test_stochastic_rounding_leaves_the_graph(kind: str) -> None:
    plain, other = (
        make_optimizer(kind, parameters([24, 7], torch.bfloat16), rounding="stochastic")
        for _ in range(2)
    )
    run_both(plain, other, compiled(other, [], fullgraph=False), range(3))
    assert same_bits(snapshot(plain), snapshot(other))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="_untraced_step"):
        compiled(other, [])()


@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("default")  # inductor's own
def test_compiled_by_inductor_the_noise_has_the_plain_bits() -> None:
    plain, other = (make_optimizer("mpgd", parameters([24])) for _ in range(2))
    run_both(plain, other, torch.compile(other.step, fullgraph=True), range(4))
    assert same_bits(drivers_state(plain), drivers_state(other))
    torch.testing.assert_close(*(snapshot(each)["parameters"][0] for each in (plain, other)))


def test_the_operator_declares_what_it_changes() -> None:
    optimizer = make_optimizer("mpgd", parameters([24, (3, 4)]), noise=SHARED)
    params = optimizer.param_groups[0]["params"]
    arguments = ([p.detach() for p in params], [], [0, 0, 0, 1], optimizer._number)  # type: ignore[attr-defined]
    torch.library.opcheck(displace_groups, arguments, test_utils=("test_schema", "test_faketensor"))
