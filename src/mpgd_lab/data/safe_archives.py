"""Members of a zip or tar archive, read so that no archive can do harm.

A member is read only if it is a plain file on a path inside the archive, and never more of it than
the size it is known to have. A compressed tar is unpacked to disk first, up to a limit that
follows from the known sizes, since its headers alone could fill the memory.
"""

import bz2
import gzip
import lzma
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from stat import S_ISLNK
from typing import IO, Any, Final

CHUNK: Final = 2**20
SLACK: Final = 2**20  # bytes of a tar for headers and small files beside those that are wanted
ENCRYPTED: Final = 1  # a bit of a zip member's flags
COMPRESSED: Final[Mapping[bytes, Callable[..., Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}


def contents(path: Path, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """Return the files named in ``sizes``, wherever they lie in the archive.

    A member that is larger than its size here, encrypted, a link or on a path that leaves the
    archive is an OSError that names it, and so is all else a damaged archive can raise.
    """
    members = _zipped if zipfile.is_zipfile(path) else _tarred
    try:
        return dict(members(path, sizes))
    except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError):
        raise
    except Exception as problem:
        raise OSError(f"the archive cannot be read ({_said(problem)})") from problem


def _zipped(path: Path, sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = PurePosixPath(member.filename).name
            if name in sizes:
                _check(member.filename, S_ISLNK(member.external_attr >> 16) or member.is_dir())
                if member.flag_bits & ENCRYPTED:
                    raise OSError(f"{member.filename} of the archive is encrypted")
                yield name, _content(member.filename, archive, member, sizes[name])


def _tarred(path: Path, sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    limit = 2 * sum(sizes.values()) + SLACK
    with _inflated(path, limit) as whole, tarfile.open(fileobj=whole, mode="r:") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            if name in sizes:
                _check(member.name, not member.isreg())
                yield name, _content(member.name, archive, member, sizes[name])


def _check(member: str, is_other: bool) -> None:
    """Raise where a member is not a plain file, or lies outside the archive."""
    place = PurePosixPath(member)
    if place.is_absolute() or ".." in place.parts:
        raise OSError(f"{member} of the archive lies outside it")
    if is_other:
        raise OSError(f"{member} of the archive is a link, a folder or a device, no file")


def _content(member: str, archive: Any, entry: Any, size: int) -> bytes:
    """Return what a member holds, if that is no more than ``size`` bytes."""
    opened = archive.open if isinstance(archive, zipfile.ZipFile) else archive.extractfile
    try:
        with opened(entry) as file:
            content: bytes = file.read(size + 1)
    except Exception as problem:  # an unknown compression, a damaged stream, a wrong sum
        raise OSError(f"{member} of the archive cannot be read ({_said(problem)})") from problem
    if len(content) > size:
        raise OSError(f"{member} of the archive is larger than the {size:,} bytes it should have")
    return content


def _inflated(path: Path, limit: int) -> IO[bytes]:
    """Return an archive without its compression as a temporary file."""
    with path.open("rb") as file:
        head = file.read(max(map(len, COMPRESSED)))
    opened = next((COMPRESSED[mark] for mark in COMPRESSED if head.startswith(mark)), open)
    whole = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        with opened(path, "rb") as file:
            while block := file.read(CHUNK):
                whole.write(block)
                if whole.tell() > limit:
                    raise OSError(f"the archive holds more than {limit:,} bytes")
    except BaseException:
        whole.close()
        raise
    whole.seek(0)
    return whole


def _said(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"
