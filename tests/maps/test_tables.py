"""Tables: the same bits however they are computed, and a cache that cannot hurt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from mpgd import files
from mpgd.maps import abel, tables
from mpgd.maps.rows import LARGEST
from mpgd.maps.tables import ThalerTables, compute_tables, thaler_tables

FIELDS = ("returns", "starts", "panels", "series", "slope", "constants")

# They change only with a release that says so.
FINGERPRINTS = {
    0.55: 9038086134222309861,
    0.6: 4491992027728024698,
    0.7: 233735993101540805,
    0.9: 8258824351574809812,
}


@pytest.fixture(scope="module")
def fresh() -> dict[float, ThalerTables]:
    """Return tables at the golden gammas, computed here and now."""
    abel.abel_coordinate.cache_clear()
    return {gamma: compute_tables(gamma) for gamma in FINGERPRINTS}


@pytest.fixture
def cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: dict[float, ThalerTables]
) -> Iterator[Path]:
    """Ship nothing, let the cache be empty, and let "computing" return what is known already."""
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "SHIPPED", tmp_path / "nothing")
    monkeypatch.setattr(tables, "compute_tables", lambda gamma: fresh[gamma])
    thaler_tables.cache_clear()
    yield tmp_path / "cache"
    thaler_tables.cache_clear()


def assert_same(one: ThalerTables, other: ThalerTables, fields: tuple[str, ...] = FIELDS) -> None:
    for name in fields:
        a, b = getattr(one, name), getattr(other, name)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name


@pytest.mark.parametrize("gamma", FINGERPRINTS)
def test_golden_fingerprints(gamma: float, fresh: dict[float, ThalerTables]) -> None:
    assert fresh[gamma].fingerprint == FINGERPRINTS[gamma]


def test_tables_on_disk_are_the_computed_ones(fresh: dict[float, ThalerTables]) -> None:
    """What comes with the package, and whatever cache the other tests use."""
    assert [path.name for path in files.SHIPPED.glob("thaler*")] == [
        "thaler-2-0x1.3333333333333p-1.npz"
    ]
    for gamma in (0.6, 0.55):
        assert_same(thaler_tables(gamma), fresh[gamma])


def test_computed_twice_they_are_identical(fresh: dict[float, ThalerTables]) -> None:
    abel.abel_coordinate.cache_clear()
    abel._cosines.cache_clear()
    assert_same(compute_tables(0.6), fresh[0.6])


def test_they_do_not_change_when_the_precision_is_raised(
    fresh: dict[float, ThalerTables], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounded once from high precision: more digits, terms and nodes round to the same numbers."""
    for name, value in {"DIGITS": 45, "ORDER": 21, "NODES": 26}.items():
        monkeypatch.setattr(abel, name, value)
    abel.abel_coordinate.cache_clear()
    abel._cosines.cache_clear()
    raised = compute_tables(0.6)
    abel.abel_coordinate.cache_clear()
    assert raised.panels.shape[1] == 26  # the new settings were used
    assert_same(raised, fresh[0.6], ("returns", "starts", "constants"))


def test_too_little_precision_shows(
    fresh: dict[float, ThalerTables], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the test above: the fingerprint notices ten nodes instead of 22."""
    monkeypatch.setattr(abel, "NODES", 10)
    abel.abel_coordinate.cache_clear()
    poor = compute_tables(0.6)
    abel.abel_coordinate.cache_clear()
    assert poor.fingerprint != fresh[0.6].fingerprint


def test_layout(fresh: dict[float, ThalerTables]) -> None:
    for found in fresh.values():
        assert found.returns.shape == (50 * 128, 2)
        assert found.returns.dtype == found.starts.dtype == np.dtype("<u8")
        assert len(found.starts) % (1 << found.start_row_bits) == 0
        assert found.starts[-1 << found.start_row_bits, 0] == LARGEST << 32  # the smallest level
        assert all(np.isfinite(getattr(found, name)).all() for name in FIELDS[2:])
        assert 0 <= found.fingerprint < 2**63


def test_a_new_gamma_is_written_once_and_read_back_equal(
    cache: Path, fresh: dict[float, ThalerTables], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = thaler_tables(0.6)
    assert len(list(cache.iterdir())) == 1  # and no temporary file
    thaler_tables.cache_clear()
    monkeypatch.setattr(tables, "compute_tables", None)  # calling it would fail
    assert_same(thaler_tables(0.6), first)
    assert thaler_tables(0.6).gamma == 0.6


def test_the_cache_lies_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path))
    assert files.cache_folder() == tmp_path
    monkeypatch.delenv("MPGD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert files.cache_folder() == tmp_path / "x" / "mpgd"


def rewrite(path: Path, **changes: np.ndarray) -> None:
    """Write the file again with some fields changed."""
    with np.load(path) as file:
        fields = {name: file[name] for name in file.files}
    np.savez(path, **(fields | changes))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2000])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_text(path: Path) -> None:
    path.write_text("not a table")


def one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def one_bit(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))


def one_coefficient(path: Path) -> None:
    with np.load(path) as file:
        returns = file["returns"]
    returns[100, 0] ^= np.uint64(1)
    rewrite(path, returns=returns)


def one_field_too_many(path: Path) -> None:
    rewrite(path, more=np.zeros(3))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [truncate, empty, other_text, one_array, one_bit, one_coefficient, one_field_too_many],
)
def test_a_damaged_file_is_computed_again_and_replaced(
    damage: object, cache: Path, fresh: dict[float, ThalerTables]
) -> None:
    thaler_tables(0.6)
    (path,) = cache.iterdir()
    good = path.stat().st_size
    damage(path)  # type: ignore[operator]
    thaler_tables.cache_clear()
    assert_same(thaler_tables(0.6), fresh[0.6])
    assert [path] == list(cache.iterdir())
    assert path.stat().st_size == good
    assert tables._load(path, 0.6) is not None


@pytest.mark.parametrize("field", ["panels", "series", "slope", "constants"])
def test_damage_outside_the_two_large_tables_is_noticed_too(
    field: str, cache: Path, fresh: dict[float, ThalerTables]
) -> None:
    """abel(), y* and the start of the orbit read these; a wrong one must not be believed."""
    thaler_tables(0.6)
    (path,) = cache.iterdir()
    rewrite(path, **{field: getattr(fresh[0.6], field) * 1.001})
    thaler_tables.cache_clear()
    assert_same(thaler_tables(0.6), fresh[0.6])


def test_a_file_of_another_layout_is_not_taken(
    cache: Path, fresh: dict[float, ThalerTables]
) -> None:
    """Such as an older version's, one row shorter and whole in itself."""
    thaler_tables(0.6)
    (path,) = cache.iterdir()
    older = replace(fresh[0.6], returns=fresh[0.6].returns[:-1].copy())
    rewrite(path, returns=older.returns, fingerprint=np.int64(older.fingerprint))
    thaler_tables.cache_clear()
    assert_same(thaler_tables(0.6), fresh[0.6])


def test_no_changed_byte_is_believed_or_breaks_the_reader(
    cache: Path, fresh: dict[float, ThalerTables]
) -> None:
    """All bytes of the archive's directory and headers, and some of its numbers."""
    thaler_tables(0.6)
    (path,) = cache.iterdir()
    raw = path.read_bytes()
    generator = np.random.default_rng(0)
    places = {*range(220), *range(len(raw) - 460, len(raw)), *generator.integers(len(raw), size=40)}
    for place in sorted(places):
        changed = bytearray(raw)
        changed[place] ^= int(generator.integers(1, 256))
        path.write_bytes(bytes(changed))
        found = tables._load(path, 0.6)
        if found is not None:
            assert_same(found, fresh[0.6])


def with_checksum(path: Path, found: ThalerTables) -> None:
    """Write tables whose checksum is right, whatever they hold."""
    fields = {name: getattr(found, name) for name in FIELDS}
    np.savez(path, **fields, checksum=np.frombuffer(found.checksum, np.uint8))


CHANGES: dict[str, Callable[[ThalerTables], ThalerTables]] = {
    "a row too few": lambda t: replace(t, returns=t.returns[:-1].copy()),
    "rows of another type": lambda t: replace(t, starts=t.starts.view(np.float64)),
    "numbers of another type": lambda t: replace(t, panels=t.panels.view(np.uint64)),
    "an axis too few": lambda t: replace(t, series=t.series.reshape(-1)),
    "not a number": lambda t: replace(t, slope=t.slope * np.nan),
    "infinite": lambda t: replace(t, constants=t.constants / 0.0),
    "a constant too few": lambda t: replace(t, constants=t.constants[:2].copy()),
    "nothing": lambda t: replace(t, panels=t.panels[:0].copy()),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_tables_of_another_form_are_not_taken_though_their_checksum_is_right(
    change: str, cache: Path, fresh: dict[float, ThalerTables]
) -> None:
    thaler_tables(0.6)
    (path,) = cache.iterdir()
    with_checksum(path, CHANGES[change](fresh[0.6]))
    thaler_tables.cache_clear()
    assert_same(thaler_tables(0.6), fresh[0.6])


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(
    cache: Path, fresh: dict[float, ThalerTables]
) -> None:
    thaler_tables(0.6)
    (path,) = cache.iterdir()
    path.unlink()
    os.mkfifo(path)
    thaler_tables.cache_clear()
    assert_same(thaler_tables(0.6), fresh[0.6])
    assert path.is_file()  # a rename replaces the pipe


def test_compressed_zeros_do_not_fill_the_memory(
    cache: Path, fresh: dict[float, ThalerTables], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir()
    path = cache / "zeros.npz"
    np.savez_compressed(path, **{name: np.zeros(2**20) for name in FIELDS})
    read: list[str] = []
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda file, name: read.append(name))
    assert path.stat().st_size < 2**17
    assert tables._load(path, 0.6) is None
    assert read == []


def test_a_file_of_another_gamma_is_not_taken(
    cache: Path, fresh: dict[float, ThalerTables]
) -> None:
    thaler_tables(0.55)
    (wrong,) = cache.iterdir()
    wrong.rename(cache / wrong.name.replace((0.55).hex(), (0.6).hex()))
    assert_same(thaler_tables(0.6), fresh[0.6])


def without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path / "file" / "cache"))


def without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("MPGD_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", fail)


@pytest.mark.parametrize("without", [without_a_folder, without_a_home])
def test_without_a_place_for_the_cache_tables_are_computed_and_one_line_says_so(
    without: Callable[[Path, pytest.MonkeyPatch], None],
    cache: Path,
    tmp_path: Path,
    fresh: dict[float, ThalerTables],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    without(tmp_path, monkeypatch)
    files.warn_once.cache_clear()
    for gamma in (0.6, 0.7):
        assert_same(thaler_tables(gamma), fresh[gamma])
    (line,) = caplog.messages
    assert line.startswith("tables cannot be kept in")
    assert "set MPGD_CACHE to a folder that can be written" in line


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_failing_disk_leaves_no_part_behind(
    call: str, cache: Path, fresh: dict[float, ThalerTables], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, call, fail)
    assert_same(thaler_tables(0.6), fresh[0.6])
    assert list(cache.iterdir()) == []


def test_a_folder_in_the_place_of_the_file_is_no_error(
    cache: Path, fresh: dict[float, ThalerTables]
) -> None:
    thaler_tables(0.6)
    (path,) = cache.iterdir()
    a_folder(path)
    thaler_tables.cache_clear()
    assert_same(thaler_tables(0.6), fresh[0.6])


def test_a_caller_with_few_digits_does_not_change_the_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cosines are kept between calls; those of 15 digits were once taken for those of 60."""
    monkeypatch.setattr(abel, "_cosines", lru_cache(abel._cosines.__wrapped__))
    abel.chebyshev_coefficients([mp.mpf(1)] * tables.RETURN_NODES)
    assert compute_tables(0.6).fingerprint == FINGERPRINTS[0.6]
