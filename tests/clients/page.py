"""The examples of the page of integrations, run as they stand: train, save, load, resume.

Some are files of examples/, which the page links to; the site shows their code there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "integrations.md"
EXAMPLE = re.compile(
    r"^```python\n(.*?)^```|\]\(\.\./(examples/\w+\.py)\)", re.DOTALL | re.MULTILINE
)
EPOCHS = 2  # a checkpoint is taken after half of them

Fit = Callable[..., nn.Module]


def example(title: str) -> Fit:
    """Return ``fit`` of a section, after the code that all share."""
    shared, *sections = PAGE.read_text().split("\n## ")
    (section,) = [text for text in sections if text.startswith(f"{title}\n")]
    names: dict[str, Any] = {"__name__": "page"}
    if str(ROOT / "examples") not in sys.path:  # as for a script of that folder
        sys.path.insert(0, str(ROOT / "examples"))
    for code, file in EXAMPLE.findall(shared + section):
        whole = (ROOT / file).read_text() if file else code
        exec(compile(whole, f"{PAGE.name}, {title}", "exec"), names)
    return names["fit"]


def script(name: str, folder: Path) -> str:
    """Run a file of examples/ as a reader would, and return the last line that it prints."""
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def version(title: str) -> str:
    """Return the version that a section says it was run with."""
    (section,) = [t for t in PAGE.read_text().split("\n## ") if t.startswith(f"{title}\n")]
    found = re.search(r"\b(\d+\.\d+\.\d+)\b", section)
    assert found, f"{title} names no version"
    return found[1]


def weights(model: nn.Module) -> list[Tensor]:
    """Return copies of all parameters, whole where they are sharded."""
    every = [p.detach() for p in model.parameters()]
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).clone() for p in every]


def resumes(fit: Fit) -> None:
    """Raise unless a run that is stopped half-way ends with the bits of one that is not."""
    whole = weights(fit(EPOCHS))
    half = weights(fit(EPOCHS // 2))
    resumed = weights(fit(EPOCHS, resume=True))
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(half, resumed, strict=True))  # it trained


def in_process(rank: int, folder: str, title: str) -> None:
    """Be one of two processes that go through an example."""
    os.chdir(folder)
    torch.set_num_threads(1)
    meet = f"file://{folder}/meet"
    patience = timedelta(seconds=120)
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2, timeout=patience)
    resumes(example(title))
    dist.barrier()
    os._exit(0)  # threads of the group may abort a process that ends as usual


def resumes_on_two_processes(title: str, folder: Path) -> None:
    """Go through an example on two processes of this machine."""
    torch.multiprocessing.spawn(in_process, (str(folder), title), nprocs=2)
