"""No archive can do harm: each hostile one is one error that names the file."""

from __future__ import annotations

import io
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mpgd_lab.data import sources as data
from mpgd_lab.data.safe_archives import contents
from mpgd_lab.data.sources import DataError, Source

NAME = "numbers.dat"
GOOD = b"1 2 3\n" * 1000
SIZES = {NAME: len(GOOD)}


def zipped(
    content: bytes = GOOD, name: str = NAME, kind: int = zipfile.ZIP_DEFLATED, mode: int = 0o100644
) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", kind) as archive:
        member = zipfile.ZipInfo(name)
        member.external_attr, member.compress_type = mode << 16, kind
        archive.writestr(member, content)
    return held.getvalue()


def tarred(
    content: bytes = GOOD, name: str = NAME, compression: str = "gz", **member: object
) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=f"w:{compression}", format=tarfile.GNU_FORMAT) as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        for key, value in member.items():
            setattr(entry, key, value)
        archive.addfile(entry, io.BytesIO(content) if entry.isreg() else None)
    return held.getvalue()


def patched(archive: bytes, **fields: int) -> bytes:
    """Change fields of a zip's one member, both where it begins and in the directory."""
    places = {"flags": (6, 8), "method": (8, 10), "size": (22, 24)}
    raw, directory = bytearray(archive), archive.rindex(b"PK\x01\x02")
    for name, value in fields.items():
        for start, place in zip((0, directory), places[name], strict=True):
            struct.pack_into("<I" if name == "size" else "<H", raw, start + place, value)
    return bytes(raw)


def zeros(count: int) -> bytes:
    return zipped(bytes(count))


def header_bomb() -> bytes:
    """Return a tar whose one header says that its name has four gigabytes."""
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 2**32
    return entry.tobuf(tarfile.GNU_FORMAT) + bytes(2**16)


LINK = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd", "size": 0}
LOOP = {"type": tarfile.LNKTYPE, "linkname": NAME, "size": 0}
LARGER = r"numbers.dat of the archive is larger than the 6,000 bytes it should have"
OUTSIDE = r"numbers.dat of the archive lies outside it"
NO_FILE = r"numbers.dat of the archive is a link, a folder or a device, no file"

HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "zip that grows": (lambda: zeros(2**26), LARGER),
    "zip that lies about its size": (lambda: patched(zeros(2**26), size=6000), "cannot be read"),
    "zip, bzip2": (lambda: zipped(bytes(2**24), kind=zipfile.ZIP_BZIP2), LARGER),
    "zip, lzma": (lambda: zipped(bytes(2**24), kind=zipfile.ZIP_LZMA), LARGER),
    "encrypted": (lambda: patched(zipped(), flags=1), r"numbers.dat of the archive is encrypted"),
    "unknown compression": (
        lambda: patched(zipped(), method=99),
        r"numbers.dat of the archive cannot be read \(NotImplementedError",
    ),
    "zip with a link": (lambda: zipped(b"/etc/passwd", mode=0o120777), NO_FILE),
    "zip with a parent path": (lambda: zipped(name=f"../../{NAME}"), OUTSIDE),
    "zip with an absolute path": (lambda: zipped(name=f"/{NAME}"), OUTSIDE),
    "tar that grows": (lambda: tarred(bytes(2**26)), "the archive holds more than 1,060,576 bytes"),
    "tar, bzip2": (lambda: tarred(bytes(2**26), compression="bz2"), "the archive holds more than"),
    "tar, xz": (lambda: tarred(bytes(2**26), compression="xz"), "the archive holds more than"),
    "tar a little too large": (lambda: tarred(bytes(6001)), LARGER),
    "tar with a link": (lambda: tarred(b"", **LINK), NO_FILE),
    "tar with a loop": (lambda: tarred(b"", **LOOP), NO_FILE),
    "tar with a pipe": (lambda: tarred(b"", type=tarfile.FIFOTYPE, size=0), NO_FILE),
    "tar with a folder": (lambda: tarred(b"", type=tarfile.DIRTYPE, size=0), NO_FILE),
    "tar with a parent path": (lambda: tarred(name=f"a/../../{NAME}"), OUTSIDE),
    "tar with an absolute path": (lambda: tarred(name=f"/tmp/{NAME}"), OUTSIDE),
    "tar with an endless name": (header_bomb, r"numbers.dat is not in the archive|ReadError"),
}


@pytest.fixture
def download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], Path]:
    """Return what downloads an archive; the archive lies on disk instead."""
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path / "cache"))
    source = Source("it", "it", {NAME: data._sha256(GOOD)}, SIZES, "http://nowhere/it.zip")
    archive = tmp_path / "archive"

    def download(content: bytes) -> Path:
        archive.write_bytes(content)
        monkeypatch.setattr(data, "_fetch", lambda source, path: archive)
        return data.download(source)

    return download


@pytest.mark.parametrize("make", [zipped, tarred], ids=["zip", "tar"])
def test_a_good_archive_is_read(
    download: Callable[[bytes], Path], make: Callable[..., bytes]
) -> None:
    assert (download(make(name=f"inner/{NAME}")) / NAME).read_bytes() == GOOD


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_one_error_that_names_the_file(
    kind: str, download: Callable[[bytes], Path], tmp_path: Path
) -> None:
    make, reason = HOSTILE[kind]
    with pytest.raises(DataError, match=f"the download failed\n.*({reason})") as caught:
        download(make())
    assert NAME in str(caught.value)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize("make", [zeros, lambda n: tarred(bytes(n))], ids=["zip", "tar"])
def test_a_small_archive_that_grows_does_not_fill_the_memory(
    make: Callable[[int], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "archive"
    path.write_bytes(make(2**28))
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(OSError, match=r"larger than|more than"):
        contents(path, SIZES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24
