"""A file is seen whole or as it was before."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pytest

from mpgd.files import TEMPORARY, write_whole


def test_bytes_and_what_a_function_writes_replace_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_whole(path, b"first")
    assert path.read_bytes() == b"first"
    write_whole(path, lambda file: file.write(b"second"))
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()])
def test_a_writer_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "file.json"
    write_whole(path, b"first")

    def fails(file: IO[bytes]) -> None:
        file.write(b"half")
        (temporary,) = tmp_path.glob(f"*{TEMPORARY}")
        assert temporary.stem.startswith("file-")
        assert path.read_bytes() == b"first"
        raise error

    with pytest.raises(type(error)):
        write_whole(path, fails)
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "nowhere" / "file", b"x")
