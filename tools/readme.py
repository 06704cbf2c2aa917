"""Draw the figures of pages that no study writes as SVG, for light and dark pages.

python -m tools.readme
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from mpgd.stable import StableLaw
from mpgd_lab.archive import PUBLISHED, unpack
from mpgd_lab.content.blocks import Panel, Plate, panel
from mpgd_lab.content.style import BLUE, GREEN, INDIGO, ORANGE, RED
from mpgd_lab.report.svg import svg_file
from mpgd_lab.studies.escape.section import pictures
from mpgd_lab.studies.limit.section import figures

FIGURES: Final = Path(__file__).parents[1] / "docs" / "figures"
COLOURS: Final = (BLUE, RED, GREEN, ORANGE, INDIGO)
WIDE: Final = (4.4, 3.0)  # of a panel by itself, inches


def draw_densities(ax: Any, laws: dict[str, StableLaw], title: str) -> None:
    """Draw the densities of some laws."""
    x = np.linspace(-5.0, 5.0, 801)
    for (label, law), colour in zip(laws.items(), COLOURS, strict=False):
        ax.plot(x, law.pdf(x), color=colour, label=label)
    ax.set(title=title, xlabel="x", ylabel="density", ylim=(0.0, 0.7))
    ax.legend(loc="upper right")


def draw_tails(ax: Any, alphas: Sequence[float]) -> None:
    """Draw the probabilities beyond x of symmetric laws."""
    x = np.geomspace(0.1, 1e4, 400)
    for alpha, colour in zip(alphas, COLOURS, strict=False):
        ax.loglog(x, StableLaw(alpha).sf(x), color=colour, label=f"α = {alpha:g}")
    ax.set(title="Tails at β = 0", xlabel="x", ylabel="P(X > x)", ylim=(1e-10, 1.0))
    ax.legend(loc="lower left")


def stable_plates() -> dict[str, Plate]:
    """Return the densities over alpha and over beta, on the same axes, and the tails."""
    alphas = {f"α = {alpha:g}": StableLaw(alpha) for alpha in (0.5, 0.8, 1.0, 1.5, 2.0)}
    betas = {
        f"β = {beta:g}": StableLaw(0.9, beta, parametrization="S0") for beta in (0.0, 0.5, 1.0)
    }
    densities = (
        panel("Densities over alpha", draw_densities, alphas, "β = 0"),
        panel("Densities over beta", draw_densities, betas, "α = 0.9, parametrization S0"),
    )
    tails = panel("Tails on logarithmic axes", draw_tails, (0.5, 1.0, 1.5, 1.9, 2.0))
    return {
        "stable-densities": Plate("stable-densities", "", densities),
        "stable-tails": Plate("stable-tails", "", (tails,), size=WIDE),
    }


def on_shared_axes(plate: Plate) -> Plate:
    """Return a plate whose panels all have the widest range of any of them."""
    limits = []
    for each in plate.panels:
        ax = Figure().add_subplot()
        each.draw(ax)
        limits.append(ax.get_ylim())
    low, high = min(low for low, _ in limits), max(high for _, high in limits)

    def shared(each: Panel) -> Panel:
        def draw(ax: Any) -> None:
            each.draw(ax)
            ax.set_ylim(low, high)

        return replace(each, draw=draw)

    return replace(plate, panels=tuple(map(shared, plate.panels)))


def plates() -> dict[str, Plate]:
    """Return all figures by the names of their files."""
    records = [record for record in unpack(PUBLISHED) if record.run.experiment == "limit"]
    limit = next(plate for plate in figures(records) if isinstance(plate, Plate))
    return {"phases": on_shared_axes(pictures()), "limit": limit, **stable_plates()}


if __name__ == "__main__":
    for name, plate in plates().items():
        file = FIGURES / f"{name}.svg"
        file.write_text(svg_file(plate))
        print(file)
