from __future__ import annotations

import pytest
import torch
from torch import nn

from mpgd import MPGD, ChaoticNoise
from mpgd_lab.nets.layout import Layout, gradients
from mpgd_lab.perturbations.batched import NoiseBank

LAYOUT = Layout((5, 7, 3), torch.tanh)


def net(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def test_a_batch_of_nets_starts_as_torch_would_and_leaves_its_generator_alone() -> None:
    before = torch.random.get_rng_state()
    x = LAYOUT.initial([1, 2], torch.float32)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    alone = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    assert torch.equal(x[1], flat(alone))


def test_outputs_and_gradients_are_each_nets_own() -> None:
    models, inputs = [net(1), net(2)], torch.randn(11, 5, dtype=torch.float64)
    x = torch.stack([flat(model) for model in models])
    outputs = LAYOUT.forward(x, inputs)
    losses, gradient = gradients(lambda p: LAYOUT.forward(p, inputs).square().mean((1, 2)), x)
    for k, model in enumerate(models):
        assert torch.allclose(outputs[k], model(inputs), rtol=1e-13)
        loss = model(inputs).square().mean()
        gradients_alone = torch.autograd.grad(loss, list(model.parameters()))
        own = torch.cat([g.reshape(-1) for g in gradients_alone])
        assert torch.allclose(losses[k], loss)
        assert torch.allclose(gradient[k], own, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_a_run_in_a_bank_has_the_noise_it_would_have_alone(engine: str) -> None:
    """Its orbits are those of MPGD with that seed, bit for bit, at every step."""
    noise, seeds = ChaoticNoise(0.6, 0.5, engine=engine), [3, 8]
    bank = NoiseBank(noise, seeds, LAYOUT.shapes, drivers=(0, 1))
    model = net(0)
    optimizer = MPGD(model.parameters(), lr=0.1, mu=0.1, sigma=0.1, gamma=0.6, beta=0.5, seed=8)
    for _ in range(30):
        bank.next()
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
    assert bank.words is not None
    for states, name in zip(bank.words, ("multiplicative", "additive"), strict=True):
        orbits = [optimizer.state[p][name].reshape(-1) for p in model.parameters()]
        assert torch.equal(states[1], torch.cat(orbits))
        assert not torch.equal(states[0], states[1])
