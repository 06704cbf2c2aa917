"""Gradients in closed form are torch.func's, whatever the net, its loss and its neighbours."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from mpgd_lab.batched_training import is_shallow
from mpgd_lab.nets import backprop
from mpgd_lab.nets.backprop import Backpropagation
from mpgd_lab.nets.layout import Examples, Layout, Loss, cross_entropy, mean_square, slope
from mpgd_lab.nets.shallow import is_available, shallow_gradient

COUNT = 300  # examples; no multiple of a block
needs_kernels = pytest.mark.skipif(not is_available(), reason="needs kernels, a C compiler")


def by_class(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return a loss we have no formula for, of several outputs."""
    right = outputs.gather(-1, targets.long()[..., None])[..., 0]
    return (outputs.logsumexp(-1) - right).mean(-1)


NETS: dict[str, tuple[Layout, Loss]] = {
    "airfoil": (Layout((5, 16, 1), torch.relu), mean_square),
    "one layer": (Layout((9, 6, 1), torch.sigmoid, torch.sigmoid), cross_entropy),
    "two layers": (Layout((9, 6, 4, 1), torch.sigmoid, torch.sigmoid), cross_entropy),
    "three outputs": (Layout((5, 7, 3), torch.tanh), by_class),
    "deep": (Layout((5, 4, 4, 4, 1), torch.relu), mean_square),
}


def data(layout: Layout, nets: int | None = None) -> tuple[Tensor, Tensor]:
    """Return inputs and targets 0, 1 (2), for all nets or for each its own."""
    generator = torch.Generator().manual_seed(0)
    shape = (COUNT,) if nets is None else (nets, COUNT)
    inputs = torch.randn(*shape, layout.widths[0], generator=generator, dtype=torch.float64)
    return inputs, torch.randint(max(2, layout.widths[-1]), shape, generator=generator).double()


def oracle(layout: Layout, loss: Loss, x: Tensor, inputs: Tensor, targets: Tensor) -> list[Tensor]:
    """Return losses and gradients by torch.func, one net at a time."""

    def one(x: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        return loss(layout.forward(x[None], inputs), targets[None])[0]

    own = 0 if inputs.dim() == 3 else None
    gradient, losses = vmap(grad_and_value(one), in_dims=(0, own, own))(x, inputs, targets)
    return [losses, gradient]


def close(found: Tensor, expected: Tensor) -> bool:
    return bool((found - expected).abs().max() <= 1e-13 * expected.abs().max())


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("nets", [None, 5], ids=["shared data", "own data"])
@pytest.mark.parametrize("cache", [1, 1 << 20], ids=["one by one", "together"])
def test_closed_forms_are_the_gradients_of_torch_func(
    name: str, nets: int | None, cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backprop, "CACHE", cache)
    layout, loss = NETS[name]
    x, (inputs, targets) = layout.initial(range(5), torch.float64), data(layout, nets)
    gradient = Backpropagation(layout, loss, COUNT, torch.float64)
    expected = oracle(layout, loss, x, inputs, targets)
    for _ in range(2):  # buffers are used again
        found = gradient(x, Examples.of(inputs, targets))
        assert all(map(close, found, expected))
    assert not close(found[1] + 1e-9, expected[1])


@needs_kernels
@pytest.mark.parametrize("nets", [None, 5], ids=["shared data", "own data"])
@pytest.mark.parametrize("widths", [(5, 16, 1), (1, 1, 1), (3, 40, 1)])
def test_the_compiled_gradient_is_the_same(nets: int | None, widths: tuple[int, ...]) -> None:
    layout = Layout(widths, torch.relu)
    assert is_shallow(layout, mean_square, torch.float64)
    x, (inputs, targets) = layout.initial(range(5), torch.float64), data(layout, nets)
    found = shallow_gradient(x, Examples.of(inputs, targets))
    assert all(map(close, found, oracle(layout, mean_square, x, inputs, targets)))


@needs_kernels
def test_a_compiled_gradient_does_not_depend_on_its_neighbours() -> None:
    layout = Layout((5, 16, 1), torch.relu)
    x, examples = layout.initial(range(5), torch.float64), Examples.of(*data(layout))
    together, alone = shallow_gradient(x, examples), shallow_gradient(x[3:4], examples)
    assert torch.equal(together[1][3], alone[1][0])


@pytest.mark.parametrize(
    ("layout", "loss", "dtype"),
    [
        (Layout((5, 16, 1), torch.tanh), mean_square, torch.float64),
        (Layout((5, 16, 1), torch.relu, torch.sigmoid), mean_square, torch.float64),
        (Layout((5, 16, 16, 1), torch.relu), mean_square, torch.float64),
        (Layout((5, 16, 2), torch.relu), mean_square, torch.float64),
        (Layout((5, 16, 1), torch.relu), cross_entropy, torch.float64),
        (Layout((5, 16, 1), torch.relu), mean_square, torch.float32),
    ],
)
def test_the_compiled_gradient_is_for_its_own_nets_only(
    layout: Layout, loss: Loss, dtype: torch.dtype
) -> None:
    assert not is_shallow(layout, loss, dtype)


@pytest.mark.parametrize("loss", [mean_square, cross_entropy])
def test_slopes_are_autograds_even_where_a_net_is_certain(loss: Loss) -> None:
    outputs = torch.tensor([[0.3, 0.0, 1.0, 1e-14, 0.9]], dtype=torch.float64)
    targets = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    leaf = outputs.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf, targets).sum(), leaf)
    assert torch.allclose(slope(loss)(outputs, targets), expected, rtol=1e-7)


def test_an_activation_without_a_formula_is_named() -> None:
    with pytest.raises(ValueError, match=r"activations must be among relu, .* got Layout"):
        Backpropagation(Layout((2, 2, 1), torch.sin), mean_square, 3, torch.float64)
