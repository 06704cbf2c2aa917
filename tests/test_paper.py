"""Every section, theorem, equation, figure and table of the paper that we cite is in the paper."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAPER: dict[str, dict[str, str]] = tomllib.loads((ROOT / "tests/paper.toml").read_text())
FILES = [
    *(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")),
    *(path for folder in (".", "docs", "benchmarks") for path in (ROOT / folder).glob("*.md")),
    ROOT / "docs/figures/architecture.svg",
]

NUMBER = r"(?:[A-Z]|\d+)(?:\.\d+)*\b"
NUMBERS = rf"{NUMBER}(?:(?:,|,? and)\s+{NUMBER})*"  # 1, 4 and 5
IN_BRACKETS = r"\(\d+\)(?:(?:,|,? and)\s+\(\d+\))*"  # (14) and (15)
KINDS = "section|appendi|theorem|lemma|proposition|definition|remark|assumption|figure|table"
GAP = r"(?:[ \t]+|\n[ \t]*)"  # a blank line ends a sentence, or an import
CITATION = re.compile(
    rf"\b(?i:({KINDS})(s|x|ces)?){GAP}({NUMBERS})|\b(?i:(equation)(s)?){GAP}({IN_BRACKETS})"
)
WORK = re.compile(r"([^\W\d_]+)(?: et al\.)?,? \(?(?:19|20)\d\d\b")  # its last author
OURS = ("Simsekli", "NeurIPS")


def cited(text: str) -> list[tuple[str, str]]:
    """Return kind and number of every place of the paper that ``text`` cites."""
    found = []
    for match in CITATION.finditer(text):
        if of_another_work(text[: match.start()]):
            continue
        stem, ending, numbers = match.groups()[:3] if match[1] else match.groups()[3:]
        kind = "Appendix" if stem.lower() == "appendi" else stem.capitalize()
        several = re.findall(NUMBER, numbers)
        found += [(kind, n) for n in (several if ending in ("s", "ces") else several[:1])]
    return found


def of_another_work(before: str) -> bool:
    """Return whether the clause before a citation names a work that is not the paper."""
    clause = re.split(r";|(?<!\bal)\.\s", before[-300:])[-1]
    works = WORK.findall(clause)
    return bool(works) and works[-1] not in OURS


def wrong(text: str) -> list[str]:
    """Return all citations of what is not in the paper."""
    return [f"{kind} {number}" for kind, number in cited(text) if number not in PAPER[kind]]


def test_every_place_we_cite_is_in_the_paper() -> None:
    texts = {
        str(path.relative_to(ROOT)): path.read_text() for path in FILES if path != Path(__file__)
    }
    assert {name: found for name, text in texts.items() if (found := wrong(text))} == {}
    assert {kind for text in texts.values() for kind, _ in cited(text)} >= {
        "Section",
        "Appendix",
        "Theorem",
        "Definition",
        "Equation",
        "Figure",
        "Table",
    }


LIST = re.compile(r"^\| (\w+) \(?([\w.]+)\)? \| [^|]+ \| (.+) \| (`tests/[^`]+`) \|$", re.MULTILINE)
LISTED = tuple(kind for kind in PAPER if kind not in ("Section", "Appendix"))


def listed(text: str) -> list[tuple[str, ...]]:
    """Return kind, number, name here and test of every row of the list of numbered things."""
    return LIST.findall(text.split("## Every numbered thing")[1].split("\n## ")[0])


def test_every_numbered_thing_is_listed_with_its_name_and_its_test() -> None:
    rows = listed((ROOT / "docs/from-the-paper.md").read_text())
    found = [(kind, number) for kind, number, _, _ in rows]
    assert len(found) == len(set(found))
    assert set(found) == {(kind, number) for kind in LISTED for number in PAPER[kind]}
    assert [test for *_, test in rows if not (ROOT / test.strip("`")).is_file()] == []
    assert all("`" in here or here.startswith("left out") for _, _, here, _ in rows)


def test_a_name_in_the_list_is_in_the_sources() -> None:
    """Every name in back quotes, up to its first bracket or dot, occurs somewhere in src."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    rows = listed((ROOT / "docs/from-the-paper.md").read_text())
    names = {name for _, _, here, _ in rows for name in re.findall(r"`\.?(\w+)[`.(]", here)}
    assert len(names) > 40
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", source)] == []


def test_a_row_that_is_missing_is_seen() -> None:
    text = "## Every numbered thing\n| Table 1 | airfoil | `x` | `tests/test_paper.py` |\n## Next"
    assert listed(text) == [("Table", "1", "`x`", "`tests/test_paper.py`")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see Section 9.9.", ["Section 9.9"]),
        ("Lim, Wan & Simsekli (2022), Sections 2 and 3.3.", ["Section 3.3"]),
        ("(Lim, Wan & Simsekli 2022, Section\n    5.4)", ["Section 5.4"]),
        ("by equation (99)", ["Equation 99"]),
        ("equations (14), (15) and (40)", ["Equation 40"]),
        ("Theorem 3's coefficient", ["Theorem 3"]),
        ("Tables 1, 4 and 7, airfoil", ["Table 7"]),
        ("as Figure 4 shows", ["Figure 4"]),
        ("Appendix G, and Appendices B.1.1 and B.4", ["Appendix G", "Appendix B.4"]),
        ("section 9 and table a", ["Section 9"]),
        ("He et al. (2016), Section 9; Theorem 5", ["Theorem 5"]),
        ("Nolan (1997) has it. Remark 2.1 does not", ["Remark 2.1"]),
    ],
)
def test_a_place_that_is_not_there_is_found(text: str, expected: list[str]) -> None:
    assert wrong(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Lim, Wan & Simsekli (2022), Sections 2, 3 and 5.1.",
        "Theorem 4.2, equations (14) and (15); Appendix B.2.1",
        "Zolotarev (1986), One-dimensional Stable Distributions, Theorem 2.2.3;\nNolan (1997), "
        "Stochastic Models 13, Theorem 1.",
        "He et al. (2016), Section 9.9; Lim, Wan & Simsekli (2022), Section 5.3.",
        "to the symmetric equation 0.038",
        "a section of the report, a table of 12 rows, Theorem 4.3, 36 cases",
    ],
)
def test_the_paper_and_other_works_are_told_apart(text: str) -> None:
    assert wrong(text) == []
