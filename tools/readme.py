"""Draw what README and pages show and no study writes as SVG, for light and dark pages.

python -m tools.readme
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from mpgd_lab.archive import PUBLISHED, unpack
from mpgd_lab.content.blocks import Plate
from mpgd_lab.report.svg import svg_file
from mpgd_lab.studies.escape.section import pictures
from mpgd_lab.studies.limit.section import figures

FIGURES: Final = Path(__file__).parents[1] / "docs" / "figures"
FORMULA: Final = (
    r"$x_{k+1} \;=\; x_k \;-\; \eta\,\nabla f(x_k)"
    r" \;-\; \mu\,\eta^{\gamma}\, v^{(1)}_k \odot x_k \;+\; \sigma\,\eta^{\gamma}\, v^{(2)}_k$"
)
PARTS: Final = (  # place in the formula, words below it
    (0.37, "a gradient step"),
    (0.60, "multiplicative noise"),
    (0.835, "additive noise"),
)
COLOURS: Final = {"light": ("#1f2328", "#59636e"), "dark": ("#f0f6fc", "#9198a1")}


def draw(theme: str) -> Path:
    """Write the formula in the colours of one theme, on nothing."""
    ink, pale = COLOURS[theme]
    file = FIGURES / f"update-{theme}.svg"
    with mpl.rc_context({"mathtext.fontset": "cm", "svg.hashsalt": "mpgd"}):
        figure = Figure(figsize=(7.2, 1.0))
        figure.text(0.5, 0.62, FORMULA, color=ink, size=20, ha="center", va="center")
        for x, words in PARTS:
            figure.text(x, 0.12, words, color=pale, size=11, ha="center", va="center")
        figure.savefig(file, transparent=True, metadata={"Date": None})
    return file


def plates() -> dict[str, Plate]:
    """Return the figures of phases and of the limit, by the names of their files."""
    records = [record for record in unpack(PUBLISHED) if record.run.experiment == "limit"]
    first = next(plate for plate in figures(records) if isinstance(plate, Plate))
    return {"phases": pictures(), "limit": first}


if __name__ == "__main__":
    for theme in COLOURS:
        print(draw(theme))
    for name, plate in plates().items():
        file = FIGURES / f"{name}.svg"
        file.write_text(svg_file(plate))
        print(file)
