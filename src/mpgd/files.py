"""Files that a reader sees whole or not at all: written beside their place, synced, renamed.

Two processes may write the same file at once: the last rename leaves a whole one. A writer
that is killed leaves its temporary file behind. The kernel gives up a dead process's locks, so a
temporary file that can be locked has no writer any more, and the next process that writes into
the folder takes it away.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import IO, Final, TypeVar

try:
    import fcntl
except ImportError:  # a system without these locks keeps what a killed writer left
    fcntl = None  # type: ignore[assignment]

TEMPORARY: Final = ".tmp"
LEFT: Final = re.compile(rf".+-[0-9a-f]{{32}}{re.escape(TEMPORARY)}")  # names that `_begin` gives
Table = TypeVar("Table")
SHIPPED: Final = Path(__file__).parent / "maps" / "shipped"  # tables of the default noises


def cache_folder() -> Path | None:
    """Return the folder of tables and downloads, or None for a user without a home folder.

    It is ``MPGD_CACHE``, else ``mpgd`` in ``XDG_CACHE_HOME``, else ``mpgd`` in ``~/.cache``.
    """
    if folder := os.environ.get("MPGD_CACHE"):
        return Path(folder)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "mpgd"
    try:
        return Path.home() / ".cache" / "mpgd"
    except RuntimeError:  # a user id without an entry, as containers have them
        return None


def through_cache(
    name: str,
    load: Callable[[Path], Table | None],
    compute: Callable[[], Table],
    save: Callable[[IO[bytes], Table], object],
) -> Table:
    """Return a table that comes with the package, else from the cache, else compute and keep it.

    A cache that cannot be written is no error: a line in the log says so, once in a process.

    Args:
        name: of its file.
        load: reads the table from a file, or returns None where it is missing or damaged.
        compute: makes the table.
        save: writes a table to an open file.
    """
    folder = cache_folder()
    table = load(SHIPPED / name)
    if table is None and folder:
        table = load(folder / name)
    if table is None:
        table = compute()
        try:
            if folder is None:
                raise OSError(errno.ENOENT, "this user has no home folder")
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / name, lambda file: save(file, table))
        except OSError as problem:
            warn_once(
                f"tables cannot be kept in {folder or 'a cache'} ({problem.strerror}), so every "
                "process computes them; set MPGD_CACHE to a folder that can be written"
            )
    return table


@cache
def warn_once(text: str) -> None:
    """Log a warning, the same one only once in a process."""
    logging.getLogger("mpgd").warning(text)


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
    _clear_once(path.parent)
    file = _begin(path)
    try:
        with file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
            # Renamed while it is locked: once closed, another process might clear it.
            if fcntl:
                os.replace(file.name, path)
        # Without fcntl (Windows) an open file cannot be renamed.
        if not fcntl:
            os.replace(file.name, path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise


def check_place(path: Path) -> None:
    """Raise an OSError where a file could not be written, so that no work is done in vain.

    Examples:
        >>> check_place(Path("/nowhere/page.html"))
        Traceback (most recent call last):
        FileNotFoundError: cannot write /nowhere/page.html: there is no folder /nowhere
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")
    try:
        with _begin(path) as file:
            Path(file.name).unlink()
    except OSError as problem:
        raise OSError(f"cannot write {path}: {problem.strerror}") from problem


def open_regular(path: Path) -> IO[bytes]:
    """Open a file for reading; ValueError where it is a pipe, a device or a folder.

    Examples:
        >>> open_regular(Path("/dev/null"))
        Traceback (most recent call last):
        ValueError: /dev/null is no regular file
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait
    if not S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError(f"{path} is no regular file")
    return os.fdopen(handle, "rb")


def clear(folder: Path) -> None:
    """Take away the temporary files of writers that are dead; others are left alone.

    Examples:
        >>> import tempfile
        >>> left = Path(tempfile.mkdtemp()) / f"numbers-{'0' * 32}.tmp"
        >>> left.touch()
        >>> clear(left.parent)
        >>> left.exists()
        False
    """
    if not fcntl:
        return
    for path in folder.iterdir():
        if LEFT.fullmatch(path.name):
            with suppress(OSError, ValueError), open_regular(path) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error if its writer lives
                path.unlink()


@lru_cache(maxsize=256)
def _clear_once(folder: Path) -> None:
    """Clear a folder when this process first writes there."""
    with suppress(OSError):
        clear(folder)


def _begin(path: Path) -> IO[bytes]:
    """Return a new temporary file, locked so that no other process clears it while it is open."""
    while True:
        name = f"{path.stem[:16]}-{uuid.uuid4().hex}{TEMPORARY}"
        file = path.with_name(name).open("xb")
        if fcntl:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # else it was cleared before we had the lock
            return file
        file.close()
