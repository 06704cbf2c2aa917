"""A file is seen whole or as it was before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from mpgd import files
from mpgd.files import TEMPORARY, open_regular, write_whole


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


KILLED = """
import os, signal, sys
from pathlib import Path
from mpgd.files import write_whole
def half(file):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
write_whole(Path(sys.argv[1]), half)
"""


def kill_a_writer(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert done.returncode == -signal.SIGKILL


def test_what_a_killed_writer_left_is_cleared_by_the_next_one_and_nothing_else(
    tmp_path: Path,
) -> None:
    path, others = tmp_path / "file.json", tmp_path / "notes.tmp"
    others.write_text("somebody's own")
    kill_a_writer(path)
    assert [left.read_bytes() for left in tmp_path.glob(f"file-*{TEMPORARY}")] == [b"half"]
    write_whole(path, b"whole")
    assert sorted(tmp_path.iterdir()) == [path, others]


def test_a_file_that_is_being_written_is_not_cleared(tmp_path: Path) -> None:
    """Another process clears the folder in the middle of it."""
    code = "import sys; from pathlib import Path; from mpgd.files import clear; "
    code += "clear(Path(sys.argv[1]))"

    def meanwhile(file: IO[bytes]) -> None:
        file.write(b"whole")
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)

    path = tmp_path / "file.json"
    write_whole(path, meanwhile)
    assert path.read_bytes() == b"whole"


def test_a_file_cleared_before_it_could_be_locked_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared, lock = [], files.fcntl.flock

    def late(file: IO[bytes], how: int) -> None:
        if not cleared:
            cleared.append(file.name)
            Path(file.name).unlink()
        lock(file, how)

    monkeypatch.setattr(files.fcntl, "flock", late)
    write_whole(tmp_path / "file.json", b"whole")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"whole"]
    assert len(cleared) == 1


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_only_regular_files_are_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "it")
    with pytest.raises(ValueError, match=f"^{tmp_path / 'it'} is no regular file$"):
        open_regular(tmp_path / "it")
