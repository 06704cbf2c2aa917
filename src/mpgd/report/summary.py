"""The summary: verdicts counted for each claim of the paper, and the same in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mpgd.report.content import WORDS, Claim, Finding, Section, Tally


def claims(sections: Iterable[Section]) -> tuple[Claim, ...]:
    """Return every claim that was tested, in the order of the sections."""
    return tuple(
        Claim(headline, section.name, found)
        for section in sections
        for headline, found in by_headline(section.findings).items()
    )


def by_headline(findings: Sequence[Finding]) -> dict[str, tuple[Tally, ...]]:
    """Return the counted verdicts on each claim."""
    headlines = dict.fromkeys(one.headline for one in findings)
    return {each: tallies([one for one in findings if one.headline == each]) for each in headlines}


def tallies(findings: Sequence[Finding]) -> tuple[Tally, ...]:
    """Return the verdicts under each setting, counted, the paper's own setting first.

    Examples:
        >>> one = Finding("", "as printed", "", "supported", "")
        >>> tallies([one, one])
        (Tally(setting='as printed', counts=(('supported', 2),), as_stated=False),)
    """
    stated = {one.setting: one.as_stated for one in findings}
    return tuple(
        Tally(setting, _counts(one.word for one in findings if one.setting == setting), own)
        for setting, own in sorted(stated.items(), key=lambda item: not item[1])
    )


def _counts(words: Iterable[str]) -> tuple[tuple[str, int], ...]:
    counted = Counter(words)
    return tuple((word, counted[word]) for word in WORDS if counted[word])


def conclusions(found: Sequence[Claim]) -> tuple[str, ...]:
    """Return a sentence for each claim, and one over all."""
    if not found:
        return ("No claim has been tested yet.",)
    return (_overall(found), *(f"{claim.text}. {spoken(claim)}." for claim in found))


def spoken(claim: Claim) -> str:
    """Return the verdicts on a claim in words."""
    said = "; ".join(f"{tally.setting}: {tally_text(tally)}" for tally in claim.tallies)
    return said[:1].upper() + said[1:]


def tally_text(tally: Tally) -> str:
    """Return the verdicts under one setting in words."""
    total = sum(count for _, count in tally.counts)
    if len(tally.counts) == 1:
        ((word, _),) = tally.counts
        return word + {1: "", 2: " in both comparisons"}.get(total, f" in all {total} comparisons")
    return ", ".join(f"{word} in {count}" for word, count in tally.counts) + f" of {total}"


def _overall(found: Sequence[Claim]) -> str:
    alike = Counter(verdict for claim in found if (verdict := _verdict(claim)))
    parts = [f"{alike[word]} {word}" for word in WORDS if alike[word]]
    if alike["mixed"]:
        parts.append(f"{alike['mixed']} mixed, one way in some comparisons and another in others")
    return f"Of {alike.total()} claims tested as the paper states them: {', '.join(parts)}."


def _verdict(claim: Claim) -> str | None:
    """Return the one verdict all comparisons as stated agree on; None if there is none."""
    words = {word for tally in claim.tallies if tally.as_stated for word, _ in tally.counts}
    return words.pop() if len(words) == 1 else "mixed" if words else None
