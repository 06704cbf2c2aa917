"""Findings of the README and the index page against the rows of docs/results.md they rest on.

A finding names its rows by links whose title holds parts of the row, separated by semicolons:

    0.41 [0.15, 0.92] higher [row](docs/results.md#airfoil-self-noise "plain 0.6; as the text says")

A row is a line of a table in that section of docs/results.md that holds all parts. Every number of
the finding must be a number of one of its rows, rounded to as many digits. Signs are not compared,
since a text says "higher" where a table has a plus, nor are numbers of theorems and tables.
"""

from __future__ import annotations

import re
from html import unescape

ROW = re.compile(r'\[[^\]]*\]\((?:docs/)?results\.md#([\w-]+) "([^"]+)"\)')
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\]\([^)]*\)")
NAMED = re.compile(r"(?:Theorem|Table|Figure|Section|Appendix) [\dA-F.]+\d|[A-Z]+[\w-]*\d+\w*")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def findings(page: str) -> list[str]:
    """Return what a page says was found: a paragraph by sentences, a table by cells."""
    first = re.search(r"\*\*What came out:\*\*(.*?)\n\n", page, re.DOTALL)
    sentences = re.split(r"(?<=[.;:]) ", " ".join(first[1].split())) if first else []
    table = page.partition("## What we found")[2].partition("\n## ")[0].splitlines()
    rows = [line for line in table if line.startswith("| ")][1:]
    cells = [cell.strip() for row in rows for cell in row.strip("| ").split(" | ")[1:-1]]
    return [*sentences, *filter(None, cells)]


def numbers(text: str) -> list[str]:
    """Return the numbers of a finding, but for those in code, in links and in names."""
    plain = NAMED.sub("", LINK.sub("]", CODE.sub("", ROW.sub("", text))))
    return [found.rstrip(",").replace(",", "") for found in NUMBER.findall(plain)]


def rows(results: str, anchor: str, parts: str) -> list[str]:
    """Return the rows of a section that hold all parts."""
    wanted = [part.strip() for part in parts.split(";")]
    return [line for line in _section(results, anchor) if all(part in line for part in wanted)]


def _section(results: str, anchor: str) -> list[str]:
    for part in results.split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        slug = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        if slug == anchor:
            plain = unescape(re.sub(r"\\(.)", r"\1", body))
            return [line for line in plain.splitlines() if line.startswith("| ")]
    return []


def mistakes(finding: str, results: str) -> list[str]:
    """Return what is wrong with a finding: rows that are not there, numbers that are in none."""
    said, held = [], []
    for anchor, parts in ROW.findall(finding):
        found = rows(results, anchor, parts)
        said += [] if found else [f"no row {parts!r} in #{anchor}"]
        held += [x.replace(",", "") for row in found for x in NUMBER.findall(row)]
    missing = [x for x in numbers(finding) if not any(_equal(x, y) for y in held)]
    return said + [f"{x} is in no row of: {finding}" for x in missing]


def _equal(rounded: str, whole: str) -> bool:
    digits = len(rounded.partition(".")[2])
    return f"{float(whole):.{digits}f}" == f"{float(rounded):.{digits}f}"
