"""Many records in one compressed file, as they come with the package.

    first line     format, how many records follow, and in words what was thinned
    other lines    a record each: its run, metrics, curves, seconds, versions and commit

All lines are JSON, the whole is packed by xz. Metrics are whole; curves may be thinned, and the
first line says how. The package's own file is `PUBLISHED`: it lies in the package and not beside
the documentation, so that an installed package has it too.
"""

import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from mpgd.files import write_whole
from mpgd_lab.store import RESULTS, Record, record_of

FORMAT: Final = "mpgd-records-1"
PUBLISHED: Final = Path(__file__).parent / "published.jsonl.xz"
UNSHOWN: Final = {"train_mse", "train_loss"}  # curves that no figure shows
LONG: Final = 24  # numbers; longer curves are rounded
DIGITS: Final = 6  # that they keep
THINNED: Final = (
    f"Metrics are whole. Curves that no figure shows are left out; those of more than {LONG} "
    f"numbers are rounded to {DIGITS} significant digits."
)


def pack(records: Sequence[Record], file: Path) -> None:
    """Write records to a file, in their order.

    Examples:
        >>> import tempfile
        >>> from mpgd_lab.store import Run
        >>> run = Run("noise", "paper", "fresh", {"gamma": 0.6}, seed=0)
        >>> file = Path(tempfile.mkdtemp()) / "records.jsonl.xz"
        >>> pack([Record(run, {"ks": 0.02}, {"train_loss": [2.0, 1.0]}, 1.5, {}, None)], file)
        >>> [(record.run == run, record.metrics, record.curves) for record in unpack(file)]
        [(True, {'ks': 0.02}, {})]
    """
    head = {"format": FORMAT, "records": len(records), "thinned": THINNED}
    objects = (head, *map(_body, records))
    lines = (json.dumps(each, separators=(",", ":")) for each in objects)
    write_whole(file, lzma.compress("\n".join(lines).encode() + b"\n"))


def unpack(file: Path) -> Iterator[Record]:
    """Yield the records in a file.

    Raises:
        FileNotFoundError: if there is none; it says how one is made.
        ValueError: if the file is no such file, or not whole.
    """
    try:
        lines = lzma.decompress(file.read_bytes()).decode().splitlines()
        head, *bodies = map(json.loads, lines)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"no published records: {file} is not there; "
            f"`mpgd report DIR --publish {file}` makes it from a folder of results"
        ) from None
    except (lzma.LZMAError, ValueError, RecursionError, IsADirectoryError) as problem:
        raise ValueError(f"{file} is no file of records: {problem}") from problem
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ValueError(f"{file} is no file of records (no format {FORMAT!r})")
    if len(bodies) != head.get("records"):
        raise ValueError(f"{file} must hold {head.get('records')} records, got {len(bodies)}")
    for body in bodies:
        try:
            yield record_of(body if isinstance(body, dict) else {})
        except ValueError as problem:
            raise ValueError(f"{file} is no file of records: {problem}") from problem


def _body(record: Record) -> dict[str, Any]:
    curves = {name: _rounded(x) for name, x in record.curves.items() if name not in UNSHOWN}
    if "step" in curves and [len(x) for x in curves.values()].count(len(curves["step"])) == 1:
        del curves["step"]  # of a curve that is left out
    rest = {name: getattr(record, name) for name in RESULTS}
    return asdict(record.run) | rest | {"curves": curves}


def _rounded(values: Any) -> Any:
    """Return numbers with fewer digits if they are many; lists of lists stay as they are."""
    if len(values) <= LONG or any(isinstance(x, list) for x in values):
        return values
    return [x if isinstance(x, int) else float(f"{x:.{DIGITS}g}") for x in values]
