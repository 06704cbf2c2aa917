from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

import mpgd
from tests.clients import page


class OneBatch(torch.nn.Module):
    """A net that returns its loss, as the Trainer wants it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Linear(8, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        """Return the loss and the output."""
        out = self.net(x)
        return {"loss": torch.nn.functional.mse_loss(out, y), "out": out}


def trained(kind: type[torch.optim.Optimizer], keywords: dict[str, Any], folder: Path) -> Any:
    """Return a Trainer that has built an optimizer of this kind and taken three steps."""
    inputs = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))
    rows = [{"x": x, "y": x.sum(0, keepdim=True)} for x in inputs]
    where: dict[str, Any] = {"use_cpu": True, "report_to": [], "disable_tqdm": True}
    arguments = transformers.TrainingArguments(str(folder), max_steps=3, **where)
    asked = {"train_dataset": rows, "optimizer_cls_and_kwargs": (kind, keywords)}
    trainer = transformers.Trainer(OneBatch(), arguments, **asked)
    trainer.train()
    return trainer


def test_the_trainer_builds_a_perturbed_class(tmp_path: Path) -> None:
    """With the words of the page."""
    (line,) = [line for line in page.PAGE.read_text().splitlines() if "_cls_and_kwargs=" in line]
    given = line.split("optimizer_cls_and_kwargs=")[1].partition("`")[0]
    kind, keywords = eval(given, {"mpgd": mpgd, "torch": torch})
    plain_keywords = {"lr": keywords["lr"]}
    trainer, plain = (
        trained(kind, keywords, tmp_path),
        trained(torch.optim.AdamW, plain_keywords, tmp_path),
    )
    built = trainer.optimizer
    built = getattr(built, "optimizer", built)  # accelerate's wrapper is around it
    assert isinstance(built, mpgd.optim.Perturbed)
    assert isinstance(built, torch.optim.AdamW)
    assert len(built.param_groups) == 2  # with weight decay and without
    assert not torch.equal(page.weights(trainer.model)[0], page.weights(plain.model)[0])
