"""Files that a reader sees whole or not at all: written beside their place, synced, renamed.

Two processes may write the same file at once: whoever renames last leaves a whole one.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO

TEMPORARY = ".tmp"


def write_whole(path: Path, content: bytes | Callable[[IO[bytes]], object]) -> None:
    """Write a file so that it is there with all of its content, or as it was before.

    Args:
        path: the file; its folder must exist.
        content: what is written, or a function that writes it to the open file.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "numbers"
        >>> write_whole(path, b"1 2 3")
        >>> path.read_bytes(), len(list(path.parent.iterdir()))
        (b'1 2 3', 1)
    """
    temporary = path.with_name(f"{path.stem[:16]}-{uuid.uuid4().hex}{TEMPORARY}")
    try:
        with temporary.open("xb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
