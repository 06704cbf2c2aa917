"""Random sequences of operations on an optimizer, against a plain model of what must come out.

The model is slow and explicit. For each parameter it keeps an ordinal, a step count and the words
of its drivers. A word advances by `ChaoticNoise.step` under the key (seed, ordinal, driver number);
the displacement and the descent are written out.
"""

from __future__ import annotations

import io
import random
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD, ChaoticNoise, perturb
from mpgd.noise import NoiseState
from mpgd.noise.counter_hash import make_key, seed_of
from mpgd.optim import stochastic_round
from tests.optim.checkpoints import prefix_of
from tests.optim.workers import bits

SEQUENCES, COMPILED, LENGTH = 300, 3, 12
DRIVERS = {"multiplicative": 0, "additive": 1, "multiplicative_twin": 2, "additive_twin": 3}
SIZES = {"multiplicative": "mu", "additive": "sigma"}
CHOICES: dict[str, list[Any]] = {
    "lr": [0.05, 0.1, 0.0],
    "mu": [0.0, 0.1],
    "sigma": [0.2, 0.0, -0.1],
    "gamma": [0.6, (0.6, 0.7)],
    "beta": [0.0, 0.5],
    "symmetric": [False, True],
    "start": [0, 3],
    "stop": [None, 6],
    "seed": [0, 7, (0, "critic")],
    "rounding": ["nearest", "stochastic"],
    "engine": ["torch", None],
}
Group = tuple[list[str], dict[str, Any]]  # names of parameters, settings


def seed_number(settings: dict[str, Any]) -> int:
    seed = settings["seed"]
    return seed_of(*seed) if isinstance(seed, tuple) else seed


def noise_of(settings: dict[str, Any], driver: str) -> ChaoticNoise:
    gamma, which = settings["gamma"], driver.startswith("additive")
    gamma = gamma[which] if isinstance(gamma, tuple) else gamma
    return ChaoticNoise(gamma, settings["beta"], engine="torch")


def drivers_in_use(settings: dict[str, Any]) -> list[str]:
    own = [name for name, size in SIZES.items() if settings[size]]
    return own + [f"{name}_twin" for name in own if settings["symmetric"]]


def is_rounded(settings: dict[str, Any], x: Tensor) -> bool:
    return bool(settings["rounding"] == "stochastic" and x.dtype.itemsize == 2)


class Reference:
    """What an optimizer must do: groups, the values of parameters, the states of their drivers."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.values: dict[str, Tensor] = {}
        self.states: dict[str, dict[str, Any]] = {}

    def fit(self) -> None:
        """Make the drivers that the settings ask for; an ordinal is a place that nobody has."""
        every = [name for names, _ in self.groups for name in names]
        for names, settings in self.groups:
            for name in self.with_state(names, settings):
                taken = {state["ordinal"] for state in self.states.values()}
                place = every.index(name)
                ordinal = place if place not in taken else max(*taken, len(every)) + 1
                state = self.states.setdefault(name, {"ordinal": ordinal, "step": 0})
                for driver in set(drivers_in_use(settings)) - state.keys():
                    ids = {"tensor_id": state["ordinal"], "driver_id": DRIVERS[driver]}
                    shape, seed = self.values[name].shape, seed_number(settings)
                    state[driver] = noise_of(settings, driver).init(shape, seed, **ids).word

    def with_state(self, names: list[str], settings: dict[str, Any]) -> list[str]:
        """Return the names of parameters that are displaced or rounded."""
        used = bool(drivers_in_use(settings))
        return [name for name in names if used or is_rounded(settings, self.values[name])]

    def step(self, gradients: dict[str, Tensor | None]) -> None:
        """Displace, then descend, then round; a parameter without a gradient waits."""
        self.fit()
        for names, settings in self.groups:
            for name in names:
                g, eta, x = gradients[name], settings["lr"], self.values[name]
                if g is None:
                    continue
                rounds, dtype, state = is_rounded(settings, x), x.dtype, self.states.get(name)
                x = x.float() if rounds else x
                if eta and drivers_in_use(settings):
                    x = self.displaced(x, self.states[name], settings)
                x = torch.add(x, g.to(x.dtype), alpha=-eta)
                if rounds and state:
                    key = {"seed": seed_number(settings), "stream": state["ordinal"]}
                    x = stochastic_round(x, dtype, step=state["step"], **key)
                self.values[name] = x
                if (eta or rounds) and self.with_state([name], settings):
                    self.states[name]["step"] += 1

    def cast(self, dtype: torch.dtype) -> None:
        """Round all parameters to another type."""
        self.values = {name: x.to(dtype) for name, x in self.values.items()}

    def displaced(self, x: Tensor, state: dict[str, Any], settings: dict[str, Any]) -> Tensor:
        """Return (x - m x) + n, within the window."""
        stop = settings["stop"]
        if state["step"] < settings["start"] or (stop is not None and state["step"] >= stop):
            return x
        terms: dict[str, Tensor] = {}
        precision = torch.float32 if x.dtype.itemsize == 2 else x.dtype
        for driver in drivers_in_use(settings):
            noise = noise_of(settings, driver)
            key = make_key(seed_number(settings), state["ordinal"], DRIVERS[driver])
            now = NoiseState(state[driver], torch.tensor(state["step"]), torch.tensor(key))
            v, following = noise.step(now)
            state[driver] = following.word
            # chi times the scaled c0 or c1: an engine rounds the product with the scale first
            scale = settings[SIZES[driver.removesuffix("_twin")]] * settings["lr"] ** noise.gamma
            c0, c1 = scale * noise.laminar_value, scale * noise.burst_value
            is_laminar = v.abs() == noise.laminar_value
            term = torch.where(is_laminar, v.sign() * c0, -v.sign() * c1).to(precision)
            own = driver.removesuffix("_twin")
            terms[own] = term if own == driver else terms[own] - term
        x, dtype = x.to(precision), x.dtype
        if "multiplicative" in terms:
            x = x - terms["multiplicative"] * x
        return (x + terms["additive"] if "additive" in terms else x).to(dtype)


class Pair:
    """An optimizer and its model, on which the same operations are done."""

    def __init__(self, kind: str, dice: random.Random) -> None:
        self.prefix, self.dice, self.model = prefix_of(kind), dice, Reference()
        self.params: dict[str, nn.Parameter] = {}
        self.saved: Any = None
        self.out: list[tuple[dict[str, Any], Group]] = []
        self.frozen: set[str] = set()
        self.dtype, self.steps, self.is_compiled = torch.float64, 0, False
        groups = [self.new_group(), self.new_group()]
        self.optimizer: Any = (
            MPGD(groups, engine="torch")
            if kind == "mpgd"
            else perturb(torch.optim.SGD(groups), engine="torch")
        )
        self.model.fit()

    def keyed(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return settings under the names that they have in a group."""
        return {k if k == "lr" else self.prefix + k: v for k, v in settings.items()}

    def new_group(self) -> dict[str, Any]:
        """Return a new group of one or two parameters; the model has it too."""
        settings = {name: values[0] for name, values in CHOICES.items()}
        settings["sigma"] = self.dice.choice(CHOICES["sigma"])
        names = [f"p{len(self.params) + k}" for k in range(self.dice.choice((1, 2)))]
        for name in names:
            x = torch.linspace(-1, 1, self.dice.choice((1, 5, 40)), dtype=self.dtype)
            self.params[name], self.model.values[name] = nn.Parameter(x.clone()), x
        self.model.groups.append((names, settings))
        return {"params": [self.params[name] for name in names], **self.keyed(settings)}

    def layout(self) -> list[list[str]]:
        """Return the names of the parameters in the groups."""
        return [names for names, _ in self.model.groups]

    def first_names(self) -> list[str]:
        """Return the name of the first parameter of every group."""
        return [names[0] for names in self.layout()]

    def step(self) -> None:
        """Take a step, with some gradients left out."""
        gradients: dict[str, Tensor | None] = {}
        for number, (name, p) in enumerate(self.params.items()):
            generator = torch.Generator().manual_seed(1000 * self.steps + number)
            g = torch.randn(p.shape, generator=generator, dtype=torch.float64).to(self.dtype)
            skips = name in self.frozen or self.dice.random() < 0.2
            # compiled, a group without gradients makes no drivers: its first parameter has one
            skips = skips and not (self.is_compiled and name in self.first_names())
            gradients[name], p.grad = (None, None) if skips else (g, g.clone())
        self.steps += 1
        step = self.optimizer.step
        (torch.compile(step, backend="eager") if self.is_compiled else step)()
        self.model.step(gradients)

    def cast(self) -> None:
        """Cast all parameters, as `nn.Module.to` does."""
        self.dtype = self.dice.choice((torch.float64, torch.float32, torch.bfloat16))
        for p in self.params.values():
            p.grad, p.data = None, p.data.to(self.dtype)
        self.model.cast(self.dtype)

    def compile(self) -> None:
        """Compile the steps from here on, or no more."""
        self.is_compiled = not self.is_compiled

    def change(self) -> None:
        """Change a setting of a group."""
        number = self.dice.randrange(len(self.model.groups))
        name = self.dice.choice(list(CHOICES))
        value = self.dice.choice(CHOICES[name])
        self.optimizer.param_groups[number].update(self.keyed({name: value}))
        self.model.groups[number][1][name] = value

    def add(self) -> None:
        """Add a new group, or one that was taken out."""
        self.model.fit()
        if self.out and self.dice.random() < 0.6:
            group, own = self.out.pop()
            self.model.groups.append(own)
        else:
            group = self.new_group()
        self.optimizer.add_param_group(group)
        self.model.fit()

    def pop(self) -> None:
        """Take a group out; it may come back. Asking for the state then must change nothing."""
        if len(self.model.groups) > 1:
            number = self.dice.randrange(len(self.model.groups))
            out = self.optimizer.param_groups.pop(number)
            self.out.append((out, self.model.groups.pop(number)))
            self.optimizer.state_dict()
            self.model.fit()

    def save(self) -> None:
        """Save to a file."""
        stream = io.BytesIO()
        torch.save(self.optimizer.state_dict(), stream)
        self.model.fit()
        self.saved = stream, deepcopy((self.model.groups, self.model.states))

    def load(self) -> None:
        """Load the last file if it has these groups; those that are out lose their drivers."""
        if self.saved and [names for names, _ in self.saved[1][0]] == self.layout():
            self.saved[0].seek(0)
            self.optimizer.load_state_dict(torch.load(self.saved[0], weights_only=True))
            self.model.groups, states = deepcopy(self.saved[1])
            present = [name for names in self.layout() for name in names]
            self.model.states = {name: states[name] for name in present if name in states}

    def copy(self) -> None:
        """Go on with a deep copy, of the groups that are out too."""
        held = self.optimizer, self.params, [group for group, _ in self.out]
        self.optimizer, self.params, groups = deepcopy(held)
        self.out = [(group, own) for group, (_, own) in zip(groups, self.out, strict=True)]

    def freeze(self) -> None:
        """Freeze a parameter, or let a frozen one go on."""
        self.frozen ^= {self.dice.choice(list(self.params))}

    def check(self) -> None:
        """Compare parameters, counts and words in bits, after a step."""
        for name, p in self.params.items():
            assert torch.equal(bits(p), bits(self.model.values[name])), name
        for names, settings in self.model.groups:
            for name in self.model.with_state(names, settings):
                found = self.optimizer._orbits[self.params[name]]
                for entry, expected in self.model.states[name].items():
                    assert torch.equal(found[entry], torch.as_tensor(expected)), (name, entry)


OPERATIONS = [
    *[Pair.step] * 4,
    *[Pair.change] * 4,
    *[Pair.add, Pair.pop, Pair.save, Pair.load, Pair.copy, Pair.freeze, Pair.cast],
]
WITH_COMPILE = [*[Pair.compile] * 4, *OPERATIONS]


@pytest.mark.parametrize("kind", ["mpgd", "sgd"])
def test_random_sequences_of_operations_do_what_a_plain_model_does(kind: str) -> None:
    for number in range(SEQUENCES // 2):
        run_sequence(kind, f"{kind} {number}", OPERATIONS)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("kind", ["mpgd", "sgd"])
def test_random_sequences_with_compiled_steps(kind: str) -> None:
    for number in range(COMPILED):
        torch._dynamo.reset()
        run_sequence(kind, f"compiled {kind} {number}", WITH_COMPILE)


def run_sequence(kind: str, seed: str, operations: list[Any]) -> None:
    """Do random operations, with a step and a check after each."""
    dice = random.Random(seed)
    pair, done = Pair(kind, dice), []
    for _ in range(LENGTH):
        operation = dice.choice(operations)
        done.append(operation.__name__)
        try:
            operation(pair)
            pair.step()
            pair.check()
        except Exception as error:
            raise AssertionError(f"sequence {seed!r}: {done}") from error


def test_another_key_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: the check can fail."""
    pair = Pair("mpgd", random.Random("mpgd 0"))
    monkeypatch.setitem(DRIVERS, "additive", 3)
    for _ in range(LENGTH):
        pair.step()
    with pytest.raises(AssertionError, match=r"p\d"):
        pair.check()
