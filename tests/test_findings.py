"""What the README and the home page say was found is what docs/results/ and the records say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.findings import ROW, findings, mistakes, numbers

ROOT = Path(__file__).parents[1]
HOME = ROOT / "docs" / "index.md"
RESULTS = ROOT / "docs" / "results"
EXAMPLE = {
    "airfoil": """# Airfoil self-noise

| claim | verdict | setting | evidence |
| --- | --- | --- | --- |
| plain 0.6 is lower | contradicted | as the text says | +0.4137 \\[+0.1502, +0.9188\\], 100 seeds |
| plain 0.6 is lower | yes | as the scripts ran | -0.0081 \\[-0.0170, -0.0012\\], 100 seeds |
""",
    "ecg": "# ECG5000\n\n| claim | evidence |\n| --- | --- |\n| other | 1,234.5 |\n",
}
LINK = '[row](docs/results/{}.md "{}")'
AIRFOIL = LINK.format("airfoil", "plain 0.6; as the text says")


@pytest.mark.parametrize(
    ("finding", "wrong"),
    [
        (f"no: 0.41 [0.15, 0.92] higher {AIRFOIL}", 0),
        (f"no: 0.4137 higher at gamma 0.6, 100 seeds {AIRFOIL}", 0),
        (f"no: 0.42 [0.15, 0.92] higher {AIRFOIL}", 1),
        (f"no: 0.008 lower {AIRFOIL}", 1),  # a number of another setting
        ("no: 0.41 higher, and no row is named", 1),
        (f"no: 0.41 {LINK.format('airfoil', 'plain 0.9')}", 2),
        (f"no: 0.41 {LINK.format('nowhere', 'plain 0.6')}", 2),
        (f"Theorem 4.3 and ECG5000, `--seeds 7`: 1,234 {LINK.format('ecg', 'other')}", 0),
        ("Theorem 4.3 lacks a term", 0),
        (AIRFOIL.replace("row", "no in 100"), 0),
        (AIRFOIL.replace("row", "no in 99"), 1),
        (f"supported {AIRFOIL}", 1),
        (f"contradicted {AIRFOIL}", 0),
    ],
)
def test_a_number_must_be_one_of_its_row(finding: str, wrong: int) -> None:
    assert len(mistakes(finding, EXAMPLE)) == wrong


def test_findings_are_sentences_and_cells() -> None:
    page = (
        "**What came out:** one. Two.\n\n## What we found\n\n| claim | text | scripts | command |\n"
        "|---|---|---|---|\n| c | no: 1.5 | yes |  |\n\n- Item.\n\n## More\n| a | b | c |\n- e\n"
    )
    assert findings(page) == ["one.", "Two.", "no: 1.5", "yes", "Item."]
    assert numbers("at 1,000 steps, 0.5") == ["1000", "0.5"]


def test_the_findings_of_the_home_page_are_those_of_their_rows() -> None:
    results = {one.stem: one.read_text() for one in RESULTS.glob("*.md")}
    found = findings(HOME.read_text())
    assert found
    assert [mistake for one in found for mistake in mistakes(one, results)] == []
    assert [one for one in found if not ROW.search(one)] == []


def test_the_first_answer_has_the_numbers_of_the_results() -> None:
    said = (ROOT / "README.md").read_text().partition("**Does the paper hold?**")[2]
    answer = (RESULTS / "index.md").read_text().split("\n\n")[1]
    found = numbers(said.partition("\n\n")[0])
    assert len(found) == 10
    assert set(found) <= set(numbers(answer))


def test_the_scores_of_the_comparison_are_those_of_its_records() -> None:
    """docs/results/ is compared with the records by tests/notebooks."""
    page = (ROOT / "docs" / "compare.md").read_text()
    tables = (RESULTS / "compare.md").read_text()
    scores = set(re.findall(r"\| (\d+\.\d) \(", tables))
    rows = page.partition("## Wells")[2].partition("\n\nAll columns")[0].splitlines()
    cells = [cell.strip() for row in rows if row.startswith("| ") for cell in row.split("|")[2:-1]]
    shown = [cell for cell in cells if re.fullmatch(r"\d+\.\d", cell)]
    assert len(shown) == 42
    assert [cell for cell in shown if cell not in scores] == []
