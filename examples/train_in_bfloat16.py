"""Train a character transformer in float32 and in bfloat16, and compare the losses.

    ONEDNN_MAX_CPU_ISA=AVX512_CORE python examples/train_in_bfloat16.py --steps 150 --seeds 3

The text is the source of Python's own library. Each optimizer trains the same net four times: in
float32, in bfloat16 to nearest, and in bfloat16 with stochastic rounding, moments in float32 and in
bfloat16. The loss is that of the weights on text that was not trained on, computed in float32. Some
CPUs announce bfloat16 instructions that they do not have; the variable keeps torch from using them.
"""

import argparse
import inspect
import json
import statistics
import time
import typing

import torch
from torch import nn

import mpgd

CONTEXT, WIDTH, LAYERS, BATCH = 64, 64, 2, 8
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
    """Return the losses on other text in mid-run and at the end, bytes a parameter, ms a step."""
    torch.manual_seed(seed)
    model = Transformer().to(torch.float32 if mode == "float32" else torch.bfloat16)
    optimizer = make(model.parameters())
    if mode.startswith("stochastic"):
        states = torch.bfloat16 if "moments" in mode else None
        optimizer = mpgd.stochastic_rounding(optimizer, state_dtype=states, seed=seed)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator, curve, seconds = torch.Generator().manual_seed(seed), [], 0.0
    for k in range(1, steps + 1):
        optimizer.zero_grad()
        loss_of(model, train_text, generator).backward()
        began = time.process_time()
        optimizer.step()
        seconds += time.process_time() - began
        schedule.step()
        if k % (steps // 5) == 0:
            wide = Transformer()
            wide.load_state_dict(model.state_dict())
            with torch.no_grad():
                fixed = torch.Generator().manual_seed(0)
                curve.append(float(loss_of(wide, test_text, fixed, batch=512)))
    tensors = [x for s in optimizer.state.values() for x in s.values() if torch.is_tensor(x)]
    params = list(model.parameters())
    total = sum(x.nbytes for x in tensors + params) + sum(p.grad.nbytes for p in params)
    return {
        "curve": curve,
        "bytes": total / sum(p.numel() for p in params),
        "ms": 1000 * seconds / steps,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="an optimizer's name, or a part of it")
    parser.add_argument("--write", help="write the results of all runs to this file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = text()
    cut = len(data) * 9 // 10
    cases = [(name, mode, make) for name, make in optimizers().items() for mode in MODES]
    if other := torchao_adamw():
        cases.append(("torchao", "its own rounding", other))
    cases = [case for case in cases if given.only in case[0]]
    results = {}
    print("| optimizer | parameters | loss of each seed | mean | bytes | ms a step |")
    print("| --- | --- | --- | ---: | ---: | ---: |")
    for name, mode, make in cases:
        runs = [
            train(make, mode, seed, given.steps, data[:cut], data[cut:])
            for seed in range(given.seeds)
        ]
        ends = [run["curve"][-1] for run in runs]
        results[f"{name}, {mode}"] = runs
        shown = ", ".join(f"{end:.3f}" for end in ends)
        row = (name, mode, shown, f"{statistics.mean(ends):.3f}")
        costs = (f"{runs[0]['bytes']:.1f}", f"{statistics.mean(r['ms'] for r in runs):.2f}")
        print("| " + " | ".join((*row, *costs)) + " |", flush=True)
    if given.write:
        with open(given.write, "w", encoding="utf-8") as file:
            json.dump(results, file)


if __name__ == "__main__":
    main()
