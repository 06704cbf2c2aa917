"""The lab without a server: the page, and numbers computed before for a small grid of settings.

    index.html, *.js, *.css, *.svg      the page; `STOPS` stand in it, and its sliders stop there
    numbers/SOURCE_VALUE_VALUE_....bin  the answer of `SOURCES` to these settings, JSON in gzip

Any host of files serves it, beside the documentation for one. Numbers have the digits that pictures
need, and fewer moments than the server's, so that everything stays below 6 MB.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from mpgd_lab.content import colors
from mpgd_lab.lab import descent, simulation, wells
from mpgd_lab.lab.settings import Settings
from mpgd_lab.lab.simulation import Numbers

NOISE: Final = ("gamma", "beta", "seed", "steps", "scheme")
PUSH: Final = (*NOISE, "dwell", "eta", "force")


class Source(NamedTuple):
    """How numbers are computed, with how many digits they are kept, and what they depend on."""

    compute: Callable[[Settings], Numbers]
    digits: int
    names: tuple[str, ...]  # in the order of a file's name; `source.js` has it too


SOURCES: Final = {
    "orbit": Source(simulation.orbit, 6, (*NOISE, "dwell")),
    "sums": Source(simulation.sums, 4, NOISE),
    "wells": Source(partial(wells.wells, frames=160), 3, PUSH),
    "descent": Source(partial(descent.descent, most=250), 4, (*PUSH, "decay", "landscape")),
}
EVERYWHERE: Final[dict[str, list[Any]]] = {
    "gamma": [0.6, 0.7, 0.8],
    "beta": [0.5],
    "dwell": [5, 20, 80],
    "eta": [0.01],
    "seed": [0],
    "steps": [2000],
    "scheme": ["plain"],
}
STOPS: Final = {  # by landscape; what a page shows first is among them
    "wells": EVERYWHERE | {"landscape": ["wells"], "force": [0.5, 1, 2, 4, 6], "decay": [0]},
    "valley": EVERYWHERE | {"landscape": ["valley"], "force": [0.1, 0.211, 0.8], "decay": [0.0844]},
    "rastrigin": EVERYWHERE | {"landscape": ["rastrigin"], "force": [2, 3.5, 5], "decay": [0]},
}


def page() -> dict[str, bytes]:
    """Return the files of the page by their names, as the server has them too."""
    folder = files("mpgd_lab.lab") / "page"
    found = {file.name: file.read_bytes() for file in folder.iterdir()}
    return found | {"colors.css": colors.stylesheet().encode()}


def static_files() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of every file of the page without a server."""
    stops = f'<script type="application/json" id="stops">{json.dumps(STOPS)}</script>\n</body>'
    for name, content in page().items():
        yield name, content.replace(b"</body>", stops.encode()) if name == "index.html" else content
    for name, settings in grid().items():
        source = SOURCES[name.partition("_")[0]]
        answer = rounded(source.compute(settings), source.digits)
        body = json.dumps(answer, allow_nan=False, separators=(",", ":"))
        yield f"numbers/{name}.bin", gzip.compress(body.encode(), mtime=0)


def grid() -> dict[str, Settings]:
    """Return the settings that each file of numbers is for, by its name."""
    found = {}
    for landscape, stops in STOPS.items():
        for source in ("orbit", "sums", "wells" if landscape == "wells" else "descent"):
            names = SOURCES[source].names
            for values in product(*(stops[name] for name in names)):
                key = "_".join(map(str, (source, *values)))
                found[key] = Settings(**dict(zip(names, values, strict=True)))
    return found


def rounded(numbers: Any, digits: int) -> Any:
    """Return JSON whose numbers have so many digits; integers stay.

    Examples:
        >>> rounded({"x": [1.23456, None, 2000]}, 3)
        {'x': [1.23, None, 2000]}
    """
    if isinstance(numbers, dict):
        return {name: rounded(value, digits) for name, value in numbers.items()}
    if isinstance(numbers, list):
        return [rounded(value, digits) for value in numbers]
    return float(f"{numbers:.{digits}g}") if isinstance(numbers, float) else numbers


def export(folder: Path) -> int:
    """Write the page to a folder, which must be new or empty, and return the bytes written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} must be new or an empty folder")
    (folder / "numbers").mkdir(parents=True)
    return sum((folder / name).write_bytes(content) for name, content in static_files())
