"""How many files a reader walks through to follow one `mpgd reproduce airfoil`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import mpgd
from mpgd_lab.catalogue import load
from mpgd_lab.data.sources import airfoil
from mpgd_lab.runner import Context, reproduce

SOURCE = Path(mpgd.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MOST = 22  # files


def files_of(context: Context) -> set[str]:
    """Return the files in which a function runs, apart from what runs while one is imported."""
    study, found = load("airfoil"), set()

    def called(frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(SOURCE)):
            found.add(Path(name).relative_to(SOURCE).as_posix())

    reproduce(study, Context(context.out / "first", seeds=1, data=context.data), 3)  # imports
    airfoil.cache_clear()
    sys.setprofile(called)
    try:
        reproduce(study, context, 3)
    finally:
        sys.setprofile(None)
    return found


def listed() -> list[str]:
    """Return the files that the page lists for this walk."""
    walk = PAGE.read_text().split("\n## One run, file by file\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w/]+\.py)` \|", walk, re.MULTILINE)


def test_the_walk_is_short_and_the_page_lists_it(tmp_path: Path, data_folder: Path) -> None:
    context = Context(tmp_path, seeds=1, data=data_folder, protocols=("corrected",))
    found = files_of(context)
    assert len(found) <= MOST, sorted(found)
    assert set(listed()) == found
    assert len(listed()) == len(set(listed()))
