"""What is written where, from stores with little in them; and the same content as Markdown."""

from __future__ import annotations

import re
import resource
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from mpgd_lab import report
from mpgd_lab.catalogue import load
from mpgd_lab.content.blocks import Finding, Findings, Plate, Section, panel
from mpgd_lab.report.page import _to_decide
from mpgd_lab.report.summary import (
    ONE_LAYER,
    ONLY,
    TWO_LAYERS,
    answer,
    collect_claims,
    conclusions,
    tiles,
)
from mpgd_lab.store import Run, Store
from mpgd_lab.studies.airfoil import runs as airfoil
from mpgd_lab.studies.ecg import runs as ecg
from tests import fake_results
from tests.fake_results import PARTS

HOSTILE = "<script>alert(1)</script> [x](javascript:y) `code` a|b *bold*"
AIRFOIL = {"test_rmse": 0.4, "gap": 0.1, "released_gap": 0.1}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    store = fake_results.fill(folder, ("airfoil", "ecg", "valley"))
    store.save(Run(HOSTILE, HOSTILE, HOSTILE, {}, 1), {}, {}, seconds=1.0)
    file = folder / "results.md"
    report.write(folder, file)
    return file


def test_markdown_starts_with_the_commands_and_has_every_figure(document: Path) -> None:
    text = document.read_text()
    begins = text.index(
        "    mpgd reproduce valley airfoil ecg --protocol text,corrected,released --seeds 3"
        " --data DIR\n"
    )
    assert begins < text.index("## What we conclude, plainly")
    figures = re.findall(r"\]\((figures/[\w-]+\.svg)\)", text)
    assert len(figures) == 8
    drawn = [(document.parent / name).read_text() for name in figures]
    assert all(one.startswith("<?xml") for one in drawn)
    assert all("@media (prefers-color-scheme: dark)" in one for one in drawn)


def test_markdown_has_every_printed_number_and_escapes_what_it_shows(document: Path) -> None:
    text = document.read_text()
    printed = [one for pair in airfoil.PRINTED.values() for one in pair if one]
    assert not [one for one in [*printed, *ecg.PRINTED.values()] if one not in text]
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; \\[x\\](javascript:y) \\`code\\` a\\|b" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| &lt;script")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 8  # seven cells


def test_paths_too_short_to_be_seen_are_named(document: Path) -> None:
    captions = [line for line in document.read_text().splitlines() if "under the ring" in line]
    assert captions
    assert all(
        "Gradient descent does not move and lies under the ring." in line for line in captions
    )


def test_an_uneven_sweep_says_how_many_seeds_and_how_to_go_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    for run in airfoil.tasks("corrected", [1, 2, 3]):
        if run.scheme == "gd" or run.seed < 3:
            store.save(run, AIRFOIL, {}, seconds=1.0)
    text = report.write(tmp_path, tmp_path / "results.md").file.read_text()
    assert "**with corrected signs, 2 to 3 seeds**" in text
    assert "+0.0000 \\[+0.0000, +0.0000\\], 2 seeds" in text  # to descent, which has three
    assert "Unfinished: with corrected signs, 2 to 3 seeds. To finish it, run again:" in text
    assert "    mpgd reproduce airfoil --seeds 3 --data DIR # not finished yet\n" in text


def test_protocols_of_unlike_size_have_commands_of_their_own(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    for run in [*airfoil.tasks("corrected", [1, 2]), *airfoil.tasks("released", [1])]:
        store.save(run, AIRFOIL, {}, seconds=1.0)
    text = report.write(tmp_path, tmp_path / "results.md").file.read_text()
    assert "    mpgd reproduce airfoil --protocol corrected --seeds 2 --data DIR\n" in text
    assert "    mpgd reproduce airfoil --protocol released --seeds 1 --data DIR\n" in text
    assert "nfinished" not in text
    assert text.index("with corrected signs, 2 seeds") < text.index("as the scripts ran, 1 seed**")


def test_the_text_to_the_letter_is_asked_for_where_it_was_not_run(
    document: Path, tmp_path: Path
) -> None:
    assert "to the letter: not run" not in document.read_text()
    store = Store(tmp_path / "runs")
    for run in airfoil.tasks("corrected", range(1, 6)):
        store.save(run, AIRFOIL, {}, seconds=1.0)
    text = report.write(tmp_path, tmp_path / "results.md").file.read_text()
    assert "The paper's text to the letter: not run. To run it:" in text
    assert "    mpgd reproduce airfoil --protocol text --seeds 5 --data DIR\n" in text
    assert "The paper's text to the letter: not run in airfoil; `mpgd reproduce airfoil" in text
    assert "of 58 comparisons in which the paper says" in text
    assert "to the letter, of" not in text  # none of it is the paper's text


def test_a_row_that_the_paper_prints_as_worse_is_judged_as_printed(tmp_path: Path) -> None:
    """0.4600 at gamma 0.7 is above descent's 0.4309, so higher is what the paper shows there."""
    store = Store(tmp_path / "runs")
    for run in airfoil.tasks("text", range(1, 13)):
        better = -0.1 if run.scheme.startswith("mpgd") else 0.0
        error = 0.4 + better + 0.001 * run.seed * (1.0 + better)
        store.save(run, AIRFOIL | {"test_rmse": error}, {}, seconds=1.0)
    text = report.write(tmp_path, tmp_path / "results.md").file.read_text()
    rows = {line.split(" | ")[0]: line for line in text.splitlines() if "text says |" in line}
    at = "| MPGD plain {} beta 0.5 has a {} test RMSE than descent{}"
    assert "| ✓ supported | as the text says |" in rows[at.format(0.6, "lower", "")]
    worse = rows[at.format(0.7, "higher", ", as printed")]
    assert "| ✗ contradicted | as the text says |" in worse
    assert "corrected for 16 claims" in worse  # eight rows, two rivals
    assert "- **Airfoil: rows that the paper prints as worse than the rival.**" in text
    assert "| MPGD (plain), mean over gamma 0.55, 0.6, 0.65, 0.7 and beta 0.5, has a lower" in text
    assert "as the text says, random splits" in text
    # 64 comparisons less 6 rows that the paper prints as worse
    assert "to the letter, of 58 comparisons in which the paper says that MPGD is better" in text


def test_an_empty_store_names_the_command_of_every_part(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    written = report.write(tmp_path, tmp_path / "report.html")
    assert written.missing == tuple(PARTS)
    page = written.file.read_text()
    assert all(f"mpgd reproduce {name}" in page for name in PARTS)
    assert page.count("--data DIR</code>") == 10  # the studies of real data
    assert 'href="#files"' not in page
    assert "No claim has been tested yet" in page


def test_records_of_an_unknown_protocol_do_not_stop_the_page(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    store.save(Run("digits", "x; rm -rf ~", "gd", {"steps": 1}, 1), {}, {}, seconds=1.0)
    written = report.write(tmp_path, tmp_path / "results.md")
    assert "digits" in written.missing
    assert "    mpgd reproduce digits\n" in written.file.read_text()
    assert "reproduce digits --protocol" not in written.file.read_text()


def test_half_a_sweep_gives_a_table_without_verdicts(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    for run in airfoil.tasks("corrected", [1, 2])[:8]:
        store.save(run, AIRFOIL, {}, seconds=1.0)
    written = report.write(tmp_path, tmp_path / "report.html")
    assert "airfoil" not in written.missing
    assert "0.4000 (0.0000)" in written.file.read_text()
    assert "Airfoil: MPGD has a lower" not in written.file.read_text()


@pytest.mark.parametrize(
    ("file", "error", "match"),
    [
        ("report.pdf", ValueError, r"an \.html or \.md file, or a folder, got 'report\.pdf'"),
        ("report.html", FileNotFoundError, "it has no folder 'runs'; `mpgd reproduce --out"),
        ("nowhere/report.html", FileNotFoundError, "it has no folder 'runs'"),
    ],
)
def test_what_cannot_be_written_is_said(
    tmp_path: Path, file: str, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        report.write(tmp_path, tmp_path / file)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        report.write(tmp_path, tmp_path / "nowhere" / "report.html")


def test_a_disk_that_fills_up_is_said_with_the_file(tmp_path: Path) -> None:
    """A file-size limit makes the kernel itself refuse the bytes."""
    file = tmp_path / "report.html"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError, match=rf"^cannot write {file}: File too large$"):
            report.replace(file, "x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_conclusions_say_what_is_counted_and_what_is_not() -> None:
    items = (
        Finding("A", "as printed", "", "contradicted", "", "stated"),
        Finding("A", "corrected", "", "supported", "", "corrected"),
        Finding("B", "as printed", "", "supported", "", "stated"),
        Finding("B", "as printed", "", "undecided", "", "stated"),
        Finding("C", "on digits", "", "supported", ""),
    )
    found = collect_claims([Section("noise", "", (Findings("", items),))])
    assert conclusions(found) == (
        f"{ONLY} 1 more claim is on what the paper prints no numbers of (its remarks, other data, "
        "other rivals), and not counted.",
        "A. As printed: contradicted; corrected: supported.",
        "B. As printed: supported in 1, undecided in 1 of 2.",
        "C. On digits: supported.",
    )


def test_what_is_undecided_comes_with_the_command_that_would_decide_half_of_it() -> None:
    def undecided(seeds: float, headline: str = "Airfoil: MPGD is better") -> Finding:
        return Finding(headline, "", "", "undecided", "", "stated", seeds)

    items = [undecided(30.0), undecided(471.0), undecided(inf), undecided(9.0, "no claim")]
    said = _to_decide([Section("airfoil", "", (Findings("", tuple(items)),))], [load("airfoil")])
    assert said.startswith("3 comparisons are undecided. If the differences are as measured, 480 ")
    assert "`mpgd reproduce airfoil --protocol text --seeds 480 --data DIR`, about " in said
    assert not _to_decide([Section("airfoil", "", ())], [load("airfoil")])


def test_settings_that_are_not_the_papers_are_named_and_not_counted() -> None:
    stated = Finding("MPGD is better", "as the text says", "", "contradicted", "", "stated")
    items = (stated, replace(stated, setting="random splits", word="supported", basis="elsewhere"))
    found = collect_claims([Section("airfoil", "", (Findings("", items),))])
    said = conclusions(found)[0]
    assert said.startswith(f"{ONLY} Nor are settings")
    assert (
        "Nor are"
        not in conclusions(collect_claims([Section("", "", (Findings("", items[:1]),))]))[0]
    )


def test_a_comparison_under_two_protocols_is_counted_once_under_each() -> None:
    stated = Finding("MPGD is better", "as the text says", "", "contradicted", "", "stated")
    items = (stated, replace(stated, setting="corrected", basis="corrected"))
    claims = collect_claims([Section("airfoil", "", (Findings("", items),))])
    assert answer(claims, "CIFAR-10") == (
        "No: to the letter, of 1 comparison in which the paper says that MPGD is better, none hold "
        "in these runs (1 contradicted); with corrected signs, none of 1; without CIFAR-10."
    )
    counted, shown = tiles(claims)
    assert counted == "to the letter"
    assert shown == {"supported": 0, "contradicted": 1, "mixed": 0, "undecided": 0}


def test_the_shallow_net_of_ecg_is_named_beside_the_count() -> None:
    two = Finding("MPGD is better", TWO_LAYERS, "", "supported", "", "stated")
    items = (two, replace(two, setting=ONE_LAYER, word="contradicted", basis="elsewhere"))
    claims = collect_claims([Section("ecg", "", (Findings("", items),))])
    assert (
        "With one hidden layer none of the 1 would hold to the letter instead of 1."
        in (conclusions(claims)[0])
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "These runs do not answer it: no claim that MPGD is better has been tested."),
        (
            ["supported"] * 2,
            "Yes: to the letter, of 2 comparisons in which the paper says .* 2 hold in these",
        ),
        (["supported", "supported", "mixed"], "Mostly: to the letter, of 3 comparisons"),
        (
            ["supported", "mixed", "mixed"],
            "Hardly: to the letter, of 3 comparisons .* 1 holds in these runs",
        ),
        (
            ["contradicted"] * 2,
            "No: to the letter, of 2 comparisons .* none hold in these runs .2 contradicted",
        ),
        (
            ["undecided"] * 2,
            "These runs do not tell: to the letter, of 2 comparisons .* 2 undecided",
        ),
        (
            ["undecided", "undecided", "provisionally mixed"],
            "These runs do not tell: .*of 3 comparisons .* 2 undecided, 1 provisionally mixed;",
        ),
        (["undecided", "mixed"], "Not that we could see: to the letter, of 2 comparisons"),
        (
            ["provisionally mixed"] * 2,
            "It is too early to say: to the letter, of 2 comparisons .* 2 rest on few seeds",
        ),
        (["provisionally mixed", "supported"], "Hardly: to the letter, of 2 comparisons"),
    ],
)
def test_the_title_s_question_is_answered_in_one_sentence(words: list[str], said: str) -> None:
    items = [
        Finding("MPGD is better", "as printed", str(n), word, "", "stated")
        for n, word in enumerate(words)
    ]
    items += [
        Finding("MPGD is better", "as the scripts ran", "", "supported", "", "scripts"),
        Finding("Sums tend to a law", "as printed", "", "supported", "", "stated"),
        Finding("MPGD is better on digits", "on digits", "", "supported", ""),
    ]
    own = items if words else items[1:]
    found = answer(collect_claims([Section("noise", "", (Findings("", tuple(own)),))]))
    assert re.match(said, found)
    assert found.count(".") == 1
    assert found.endswith("as the authors' scripts ran, 1 of 1.") == bool(words)


@pytest.mark.parametrize(
    ("count", "shape"),
    [(1, (1, 1)), (2, (2, 1)), (3, (3, 1)), (4, (2, 2)), (6, (2, 3)), (8, (2, 4)), (9, (3, 3))],
)
def test_a_plate_has_rows_and_columns_of_its_own(count: int, shape: tuple[int, int]) -> None:
    panels = (panel("", lambda ax: None),) * count
    plate = Plate("x", "", panels)
    assert (plate.columns, plate.rows) == shape
    assert Plate("x", "", panels, across=1).rows == count
