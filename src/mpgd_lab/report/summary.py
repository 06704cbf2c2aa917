"""The summary: verdicts counted for each claim of the paper, and the same in words.

What is counted are comparisons, one for each row of a table: MPGD may be better in one and worse in
the next, and the paper prints both.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from mpgd_lab.content.blocks import WORDS, Basis, Claim, Finding, Section, Tally, Word

PROVISIONAL: Final[Word] = "provisional"
OURS: Final = "MPGD"  # names the claims that it is better; others are of sums and equations
NOTHING: Final = "These runs do not answer it: no claim that MPGD is better has been tested."
TESTED: Final = " tested as the paper states them"
SENTENCES: Final[dict[Basis, str]] = {
    "stated": "Of",
    "scripts": "As the authors' scripts ran, of",
    "corrected": "With an error of the text put right, of",
}


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
        (Tally(setting='as printed', counts=(('supported', 2),), basis='elsewhere'),)
    """
    bases = {one.setting: one.basis for one in findings}
    return tuple(
        Tally(setting, _counts(findings, setting), basis)
        for setting, basis in sorted(bases.items(), key=lambda item: item[1] != "stated")
    )


def _counts(findings: Sequence[Finding], setting: str) -> tuple[tuple[str, int], ...]:
    counted = Counter(one.word for one in findings if one.setting == setting)
    return tuple((word, counted[word]) for word in WORDS if counted[word])


def conclusions(found: Sequence[Claim], more: str = "") -> tuple[str, ...]:
    """Return a sentence for each claim, and one over all with ``more`` at its end."""
    if not found:
        return ("No claim has been tested yet.",)
    return (
        " ".join(filter(None, (_overall(found), more))),
        *(f"{claim.text}. {spoken(claim)}." for claim in found),
    )


def answer(found: Sequence[Claim]) -> str:
    """Return a sentence that answers whether chaos helps: by what the paper says of MPGD.

    Counted are comparisons as the text says, or with its errors put right; as the authors' scripts
    ran only where there are no others.

    Examples:
        >>> answer([])
        'These runs do not answer it: no claim that MPGD is better has been tested.'
    """
    counts = _claimed(found)
    total, yes, few = counts.total(), counts["supported"], counts[PROVISIONAL]
    if not total:
        return NOTHING
    of = f"of {total:,} comparison{'s' * (total > 1)} in which the paper says that MPGD is better"
    of += _twice(found)
    if 2 * few > total:
        return f"It is too early to say: {of}, {few:,} rest on few seeds."
    if counts["undecided"] + few == total:
        rest = f", and {few:,} rest{'s' * (few == 1)} on few seeds" if few else ""
        return f"These runs do not tell: {of}, {total - few:,} undecided{rest}."
    none = "No" if 2 * counts["contradicted"] > total else "Not that we could see"
    word = "Yes" if yes == total else "Mostly" if 2 * yes > total else "Hardly" if yes else none
    parts = ", ".join(f"{counts[word]:,} {word}" for word in WORDS if counts[word])
    held = f"{yes or 'none'} hold{'s' * (yes == 1)} in these runs ({parts})"
    return f"{word}: {of}, {held}{_scripted(found)}."


def _twice(found: Sequence[Claim]) -> str:
    """Return that a comparison is counted under two protocols, where it is."""
    claimed = [claim for claim in found if OURS in claim.text]
    letter, put_right = (_compared(claimed, basis).total() for basis in ("stated", "corrected"))
    return ", each to the letter and with corrected signs" if letter == put_right else ""


def _scripted(found: Sequence[Claim]) -> str:
    """Return how many hold as the authors' scripts ran, where others were counted."""
    claimed = [claim for claim in found if OURS in claim.text]
    ran = _compared(claimed, "scripts")
    others = _compared(claimed, "stated") + _compared(claimed, "corrected")
    held = f"{ran['supported'] or 'none'} of {ran.total():,}"
    return f"; as the authors' scripts ran, {held}" if ran and others else ""


def counted_apart(found: Sequence[Claim]) -> str:
    """Return why the answer counts other comparisons than there are of the paper's text, if so."""
    claimed = [claim for claim in found if OURS in claim.text]
    letter, put_right = (_compared(claimed, basis) for basis in ("stated", "corrected"))
    answered = (letter + put_right).total()
    if not answered or (answered == verdicts(found, "stated").total() and not put_right):
        return ""
    return (
        f"The sentence at the top counts {answered:,}: those in which the paper says that MPGD is "
        "better, to the letter and with corrected signs. Counted here is every claim of the paper, "
        "whether it is on MPGD or not, to the letter only."
    )


def is_compared(found: Sequence[Claim]) -> bool:
    """Return whether there are comparisons in which the paper says that MPGD is better."""
    return bool(_claimed(found).total())


def _claimed(found: Iterable[Claim]) -> Counter[str]:
    claimed = [claim for claim in found if OURS in claim.text]
    said = _compared(claimed, "stated") + _compared(claimed, "corrected")
    return said or _compared(claimed, "scripts")


def _compared(found: Iterable[Claim], basis: Basis) -> Counter[str]:
    every: Counter[str] = Counter()
    for tally in (tally for claim in found for tally in claim.tallies if tally.basis == basis):
        every.update(dict(tally.counts))
    return every


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
    said = []
    for basis, begin in SENTENCES.items():
        if counts := verdicts(found, basis):
            parts = [f"{count} {word}" for word, count in counts.items()]
            of = f"{begin} {counts.total():,} comparison{'s' if counts.total() > 1 else ''}"
            said.append(f"{of}{TESTED if basis == 'stated' else ''}: {', '.join(parts)}.")
    if any("mixed" in verdicts(found, basis) for basis in SENTENCES):
        said.append("Mixed: the two tests of one comparison disagree.")
    if others := sum({t.basis for t in claim.tallies}.isdisjoint(SENTENCES) for claim in found):
        said.append(
            f"{others} more claims were tested on what is not in the paper (other data, a reduced "
            "study), and are not counted."
        )
    if any(_is_mixed_with_others(claim) for claim in found):
        said.append(
            "Nor are settings that the printed numbers are not of: random splits, ECG5000 with one "
            "hidden layer."
        )
    return " ".join(said)


def _is_mixed_with_others(claim: Claim) -> bool:
    """Return whether some settings of a claim are counted and some are not."""
    return len({tally.basis in SENTENCES for tally in claim.tallies}) == 2


def verdicts(found: Iterable[Claim], basis: Basis) -> Counter[str]:
    """Return how many comparisons have each verdict on a basis."""
    every = _compared(found, basis)
    return Counter({word: every[word] for word in WORDS if every[word]})
