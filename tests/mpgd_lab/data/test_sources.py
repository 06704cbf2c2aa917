from __future__ import annotations

import hashlib
import io
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from mpgd_lab import cli
from mpgd_lab.catalogue import load
from mpgd_lab.data import sources as data
from mpgd_lab.data.sources import (
    AIRFOIL,
    ECG5000,
    DataError,
    Source,
    airfoil,
    digits,
    download,
    ecg5000,
    locate,
    read_numbers,
)


def test_airfoil_has_the_papers_split(data_folder: Path) -> None:
    split = airfoil(data_folder)
    assert split.x_train.shape == (1202, 5)
    assert split.x_test.shape == (301, 5)
    assert np.allclose(split.x_train.mean(0), 0.0, atol=1e-12)
    assert np.allclose(split.y_train.std(correction=0), 1.0)


def test_ecg_has_the_authors_split(data_folder: Path) -> None:
    split = ecg5000(data_folder)
    assert split.x_train.shape == (500, 140)
    assert split.x_test.shape == (4500, 140)
    assert float(split.x_train.min()) == 0.0
    assert float(split.x_train.max()) == 1.0
    # Always answering "normal" is right this often: the printed accuracy of gradient descent.
    assert round(100 * float((split.y_test == 0).double().mean()), 2) == 58.38


def test_digits_need_no_download() -> None:
    split = digits()
    assert len(split.x_train) + len(split.x_test) == 1797
    assert set(split.y_test.tolist()) == set(range(10))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty data folder that is the only one looked at."""
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MPGD_DATA", raising=False)
    (tmp_path / "airfoil").mkdir()
    return tmp_path


def test_a_damaged_file_is_refused(elsewhere: Path) -> None:
    (elsewhere / "airfoil" / "airfoil_self_noise.dat").write_text("800\t0\n")
    with pytest.raises(DataError, match=r"has sha256 .* expected 74c75fd7"):
        airfoil(elsewhere)


@pytest.mark.parametrize("row", ["1 2", "1 2 x", "1 2 nan"])
def test_a_malformed_row_is_named_by_its_line(tmp_path: Path, row: str) -> None:
    path = tmp_path / "table.txt"
    path.write_text(f"1 2 3\n\n{row}\n")
    with pytest.raises(DataError, match=r"table.txt, line 3: "):
        read_numbers(path, 3)


# Downloads, from a server of this machine that answers as each test asks --------------------------

Answer = Callable[[BaseHTTPRequestHandler], None]
Server = tuple[str, dict[str, Answer]]


@pytest.fixture
def server() -> Iterator[Server]:
    """Yield the address of a server and what it answers for each path."""
    answers: dict[str, Answer] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(ConnectionError):  # a client may leave in the middle
                answers[self.path](self)

        def log_message(self, format: str, *args: object) -> None: ...

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}", answers
    running.shutdown()
    running.server_close()


def sends(content: bytes, promised: int | None = None) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(promised or len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def zipped(folder: Path, names: Iterable[str], inner: str = "") -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{inner}README", "of no interest")
        for name in names:
            archive.write(folder / name, inner + name)
    return held.getvalue()


def tarred(folder: Path, names: Iterable[str]) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for name in names:
            archive.add(folder / name, f"inner/{name}")
    return held.getvalue()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of downloads, the only place looked at; temporary files lie beside it."""
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MPGD_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path / "cache" / "data"


def left(cache: Path) -> list[str]:
    """Return the files in the folder of downloads and what is left of temporary ones."""
    temporary = cache.parents[1] / "temporary"
    found = [*cache.rglob("*"), *temporary.rglob("*")]
    return sorted(path.name for path in found if path.is_file())


@pytest.mark.parametrize(("source", "inner"), [(AIRFOIL, ""), (ECG5000, "deep/")])
def test_what_lies_nowhere_is_downloaded_once(
    source: Source, inner: str, data_folder: Path, cache: Path, server: Server
) -> None:
    address, answers = server
    answers["/it.zip"] = sends(zipped(data_folder / source.folder, source.files, inner))
    ours = replace(source, address=f"{address}/it.zip")
    assert not data.is_available(ours)
    for name in source.files:
        path = locate(ours, name)
        assert path == cache / source.folder / name
        assert path.read_bytes() == (data_folder / source.folder / name).read_bytes()
        answers.clear()  # the second file must be there already
    assert data.is_available(ours)
    assert left(cache) == sorted(source.files)


def test_a_tar_archive_with_a_known_hash_is_read_too(
    data_folder: Path, cache: Path, server: Server
) -> None:
    address, answers = server
    content = tarred(data_folder / "airfoil", AIRFOIL.files)
    answers["/it.tar.gz"] = sends(content)
    ours = replace(AIRFOIL, mirror=None, address=f"{address}/it.tar.gz")
    known = replace(ours, archive=hashlib.sha256(content).hexdigest())
    assert locate(known, "airfoil_self_noise.dat").is_file()
    (cache / "airfoil" / "airfoil_self_noise.dat").unlink()
    with pytest.raises(DataError, match="the archive is not the one with sha256 0000"):
        locate(replace(ours, archive="0000"), "airfoil_self_noise.dat")
    assert left(cache) == []


def failing(kind: str, folder: Path) -> Answer:
    """Return a server's answer that is not the archive."""
    good = zipped(folder, AIRFOIL.files)
    if kind == "error":
        return lambda handler: handler.send_error(503, "not today")
    if kind == "damaged":
        return sends(good[: len(good) // 3] + b"\0\0\0\0" + good[len(good) // 3 + 4 :])
    content = {
        "truncated": good[: len(good) // 2],
        "cut off": good[: len(good) // 2],
        "a page": b"<html>Please log in</html>",
        "another file": zipped(folder, []),
    }[kind]
    return sends(content, promised=len(good) if kind == "cut off" else None)


FAILURES = {
    "error": "HTTPError: 503",
    "cut off": "IncompleteRead|Connection broken",
    "truncated": "ReadError",
    "damaged": "BadZipFile|zlib|error",
    "a page": "ReadError",
    "another file": "airfoil_self_noise.dat is not in the archive",
    "offline": r"ConnectionError: no connection to 127\.0\.0\.1\n",
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failed_download_says_all_and_leaves_nothing(
    kind: str, data_folder: Path, cache: Path, server: Server
) -> None:
    address, answers = server
    if kind == "offline":
        address = "http://127.0.0.1:1"
    else:
        answers["/it.zip"] = failing(kind, data_folder / "airfoil")
    ours = replace(AIRFOIL, mirror=None, address=f"{address}/it.zip")
    with pytest.raises(DataError, match=f"the download failed\n.*({FAILURES[kind]})") as caught:
        locate(ours, "airfoil_self_noise.dat")
    for part in ("airfoil_self_noise.dat  sha256 74c75fd7", ours.address, "--data"):
        assert part in str(caught.value)
    assert left(cache) == []


def test_a_wrong_file_in_the_archive_is_refused(
    data_folder: Path, cache: Path, server: Server, tmp_path: Path
) -> None:
    """Of two files the second is wrong: neither is kept."""
    train, test = ECG5000.files
    shutil.copy(data_folder / "ecg5000" / train, tmp_path)
    (tmp_path / test).write_text("1 2 3\n")
    address, answers = server
    answers["/it.zip"] = sends(zipped(tmp_path, ECG5000.files))
    with pytest.raises(DataError, match=f"{test} of the archive has sha256 .* expected baf"):
        locate(replace(ECG5000, mirror=None, address=f"{address}/it.zip"), train)
    assert left(cache) == []


def test_a_mirror_helps_where_the_archive_fails(cache: Path, server: Server) -> None:
    """Made-up contents: the hash decides, wherever a file comes from."""
    address, answers = server
    content = b"1 2 3\n"
    files = {"numbers.txt": hashlib.sha256(content).hexdigest()}
    source = Source("numbers", "numbers", files, {"numbers.txt": 6}, f"{address}/gone.zip")
    with pytest.raises(DataError, match="the download failed"):
        download(source)
    answers["/mirror/numbers.txt"] = sends(content)
    folder = download(replace(source, mirror=f"{address}/mirror/"))
    assert (folder / "numbers.txt").read_bytes() == content
    answers["/mirror/numbers.txt"] = sends(b"4 5 6\n")
    with pytest.raises(DataError, match=r"numbers.txt of http.* has sha256"):
        download(replace(source, folder="other", mirror=f"{address}/mirror/"))


def test_a_file_that_cannot_be_placed_leaves_no_part(
    data_folder: Path, cache: Path, server: Server
) -> None:
    address, answers = server
    answers["/it.zip"] = sends(zipped(data_folder / "airfoil", AIRFOIL.files))
    (cache / "airfoil" / "airfoil_self_noise.dat").mkdir(parents=True)
    with pytest.raises(DataError, match=r"the download failed\n.*directory"):
        locate(replace(AIRFOIL, mirror=None, address=f"{address}/it.zip"), "airfoil_self_noise.dat")
    assert left(cache) == []


def test_without_a_place_for_it_nothing_is_downloaded(cache: Path) -> None:
    cache.parent.write_text("in the way")
    with pytest.raises(DataError, match=r"no folder to download it into: .*; set MPGD_CACHE to"):
        locate(
            replace(AIRFOIL, mirror=None, address="http://127.0.0.1:1/it.zip"),
            "airfoil_self_noise.dat",
        )


CHILD = """
import sys
from dataclasses import replace
from mpgd_lab.data.sources import AIRFOIL
from mpgd_lab.data.sources import locate
locate(replace(AIRFOIL, mirror=None, address=sys.argv[1]), "airfoil_self_noise.dat")
"""


def test_two_processes_download_at_once_and_one_may_be_killed(
    data_folder: Path, cache: Path, server: Server
) -> None:
    """The server waits until all three ask; one of them then gets half of it and is killed."""
    address, answers = server
    good = zipped(data_folder / "airfoil", AIRFOIL.files)
    all_ask, half_sent, gone = threading.Barrier(3), threading.Event(), threading.Event()

    def whole(handler: BaseHTTPRequestHandler) -> None:
        all_ask.wait(60)
        sends(good)(handler)

    def half(handler: BaseHTTPRequestHandler) -> None:
        all_ask.wait(60)
        sends(good[: len(good) // 2], promised=len(good))(handler)
        half_sent.set()
        gone.wait(60)

    answers |= {"/whole.zip": whole, "/half.zip": half}
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, f"{address}/{name}.zip"])
        for name in ("whole", "whole", "half")
    ]
    assert half_sent.wait(60)
    children[2].kill()
    assert [child.wait(60) for child in children] == [0, 0, -signal.SIGKILL]
    gone.set()
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["airfoil_self_noise.dat"]
    assert locate(AIRFOIL, "airfoil_self_noise.dat").is_relative_to(cache)


def test_a_named_experiment_downloads_its_data_and_no_name_says_how(
    data_folder: Path,
    cache: Path,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, answers = server
    answers["/it.zip"] = sends(zipped(data_folder / "airfoil", AIRFOIL.files))
    ours = replace(AIRFOIL, mirror=None, address=f"{address}/it.zip")
    study = replace(
        load("airfoil"), data=(ours,), runs=lambda *size: [], printout=lambda records: []
    )
    said = study.reason_to_skip()
    assert said is not None
    for part in ("`mpgd reproduce airfoil` downloads", "sha256 74c75fd7", ours.address, "--data"):
        assert part in said
    monkeypatch.setattr(cli, "load", lambda name: study)
    assert cli.main(["reproduce", "airfoil", "--fresh", "--out", str(tmp_path / "out")]) == cli.OK
    assert left(cache) == ["airfoil_self_noise.dat"]
    assert study.reason_to_skip() is None
