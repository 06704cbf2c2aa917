"""Train a character transformer in float32 and in bfloat16, and compare the losses.

    ONEDNN_MAX_CPU_ISA=AVX512_CORE python examples/train_in_bfloat16.py --write runs.jsonl

The text is the source of Python's own library. Each optimizer trains the same net four times: in
float32, in bfloat16 to nearest, and in bfloat16 with stochastic rounding, moments in float32 and in
bfloat16. Runs of one seed start at the same weights and see the same text. The loss is that of the
weights on text that was not trained on, computed in float32. Some CPUs announce bfloat16
instructions that they do not have; the variable keeps torch from using them.

Each finished run is appended to the file, and is not repeated by the next call. The seeds are the
outer loop.
"""

import argparse
import inspect
import json
import pathlib
import statistics
import time
import typing

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import mpgd

CONTEXT, WIDTH, LAYERS, BATCH, POINTS = 32, 64, 2, 8, 6
MODES = ("float32", "nearest", "stochastic", "stochastic, bfloat16 moments")


def text():
    """Return the characters of some modules as numbers below 128."""
    source = "".join(
        inspect.getsource(module) for module in (argparse, inspect, typing, statistics)
    )
    return torch.tensor([min(ord(c), 127) for c in source])


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.symbols = nn.Embedding(128, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        )
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 128)

    def forward(self, x):
        y = self.symbols(x) + self.places(torch.arange(x.shape[1]))
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=y.dtype).triu(1)
        for layer in self.layers:
            y = layer(y, src_mask=mask)
        return self.head(self.norm(y))


def loss_of(model, data, generator, batch=BATCH):
    first = torch.randint(len(data) - CONTEXT - 1, (batch,), generator=generator)
    window = data[first[:, None] + torch.arange(CONTEXT + 1)]
    logits = model(window[:, :-1]).float()
    return nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())


def optimizers():
    """Return what makes each optimizer; those of other libraries where they are installed."""
    found = {
        "AdamW": lambda params: torch.optim.AdamW(params, lr=1e-3),
        "SGD, momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    }
    try:
        from pytorch_optimizer import Lion

        found["Lion"] = lambda params: Lion(params, lr=2e-4)
    except ImportError:
        print("pytorch_optimizer is not installed: no Lion")
    return found


def torchao_adamw():
    try:
        from torchao.optim import _AdamW

        return lambda params: _AdamW(params, lr=1e-3, bf16_stochastic_round=True)
    except ImportError:
        print("torchao is not installed: no comparison with its AdamW")
        return None


def train(make, mode, seed, steps, train_text, test_text):
    """Return the losses on other text along the run, bytes a parameter, ms a step."""
    torch.manual_seed(seed)
    model = Transformer().to(torch.float32 if mode == "float32" else torch.bfloat16)
    optimizer = make(model.parameters())
    if mode.startswith("stochastic"):
        states = torch.bfloat16 if "moments" in mode else None
        optimizer = mpgd.stochastic_rounding(optimizer, state_dtype=states, seed=seed)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator, curve, seconds = torch.Generator().manual_seed(seed), [], []
    for k in range(1, steps + 1):
        optimizer.zero_grad()
        loss_of(model, train_text, generator).backward()
        began = time.process_time()
        optimizer.step()
        seconds.append(time.process_time() - began)
        schedule.step()
        if k % (steps // POINTS) == 0:
            wide = Transformer()
            wide.load_state_dict(model.state_dict())
            with torch.no_grad():
                fixed = torch.Generator().manual_seed(0)
                curve.append(float(loss_of(wide, test_text, fixed, batch=256)))
    tensors = [x for s in optimizer.state.values() for x in s.values() if torch.is_tensor(x)]
    params = list(model.parameters())
    total = sum(x.nbytes for x in tensors + params) + sum(p.grad.nbytes for p in params)
    return {
        "curve": curve,
        "bytes": total / sum(p.numel() for p in params),
        "ms": 1000 * statistics.median(seconds),
    }


def print_table(runs):
    """Print the mean loss of each case, and what each seed loses to float32."""
    print("| optimizer | parameters | mean loss | over float32, seed by seed | bytes | ms a step |")
    print("| --- | --- | ---: | --- | ---: | ---: |")
    cases = dict.fromkeys((run["optimizer"], run["mode"]) for run in runs)
    for name, mode in sorted(cases, key=lambda case: case[0]):
        own = [r for r in runs if (r["optimizer"], r["mode"]) == (name, mode)]
        wide = [r for r in runs if r["optimizer"] in name and r["mode"] == "float32"]
        base = {run["seed"]: run["curve"][-1] for run in wide}
        pairs = [(run["curve"][-1], base.get(run["seed"])) for run in own]
        over = ", ".join(f"{a - b:+.3f}" for a, b in pairs if mode != "float32" and b is not None)
        mean = statistics.mean(a for a, _ in pairs)
        ms = statistics.median(run["ms"] for run in own)
        print(f"| {name} | {mode} | {mean:.3f} | {over} | {own[0]['bytes']:.1f} | {ms:.1f} |")


def plot(runs, path):
    """Draw the excess of each loss over that of float32 along the runs, one line a seed."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(r["optimizer"] for r in runs if r["mode"] == "float32"))
    figure, axes = plt.subplots(1, len(names), figsize=(3.4 * len(names), 2.8), squeeze=False)
    colours = dict(zip(MODES, ("black", "tab:red", "tab:blue", "tab:green"), strict=True))
    for axis, name in zip(axes[0], names, strict=True):
        own = {(r["mode"], r["seed"]): r for r in runs if r["optimizer"] == name}
        for (mode, seed), run in own.items():
            base, steps = own["float32", seed]["curve"], run["steps"]
            excess = [a - b for a, b in zip(run["curve"], base, strict=True)]
            at = [(k + 1) * (steps // POINTS) for k in range(len(excess))]
            axis.plot(at, excess, color=colours[mode], lw=1, label=mode if seed == 0 else None)
        axis.set(title=name, xlabel="step")
    axes[0][0].set_ylabel("loss over that of float32")
    axes[0][-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="an optimizer's name, or a part of it")
    parser.add_argument("--write", type=pathlib.Path, help="append finished runs to this file")
    parser.add_argument("--plot", help="draw the curves into this file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = text()
    cut = len(data) * 9 // 10
    cases = [(name, mode, make) for name, make in optimizers().items() for mode in MODES]
    if other := torchao_adamw():
        cases.append(("torchao AdamW", "its own rounding", other))
    lines = given.write.read_text().splitlines() if given.write and given.write.exists() else []
    runs = [run for run in map(json.loads, lines) if run["steps"] == given.steps]
    done = {(run["optimizer"], run["mode"], run["seed"]) for run in runs}
    for seed in range(given.seeds):
        for name, mode, make in cases:
            if given.only not in name or (name, mode, seed) in done:
                continue
            with sdpa_kernel(SDPBackend.MATH):  # the fused one is slow in bfloat16 on CPUs
                run = train(make, mode, seed, given.steps, data[:cut], data[cut:])
            run |= {"optimizer": name, "mode": mode, "seed": seed, "steps": given.steps}
            runs.append(run)
            if given.write:
                with given.write.open("a") as file:
                    file.write(json.dumps(run) + "\n")
    print_table(runs)
    if given.plot:
        plot(runs, given.plot)


if __name__ == "__main__":
    main()
