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


def collect_claims(sections: Iterable[Section]) -> tuple[Claim, ...]:
    """Return every claim that was tested, in the order of the sections."""
    return tuple(
        Claim(headline, section.name, counted)
        for section in sections
        for headline, counted in by_headline(section.findings).items()
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


def conclusions(claims: Sequence[Claim], more: str = "") -> tuple[str, ...]:
    """Return a sentence for each claim, and one over all with ``more`` at its end."""
    if not claims:
        return ("No claim has been tested yet.",)
    return (
        " ".join(filter(None, (_overall(claims), more))),
        *(f"{claim.text}. {spoken(claim)}." for claim in claims),
    )


def answer(claims: Sequence[Claim]) -> str:
    """Return a sentence that answers whether chaos helps: by what the paper says of MPGD.

    Counted are comparisons as the text says, or with its errors put right; as the authors' scripts
    ran only where there are no others.

    Examples:
        >>> answer([])
        'These runs do not answer it: no claim that MPGD is better has been tested.'
    """
    counts = _answer_counts(claims)
    total, yes, few = counts.total(), counts["supported"], counts[PROVISIONAL]
    if not total:
        return NOTHING
    of = f"of {total:,} comparison{'s' * (total > 1)} in which the paper says that MPGD is better"
    of += _twice(claims)
    if 2 * few > total:
        return f"It is too early to say: {of}, {few:,} rest on few seeds."
    if counts["undecided"] + few == total:
        rest = f", and {few:,} rest{'s' * (few == 1)} on few seeds" if few else ""
        return f"These runs do not tell: {of}, {total - few:,} undecided{rest}."
    none = "No" if 2 * counts["contradicted"] > total else "Not that we could see"
    word = "Yes" if yes == total else "Mostly" if 2 * yes > total else "Hardly" if yes else none
    parts = ", ".join(f"{counts[word]:,} {word}" for word in WORDS if counts[word])
    share = f"{yes or 'none'} hold{'s' * (yes == 1)} in these runs ({parts})"
    return f"{word}: {of}, {share}{_scripted(claims)}."


def _twice(claims: Sequence[Claim]) -> str:
    """Return that a comparison is counted under two protocols, where it is."""
    letter, put_right = (_mpgd_counts(claims, basis).total() for basis in ("stated", "corrected"))
    return ", each to the letter and with corrected signs" if letter == put_right else ""


def _scripted(claims: Sequence[Claim]) -> str:
    """Return how many hold as the authors' scripts ran, where others were counted."""
    ran = _mpgd_counts(claims, "scripts")
    others = _mpgd_counts(claims, "stated") + _mpgd_counts(claims, "corrected")
    share = f"{ran['supported'] or 'none'} of {ran.total():,}"
    return f"; as the authors' scripts ran, {share}" if ran and others else ""


def counted_apart(claims: Sequence[Claim]) -> str:
    """Return why the answer counts other comparisons than there are of the paper's text, if so."""
    letter, put_right = (_mpgd_counts(claims, basis) for basis in ("stated", "corrected"))
    answered = (letter + put_right).total()
    if not answered or (answered == verdicts(claims, "stated").total() and not put_right):
        return ""
    return (
        f"The sentence at the top counts {answered:,}: those in which the paper says that MPGD is "
        "better, to the letter and with corrected signs. Counted here is every claim of the paper, "
        "whether it is on MPGD or not, to the letter only."
    )


def is_compared(claims: Sequence[Claim]) -> bool:
    """Return whether there are comparisons in which the paper says that MPGD is better."""
    return bool(_answer_counts(claims).total())


def _answer_counts(claims: Sequence[Claim]) -> Counter[str]:
    """Return the verdicts on claims that MPGD is better: on the text, else on the scripts."""
    text = _mpgd_counts(claims, "stated") + _mpgd_counts(claims, "corrected")
    return text or _mpgd_counts(claims, "scripts")


def _mpgd_counts(claims: Iterable[Claim], basis: Basis) -> Counter[str]:
    return _total([claim for claim in claims if OURS in claim.text], basis)


def _total(claims: Iterable[Claim], basis: Basis) -> Counter[str]:
    counts: Counter[str] = Counter()
    for tally in (tally for claim in claims for tally in claim.tallies if tally.basis == basis):
        counts.update(dict(tally.counts))
    return counts


def spoken(claim: Claim) -> str:
    """Return the verdicts on a claim in words."""
    text = "; ".join(f"{tally.setting}: {tally_text(tally)}" for tally in claim.tallies)
    return text[:1].upper() + text[1:]


def tally_text(tally: Tally) -> str:
    """Return the verdicts under one setting in words."""
    total = sum(count for _, count in tally.counts)
    if len(tally.counts) == 1:
        ((word, _),) = tally.counts
        return word + {1: "", 2: " in both comparisons"}.get(total, f" in all {total} comparisons")
    return ", ".join(f"{word} in {count}" for word, count in tally.counts) + f" of {total}"


def _overall(claims: Sequence[Claim]) -> str:
    sentences = []
    for basis, begin in SENTENCES.items():
        if counts := verdicts(claims, basis):
            parts = [f"{count} {word}" for word, count in counts.items()]
            of = f"{begin} {counts.total():,} comparison{'s' if counts.total() > 1 else ''}"
            sentences.append(f"{of}{TESTED if basis == 'stated' else ''}: {', '.join(parts)}.")
    if any("mixed" in verdicts(claims, basis) for basis in SENTENCES):
        sentences.append("Mixed: the two tests of one comparison disagree.")
    if others := sum({t.basis for t in claim.tallies}.isdisjoint(SENTENCES) for claim in claims):
        sentences.append(
            f"{others} more claims were tested on what is not in the paper (other data, a reduced "
            "study), and are not counted."
        )
    if any(_is_mixed_with_others(claim) for claim in claims):
        sentences.append(
            "Nor are settings that the printed numbers are not of: random splits, ECG5000 with one "
            "hidden layer."
        )
    return " ".join(sentences)


def _is_mixed_with_others(claim: Claim) -> bool:
    """Return whether some settings of a claim are counted and some are not."""
    return len({tally.basis in SENTENCES for tally in claim.tallies}) == 2


def verdicts(claims: Iterable[Claim], basis: Basis) -> Counter[str]:
    """Return how many comparisons have each verdict on a basis."""
    counts = _total(claims, basis)
    return Counter({word: counts[word] for word in WORDS if counts[word]})
