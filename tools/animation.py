"""The moving picture of the README: one walker of each noise on a loss with two wells.

    python -m tools.animation docs/figures/wells.svg

A walker follows x' = x - eta R'(x) + eta p, where p is the push of its noise. A constant push is a
tilted loss, R(x) - p x. So each panel shears the drawn loss by the push of its frame, around the
ball. All start in the wide well. The numbers below count many walkers of the same kind.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd import ChaoticNoise, GaussianNoise, TelegraphNoise
from mpgd.noise import Noise
from mpgd_lab.studies.escape.well_shapes import WIDE, two_slopes, two_wells

Array = NDArray[np.float64]

ETA, FORCE, STEPS, DWELL, GAMMA = 0.05, 2.0, 4000, 40, 0.6
WALKERS, EVERY, SECONDS, SEED = 1000, 10, 30, 3
WIDTH, HEIGHT, LEFT, GAP = 236, 150, 10, 10  # of a panel, pixels
VIEW: Final = (-1.3, 3.4)  # of x
FLOOR, UNIT = 112.0, 52.0  # where R = 0 is, and pixels for R = 1
STYLE: Final = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; }
  .small { font-size: 11px; fill: #52606d; }
  .narrow { display: none; }
  @media (max-width: 560px) {  /* of the picture: on a phone text is larger, and shorter */
    text, .small { font-size: 24px; } .wide { display: none; } .narrow { display: inline; }
  }
  .loss { fill: none; stroke: #52606d; stroke-width: 2; vector-effect: non-scaling-stroke; }
  .ball { fill: #c2410c; } .card { fill: #f5f7fa; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb; } .small { fill: #9aa5b1; } .loss { stroke: #9aa5b1; }
    .ball { fill: #fb923c; } .card { fill: #1f2933; }
  }
"""


@dataclass(frozen=True)
class Walk:
    """The first walker's pushes and places, (frame,), and where all of them end."""

    pushes: Array
    places: Array
    ends: Array


def walk(noise: Noise, force: float) -> Walk:
    """Let walkers of one noise go; ``force`` is the root mean square of the push."""
    values = noise.path(STEPS, (WALKERS,), SEED).numpy()  # type: ignore[attr-defined]
    pushes = force * values / noise.spread()
    x = np.full(WALKERS, WIDE)
    places = []
    for push in pushes:
        places.append(x[0])
        x = x - ETA * two_slopes(x) + ETA * push
    frames = pushes[:, 0].reshape(-1, EVERY).mean(axis=1)
    return Walk(frames, np.array(places[::EVERY]), x)


def to_pixels(x: Array) -> Array:
    """Return the horizontal place of x in a panel."""
    return (x - VIEW[0]) / (VIEW[1] - VIEW[0]) * WIDTH


def listed(values: Array) -> str:
    """Return numbers as an animation lists them."""
    return ";".join(f"{value:.1f}" for value in values)


def animated(name: str, values: Array) -> str:
    """Return the animation of an attribute."""
    return (
        f'<animate attributeName="{name}" dur="{SECONDS}s" repeatCount="indefinite" '
        f'values="{listed(values)}"/>'
    )


def transformed(kind: str, values: Array) -> str:
    """Return the animation of a transform."""
    return (
        f'<animateTransform attributeName="transform" type="{kind}" dur="{SECONDS}s" '
        f'repeatCount="indefinite" values="{listed(values)}"/>'
    )


def panel(number: int, title: str, walk: Walk) -> str:
    """Return one panel."""
    grid = np.linspace(*VIEW, 72)
    across, up = to_pixels(grid), FLOOR - UNIT * two_wells(grid)
    path = "M" + " L".join(f"{a:.1f} {b:.1f}" for a, b in zip(across, up, strict=True))
    # R - p x in pixels: down by UNIT p for each unit of x. The shear is around the ball, also
    # between two frames, so that the ball stays on the loss.
    slope = UNIT * walk.pushes / (WIDTH / (VIEW[1] - VIEW[0]))
    angles = np.degrees(np.arctan(np.clip(slope, -2.5, 2.5)))
    x = np.clip(walk.places, *VIEW)
    ball = to_pixels(x)
    share = f"{100 * (walk.ends < 0.0).mean():.0f} %"
    left = LEFT + number * (WIDTH + GAP)
    return f"""
<g transform="translate({left} 30)" clip-path="url(#frame)">
  <rect class="card" width="{WIDTH}" height="{HEIGHT}" rx="6"/>
  <g>{transformed("translate", ball)}<g>{transformed("skewY", angles)}
    <g>{transformed("translate", -ball)}<path class="loss" d="{path}"/></g>
  </g></g>
  <circle class="ball" r="6" cy="{FLOOR - 6:.1f}">
    {animated("cx", ball)}
    {animated("cy", FLOOR - 6 - UNIT * two_wells(x))}
  </circle>
</g>
<text x="{left}" y="22">{title}</text>
<text class="small wide" x="{left}" y="{HEIGHT + 50}">{share} of {WALKERS:,} end in the steep
  well</text>
<text class="small narrow" x="{left}" y="{HEIGHT + 56}">steep well: {share}</text>"""


def picture() -> str:
    """Return the whole picture."""
    chaotic = ChaoticNoise(GAMMA)
    force = FORCE * chaotic.spread() / chaotic.laminar_value
    walks = {
        "Chaotic": walk(chaotic, force),
        "Telegraph": walk(TelegraphNoise(DWELL), FORCE),
        "Gaussian": walk(GaussianNoise(), force),
    }
    panels = "".join(panel(k, *item) for k, item in enumerate(walks.items()))
    width, height = 2 * LEFT + 3 * WIDTH + 2 * GAP, HEIGHT + 64
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>Three balls on a loss that their noise tilts: a wide well and a steep one</title>
<style>{STYLE}</style>
<defs><clipPath id="frame"><rect width="{WIDTH}" height="{HEIGHT}" rx="6"/></clipPath></defs>
{panels}
</svg>
"""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture())
