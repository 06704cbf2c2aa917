"""LightningCLI builds a perturbed class that a configuration names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lightning
import pytest
import pytorch_optimizer
import torch
from lightning.pytorch.cli import LightningCLI
from torch import nn

import mpgd
from tests.clients import page

TITLE = "LightningCLI"
QUIET = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
SAVED: Any = {"run": False, "save_config_kwargs": {"overwrite": True}}
MadeHere = mpgd.perturbed(pytorch_optimizer.Lion)


class Net(lightning.LightningModule):
    """A model that leaves its optimizer to the configuration."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    def training_step(self, batch: Any, number: int) -> Any:
        """Return the loss."""
        x, y = batch
        return nn.functional.mse_loss(self.net(x), y)


def loader() -> torch.utils.data.DataLoader[Any]:
    """Return the batches of the page."""
    inputs = [torch.randn(32, 8, generator=torch.Generator().manual_seed(k)) for k in range(4)]
    return torch.utils.data.DataLoader(
        [(x, x.sum(1, keepdim=True)) for x in inputs], batch_size=None
    )


def trained(config: Path, epochs: int, resume: bool = False) -> LightningCLI:
    """Return what the command line built, after some epochs with the optimizer of ``config``."""
    options = [f"--trainer.{name}=false" for name in QUIET]
    options += [f"--trainer.max_epochs={epochs}", "--trainer.accelerator=cpu"]
    cli = LightningCLI(Net, args=[f"--config={config}", *options], **SAVED)
    cli.trainer.fit(cli.model, loader(), ckpt_path="cli.ckpt" if resume else None)
    cli.trainer.save_checkpoint("cli.ckpt")
    return cli


def written(folder: Path) -> Path:
    """Return a file with the configuration of the page."""
    (section,) = [t for t in page.PAGE.read_text().split("\n## ") if t.startswith(f"{TITLE}\n")]
    (text,) = re.findall(r"^```yaml\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    path = folder / "optimizer.yaml"
    path.write_text(text)
    return path


def test_it_is_the_lightning_example_and_resumes_in_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = written(tmp_path)
    (optimizer,) = trained(config, 1).trainer.optimizers
    assert type(optimizer) is mpgd.perturbed(torch.optim.AdamW)
    resumed = page.weights(trained(config, page.EPOCHS, resume=True).model)
    expected = page.weights(page.example("Lightning")(page.EPOCHS))
    assert all(torch.equal(a, b) for a, b in zip(resumed, expected, strict=True))


def test_a_class_made_elsewhere_is_named_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "optimizer.yaml"
    config.write_text(f"optimizer:\n  class_path: {__name__}.MadeHere\n  init_args: {{mu: 0.01}}\n")
    (optimizer,) = trained(config, 1).trainer.optimizers
    assert type(optimizer) is MadeHere
    assert optimizer.param_groups[0]["perturbation.mu"] == 0.01
