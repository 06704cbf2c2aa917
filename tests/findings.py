"""Findings of the home page against the rows of docs/results/ they rest on.

A finding names its rows by links whose title holds parts of the row, separated by semicolons:

    0.41 [0.15, 0.92] higher [row](docs/results/airfoil.md "plain 0.6; as the text says")

A row is a line of a table of that page that holds all parts. Every number of the finding must be a
number of one of its rows, rounded to as many digits, and every verdict a verdict of one of them.
Signs are not compared, since a text says "higher" where a table has a plus, nor are numbers of
theorems and tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape

ROW = re.compile(r'\[([^\]]*)\]\((?:docs/)?results/([\w-]+)\.md(?:#[\w-]+)? "([^"]+)"\)')
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\]\([^)]*\)")
NAMED = re.compile(r"(?:Theorem|Table|Figure|Section|Appendix) [\dA-F.]+\d|[A-Z]+[\w-]*\d+\w*")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
VERDICT = re.compile(r"\b(?:supported|contradicted|mixed|undecided)\b")


def findings(page: str) -> list[str]:
    """Return what a page says was found: a paragraph by sentences, a table by cells, a list."""
    first = re.search(r"\*\*What came out:\*\*(.*?)\n\n", page, re.DOTALL)
    sentences = re.split(r"(?<=[.;:]) ", " ".join(first[1].split())) if first else []
    table = page.partition("## What we found")[2].partition("\n## ")[0].splitlines()
    rows = [line for line in table if line.startswith("| ")][1:]
    cells = [cell.strip() for row in rows for cell in row.strip().strip("|").split(" | ")[1:]]
    items = [line[2:] for line in table if line.startswith("- ")]
    return [*sentences, *filter(None, cells), *items]


def numbers(text: str) -> list[str]:
    """Return the numbers of a finding, but for those in code, in links and in names."""
    plain = NAMED.sub("", LINK.sub("]", CODE.sub("", ROW.sub(r"\1", text))))
    return [found.rstrip(",").replace(",", "") for found in NUMBER.findall(plain)]


def rows(page: str, parts: str) -> list[str]:
    """Return the rows of a page that hold all parts."""
    wanted = [part.strip() for part in parts.split(";")]
    lines = unescape(re.sub(r"\\(.)", r"\1", page)).splitlines()
    return [
        line for line in lines if line.startswith("| ") and all(part in line for part in wanted)
    ]


def mistakes(finding: str, pages: Mapping[str, str]) -> list[str]:
    """Return what is wrong with a finding: rows that are not there, what is in none of them."""
    said, held = [], []
    for _, name, parts in ROW.findall(finding):
        found = rows(pages.get(name, ""), parts)
        said += [] if found else [f"no row {parts!r} in {name}.md"]
        held += found
    there = [x.replace(",", "") for row in held for x in NUMBER.findall(row)]
    missing = [x for x in numbers(finding) if not any(_equal(x, y) for y in there)]
    judged = VERDICT.findall(ROW.sub(r"\1", finding))
    missing += [word for word in judged if not any(word in row for row in held)]
    return said + [f"{x} is in no row of: {finding}" for x in missing]


def _equal(rounded: str, whole: str) -> bool:
    digits = len(rounded.partition(".")[2])
    return f"{float(whole):.{digits}f}" == f"{float(rounded):.{digits}f}"
