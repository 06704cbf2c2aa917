"""`stochastic_rounding` around any optimizer: buckets, states in half types, SAM, checkpoints."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.optim import SGD, AdamW, Optimizer

from mpgd import perturb, stochastic_rounding
from mpgd.noise.engines import cpu
from mpgd.optim import buckets, step_in_backward, stochastic_round
from mpgd.sharding import note_offset
from tests.optim.descents import drivers, flat, parameters, resumed
from tests.optim.workers import run, same_bits, set_gradients, snapshot

BF16 = torch.bfloat16
SHAPES = [(3, 4), (), 700, 40]
WHOLE = "ignore:.* is stepped whole:UserWarning"
TORCHS: dict[str, Any] = {
    **{
        kind.__name__: kind
        for kind in (
            *(optim.Adadelta, optim.Adafactor, optim.Adagrad, optim.Adam, optim.Adamax, AdamW),
            *(optim.ASGD, optim.NAdam, optim.RAdam, optim.RMSprop, optim.Rprop, SGD),
        )
    },
    "SGD, momentum": lambda params, lr: SGD(params, lr=lr, momentum=0.9, nesterov=True),
    "AdamW, amsgrad": lambda params, lr: AdamW(params, lr=lr, amsgrad=True),
}


# Bits --------------------------------------------------


@pytest.mark.parametrize("states", [None, BF16], ids=str)
@pytest.mark.parametrize("name", list(TORCHS))
def test_torchs_optimizers_resume_in_bits_with_any_bucket(
    name: str, states: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parameter without axes is among them: its ``step`` has its shape."""

    def make(params: Any) -> Any:
        return stochastic_rounding(TORCHS[name](params, lr=0.01), state_dtype=states)

    one, other = resumed(make, parameters(SHAPES, BF16))
    assert same_bits(one, other)
    for size in (1, 740):
        monkeypatch.setattr(buckets, "SIZE", size)
        assert same_bits(resumed(make, parameters(SHAPES, BF16))[0], one)
    matrices = {x.dtype for n, x in one["state"][0].items() if getattr(x, "shape", ()) == (3, 4)}
    assert matrices <= {states or torch.float32}


@pytest.mark.parametrize("kind", [AdamW, optim.RMSprop, optim.Adam])
def test_a_half_parameter_without_axes_resumes_to_nearest_too(kind: Any) -> None:
    one, other = resumed(
        lambda params: perturb(kind(params, lr=0.01), sigma=0.01), parameters([(), 3], BF16)
    )
    assert same_bits(one, other)


@pytest.mark.parametrize("saved", [torch.float32, torch.float64])
def test_a_checkpoint_in_full_precision_goes_on_in_a_half_type(saved: torch.dtype) -> None:
    """It has no count of rounded steps: that starts now, and resumes from here on."""
    source = perturb(AdamW(parameters([(), 30], saved), lr=0.01), rounding="stochastic")
    run(source, 3)

    def make(params: Any) -> Any:
        optimizer = stochastic_rounding(AdamW(params, lr=0.01))
        optimizer.load_state_dict(deepcopy(source.state_dict()))
        return optimizer

    first = make(parameters([(), 30], BF16))
    assert first.state_dict()["state"][1]["exp_avg"].dtype == torch.float32
    one, other = resumed(make, parameters([(), 30], BF16))
    assert same_bits(one, other)
    assert int(one["state"][1]["perturbation.step"]) == int(one["state"][1]["step"]) - 3


@pytest.mark.parametrize("noise", [{}, {"sigma": 0.1}], ids=str)
@pytest.mark.parametrize("foreach", [None, True])
def test_at_a_learning_rate_of_0_each_step_rounds_the_moments_anew(
    foreach: bool | None, noise: dict[str, float]
) -> None:
    """With one rounding again and again, the mean is 0.342 and not 1 - 0.999^600 = 0.451."""
    p = nn.Parameter(torch.ones(20_000, dtype=BF16))
    optimizer = AdamW([p], lr=0.0, foreach=foreach)
    optimizer = perturb(optimizer, **noise) if noise else optimizer
    optimizer = stochastic_rounding(optimizer, state_dtype=BF16)
    p.grad = torch.ones_like(p)
    for _ in range(600):
        optimizer.step()
    assert float(optimizer.state[p]["exp_avg_sq"].float().mean()) == pytest.approx(0.451, abs=2e-3)
    assert torch.equal(p, torch.ones_like(p))


@pytest.mark.parametrize("noise", [{}, {"sigma": 0.1, "mu": 0.1}], ids=str)
@pytest.mark.parametrize("states", [None, BF16], ids=str)
@pytest.mark.parametrize("kind", ["Adam", "AdamW, amsgrad"])
def test_adams_bits_depend_neither_on_pieces_nor_on_parts(
    kind: str, states: torch.dtype | None, noise: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's fused kernel computes the elements behind its last whole vector in another way."""

    def ends(cuts: list[int]) -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        numbers = torch.randn(5, 1000, generator=generator).bfloat16()
        params = [nn.Parameter(x.clone()) for x in numbers[0].split(cuts)]
        for p, first in zip(params, torch.tensor([0, *cuts]).cumsum(0).tolist(), strict=False):
            note_offset(p, first)
        optimizer = TORCHS[kind](params, lr=0.01)
        optimizer = perturb(optimizer, **noise, seed=3) if noise else optimizer
        optimizer = stochastic_rounding(optimizer, state_dtype=states)
        for p in params:
            optimizer._orbits[p]["ordinal"].fill_(0)
        optimizer._keys.clear()
        for gradient in numbers[1:]:
            for p, part in zip(params, gradient.split(cuts), strict=True):
                p.grad = part.clone()
            optimizer.step()
        names = buckets.MOMENTS[: 3 if "amsgrad" in kind else 2]
        joined = [torch.cat([optimizer.state[p][name] for p in params]) for name in names]
        return [torch.cat([p.detach() for p in params]), *joined]

    whole = ends([1000])
    if not noise:  # orbits start by the parameter's number
        assert same_bits(ends([3, 500, 1, 496]), whole)
    monkeypatch.setattr(buckets, "PIECE", 128)
    assert same_bits(ends([1000]), whole)


@pytest.mark.parametrize("states", [None, BF16], ids=str)
@pytest.mark.parametrize("channels", [5, 8])
def test_adam_takes_parameters_that_are_not_contiguous(
    channels: int, states: torch.dtype | None
) -> None:
    """With 8 channels there is no padding, so float32 moments are stepped in place."""
    ends = []
    for layout in (torch.contiguous_format, torch.channels_last):
        x = torch.linspace(-1, 1, 48 * channels).view(2, channels, 4, 6).bfloat16()
        p = nn.Parameter(x.clone(memory_format=layout))
        optimizer = stochastic_rounding(AdamW([p], lr=0.01), state_dtype=states)
        for k in range(3):
            p.grad = (x * (k + 1)).contiguous(memory_format=layout)
            optimizer.step()
        moments = [optimizer.state[p][name].contiguous() for name in buckets.MOMENTS[:2]]
        ends.append([p.detach().contiguous(), *moments])
    assert same_bits(*ends)


@pytest.mark.parametrize("dtype", [BF16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_default_dtype_does_not_matter(
    dtype: torch.dtype, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step count in bfloat16 stays at 256; a parameter larger than a bucket needs memory too."""
    monkeypatch.setattr(buckets, "SIZE", 64)
    ends = []
    for default in (torch.float32, dtype):
        optimizer: Any = AdamW(parameters([700, ()], BF16), lr=0.01)
        optimizer = perturb(optimizer, sigma=noise) if noise else optimizer
        optimizer = stochastic_rounding(optimizer, state_dtype=BF16)
        try:
            torch.set_default_dtype(default)
            run(optimizer, 260)
        finally:
            torch.set_default_dtype(torch.float32)
        ends.append(snapshot(optimizer))
    assert same_bits(*ends)
    assert float(optimizer.state[flat(optimizer)[0]]["step"]) == 260


@pytest.mark.parametrize("dtype", [BF16, torch.float16], ids=str)
def test_the_trial_of_an_optimizer_is_in_float32(dtype: torch.dtype) -> None:
    """No warning that it is stepped whole; in float16 the trial's gradients overflow."""
    optimizer = stochastic_rounding(optim.Adafactor(parameters([(3, 4), 5], BF16), lr=0.01))
    try:
        torch.set_default_dtype(dtype)
        run(optimizer, 1)
    finally:
        torch.set_default_dtype(torch.float32)
    assert optimizer._is_separable


def test_a_setting_that_is_wrong_changes_nothing() -> None:
    optimizer = stochastic_rounding(AdamW(parameters([9, 4], BF16), lr=0.1), state_dtype=BF16)
    run(optimizer, 2)
    before = snapshot(optimizer)
    optimizer.param_groups[0]["betas"] = (0.9, "x")
    with pytest.raises(ValueError, match="could not convert string to float"):
        run(optimizer, 1, first=2)
    optimizer.param_groups[0]["betas"] = (0.9, 0.999)
    assert same_bits(snapshot(optimizer), before)


@pytest.mark.skipif(not cpu.is_available(), reason="needs kernels, a C compiler")
@pytest.mark.parametrize("kind", [AdamW, SGD, optim.RMSprop])
def test_strides_do_not_matter_and_take_the_kernel(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parameters, gradients or both; the reference, which is slow, is not called."""
    monkeypatch.setattr("mpgd.noise.stochastic_round.hash_elements", None)
    x = torch.linspace(-1, 1, 600).view(20, 30).bfloat16()
    ends = []
    for which in range(4):
        p = nn.Parameter(x.t().contiguous().t() if which & 1 else x.clone())
        optimizer = stochastic_rounding(kind([p], lr=0.01), state_dtype=BF16)
        for k in range(3):
            g = x * (k + 1)
            p.grad = g.t().contiguous().t() if which & 2 else g
            optimizer.step()
        ends.append(p.detach().contiguous())
    assert all(same_bits(each, ends[0]) for each in ends)


def test_it_is_perturbs_rounding_and_keeps_its_noise() -> None:
    one = stochastic_rounding(perturb(AdamW(parameters([9], BF16), lr=0.1), sigma=0.1, seed=3))
    other = perturb(AdamW(parameters([9], BF16), lr=0.1), sigma=0.1, seed=3, rounding="stochastic")
    plain = stochastic_rounding(AdamW(parameters([9], BF16), lr=0.1), seed=3)
    for optimizer in (one, other, plain):
        run(optimizer, 3)
    assert same_bits(snapshot(one), snapshot(other))
    assert not same_bits(flat(one)[0].detach(), flat(plain)[0].detach())


def test_states_have_chances_of_their_own() -> None:
    """Parameter number 1; the chance of a state follows from its name."""
    params = parameters([3, 5000], BF16)
    optimizer = stochastic_rounding(SGD(params, lr=0.01, momentum=0.9), state_dtype=BF16)
    run(optimizer, 1)
    buffer = optimizer.state[params[1]]["momentum_buffer"]
    assert same_bits(buffer, params[1].grad)  # the first is the gradient, a half
    before = buffer.float()
    run(optimizer, 1, first=1)
    wide = before * 0.9 + params[1].grad.float()
    buffer = optimizer.state[params[1]]["momentum_buffer"]
    assert float((buffer.float() - wide).abs().max()) <= float(wide.abs().max()) * 2**-7
    for stream in (0, 1):
        assert not same_bits(buffer, stochastic_round(wide, BF16, seed=0, step=1, stream=stream))


def test_a_mean_that_moves_less_than_a_place_arrives() -> None:
    """AdamW's second moment of gradients 1, then 0: to nearest it stays where it is."""
    means = {}
    for how in ("nearest", "stochastic"):
        p = nn.Parameter(torch.ones(4000, dtype=BF16))
        optimizer: Any = AdamW([p], lr=0.01, betas=(0.9, 0.999))
        if how == "stochastic":
            optimizer = stochastic_rounding(optimizer, state_dtype=BF16)
        for k in range(400):
            p.grad = torch.full_like(p, float(k < 1))
            if k == 1:
                optimizer.state[p]["exp_avg_sq"].fill_(1.0)
            optimizer.step()
        means[how] = float(optimizer.state[p]["exp_avg_sq"].float().mean())
    assert means["nearest"] == 1.0
    assert abs(means["stochastic"] - 0.999**399) < 0.005


@pytest.mark.parametrize("duplicate", [deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_keeps_the_states_dtype(duplicate: Any) -> None:
    optimizer = stochastic_rounding(AdamW(parameters([9], BF16), lr=0.1), state_dtype=BF16)
    run(optimizer, 2)
    copied = duplicate(optimizer)
    for each in (optimizer, copied):
        run(each, 2, first=2)
    assert same_bits(snapshot(optimizer), snapshot(copied))


# Checkpoints of other dtypes --------------------------------------------------


@pytest.mark.parametrize("states", [None, BF16], ids=str)
@pytest.mark.parametrize("foreach", [None, True])
def test_a_plain_float32_checkpoint_goes_on_in_a_bfloat16_model(
    states: torch.dtype | None, foreach: bool | None
) -> None:
    plain = AdamW(parameters([(3, 4), ()]), lr=0.01)
    run(plain, 3)
    halves = [nn.Parameter(p.detach().bfloat16()) for p in flat(plain)]
    optimizer = stochastic_rounding(AdamW(halves, lr=0.01, foreach=foreach), state_dtype=states)
    optimizer.load_state_dict(plain.state_dict())
    moments = [optimizer.state[halves[0]][name] for name in ("exp_avg", "exp_avg_sq")]
    assert same_bits(moments, [plain.state[flat(plain)[0]][n] for n in ("exp_avg", "exp_avg_sq")])
    run(optimizer, 2, first=3)
    assert optimizer.state[halves[0]]["exp_avg"].dtype == (states or torch.float32)
    assert float(optimizer.state[halves[1]]["step"]) == 5


@pytest.mark.parametrize("foreach", [None, True])
def test_a_perturbed_float32_checkpoint_goes_on_to_nearest(foreach: bool | None) -> None:
    wide = perturb(AdamW(parameters([(3, 4), ()]), lr=0.01), sigma=0.01)
    run(wide, 3)
    halves = [nn.Parameter(p.detach().bfloat16()) for p in flat(wide)]
    optimizer = perturb(AdamW(halves, lr=0.01, foreach=foreach), sigma=0.01)
    optimizer.load_state_dict(wide.state_dict())
    run(optimizer, 2, first=3)
    assert {x.dtype for x in flat(optimizer)} == {BF16}


# Optimizers that look at several tensors --------------------------------------------------


class Together(Optimizer):
    """Looks at all parameters together and counts its steps, as Prodigy."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Take a step of the gradient over its norm."""
        norm = torch.stack([p.grad.float().norm() for p in flat(self)]).norm()
        for group in self.param_groups:
            group["k"] = group.get("k", 0) + 1
            for p in group["params"]:
                p.sub_((p.grad / norm).to(p.dtype), alpha=group["lr"])


class Clipped(Together):
    """Looks at the norm of all gradients if it is large only, as LAMB."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Take a step of the clipped gradient."""
        nn.utils.clip_grad_norm_(flat(self), 100.0)
        for p in flat(self):
            p.sub_(p.grad, alpha=self.param_groups[0]["lr"])


class Counting(Together):
    """Counts its calls in itself, and does something else in every tenth."""

    calls = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Take a step."""
        self.calls += 1
        for p in flat(self):
            p.sub_(p.grad, alpha=0.0 if self.calls % 10 == 0 else 0.1)


class Alone(Together):
    """Steps each tensor for itself with a mean of its own, and counts in its groups."""

    largest = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Take a step."""
        for group in self.param_groups:
            group["k"] = group.get("k", 0) + 1
            for p in group["params"]:
                mean = self.state[p].setdefault("mean", torch.zeros_like(p)).lerp_(p.grad, 0.1)
                p.sub_(mean, alpha=group["lr"] / group["k"])
        Alone.largest = max(Alone.largest, len(flat(self)))


@pytest.mark.parametrize("kind", [Together, Clipped, Counting])
def test_one_that_couples_tensors_is_stepped_whole_and_says_so(kind: Any) -> None:
    def mixed() -> list[nn.Parameter]:
        return [*parameters([500]), *parameters([400], BF16), *parameters([30])]

    optimizer, plain = stochastic_rounding(kind(mixed())), kind(mixed())
    run(plain, 3)
    with pytest.warns(
        UserWarning, match=f"{kind.__name__} is stepped whole, with .* all half param"
    ):
        run(optimizer, 3)
    for k in (0, 2):
        torch.testing.assert_close(flat(optimizer)[k], flat(plain)[k])
    assert optimizer.param_groups[0].get("k") == plain.param_groups[0].get("k")
    assert getattr(optimizer, "calls", 3) == 3


def test_one_that_does_not_is_stepped_in_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """No warning; a count in a group grows by one a step, and the bits are those of one bucket."""
    ends = []
    for size in (1 << 20, 1):
        monkeypatch.setattr(buckets, "SIZE", size)
        first, *rest = parameters([(2, 3), 5, 7, ()], BF16)
        groups = [{"params": [first]}, {"params": rest, "lr": 0.03}]
        optimizer = stochastic_rounding(Alone(groups), state_dtype=BF16)
        run(optimizer, 1)
        Alone.largest = 0
        run(optimizer, 3, first=1)
        assert Alone.largest == (4 if size > 1 else 1)
        assert [group["k"] for group in optimizer.param_groups] == [4, 4]
        ends.append(snapshot(optimizer))
    assert same_bits(*ends)


class Sharp(Optimizer):
    """As SAM: climbs, clears the gradients, asks again, goes back and descends."""

    def __init__(self, params: Any, lr: float = 0.25, clears: str = "none") -> None:
        super().__init__(params, {"lr": lr})
        self.clears = clears

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take a step."""
        loss = closure()
        for p in flat(self):
            self.state[p]["old"] = p.clone()
            p.add_(p.grad, alpha=0.5)
        self.zero_grad(set_to_none=self.clears == "none")
        with torch.enable_grad():
            closure()
        for p in flat(self):
            p.copy_(self.state[p].pop("old")).sub_(p.grad, alpha=self.param_groups[0]["lr"])
        return loss


@pytest.mark.filterwarnings(WHOLE)
@pytest.mark.parametrize("clears", ["none", "zero"])
def test_sam_takes_the_step_of_its_second_gradient(clears: str) -> None:
    """F = x^2 / 2 at 1: it climbs to 1.5 and descends by 1.5 / 4; all of these are halves."""
    p = nn.Parameter(torch.ones(9, dtype=BF16))
    optimizer = stochastic_rounding(Sharp([p], clears=clears))
    seen: list[float] = []

    def closure() -> Tensor:
        seen.append(float(p.detach()[0]))
        loss = p.square().sum() / 2
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.5
    assert seen == [1.0, 1.5]
    assert p.tolist() == [0.625] * 9


class Climbing(Sharp):
    """Without a closure a plain step, which treats tensors one by one."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take a step."""
        if closure is not None:
            return super().step(closure)
        for p in flat(self):
            p.sub_(p.grad, alpha=self.param_groups[0]["lr"])


def test_one_that_evaluates_a_closure_again_is_stepped_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In buckets it would climb in one of them at a time."""
    monkeypatch.setattr(buckets, "SIZE", 1)
    p, q = (nn.Parameter(torch.ones(9, dtype=BF16)) for _ in range(2))
    optimizer = stochastic_rounding(Climbing([p, q]))

    def closure() -> Tensor:
        loss = (p * q).sum()
        loss.backward()
        return loss

    with pytest.warns(UserWarning, match="Climbing is stepped whole"):
        optimizer.step(closure)
    assert p.tolist() == q.tolist() == [0.625] * 9


# Gradients --------------------------------------------------


@pytest.mark.parametrize("states", [None, BF16], ids=str)
@pytest.mark.parametrize("noise", [{}, {"sigma": 0.1, "mu": 0.1}], ids=str)
def test_steps_in_the_backward_pass_have_the_same_bits(
    noise: dict[str, float], states: torch.dtype | None
) -> None:
    def make() -> tuple[nn.Module, Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)).bfloat16()
        model[1].float()
        optimizer: Any = AdamW(model.parameters(), lr=0.01)
        if noise:
            optimizer = perturb(optimizer, **noise)
        return model, stochastic_rounding(optimizer, state_dtype=states)

    def loss(model: nn.Module) -> Tensor:
        x = torch.linspace(-1, 1, 24).view(6, 4).bfloat16()
        return model[1](model[0](x).float()).square().sum()  # type: ignore[index]

    (plain, optimizer), (hooked, other) = make(), make()
    handles = step_in_backward(other)
    for _ in range(3):
        optimizer.zero_grad()
        loss(plain).backward()
        optimizer.step()
        loss(hooked).backward()
        assert all(p.grad is None for p in hooked.parameters())
    assert same_bits(snapshot(optimizer), snapshot(other))
    for handle in handles:
        handle.remove()
    loss(hooked).backward()
    assert all(p.grad is not None for p in hooked.parameters())


def test_gradients_are_freed_where_that_is_allowed() -> None:
    ends = []
    for free in (False, True):
        params = [*parameters([9, 4], BF16), *parameters([3])]
        optimizer = stochastic_rounding(AdamW(params, lr=0.1), free_gradients=free)
        run(optimizer, 3)
        assert [p.grad is None for p in params] == [free, free, False]
        ends.append(snapshot(optimizer))
    assert same_bits(*ends)


# Errors --------------------------------------------------


def test_what_cannot_be_is_refused() -> None:
    plain = AdamW(parameters([3], BF16), lr=0.1)
    with pytest.raises(ValueError, match=r"small squares of gradients, got torch\.float16"):
        stochastic_rounding(plain, state_dtype=torch.float16)
    assert type(plain) is AdamW
    with pytest.raises(TypeError, match="optimizer must be perturbed or rounded"):
        step_in_backward(plain)
    noisy = perturb(plain, sigma=0.1)
    with pytest.raises(ValueError, match="has a seed already, got seed=1: leave it out"):
        stochastic_rounding(noisy, seed=1)
    coupled = stochastic_rounding(Together(parameters([3], BF16)))
    with pytest.raises(ValueError, match="may couple tensors: only torch's own optimizers"):
        step_in_backward(coupled)


def test_a_step_count_follows_the_steps_taken() -> None:
    params = parameters([3, 4], BF16)
    optimizer = stochastic_rounding(SGD(params, lr=0.1))
    set_gradients(params, 0)
    params[1].grad = None
    optimizer.step()
    assert [int(drivers(optimizer, k)["step"]) for k in (0, 1)] == [1, 0]
