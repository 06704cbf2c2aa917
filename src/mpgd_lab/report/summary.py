"""The summary: verdicts counted for each claim of the paper, and the same in words.

What is counted are comparisons, one for each row of a table: MPGD may be better in one and worse in
the next, and the paper prints both.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from mpgd_lab.content.blocks import WORDS, Basis, Claim, Finding, Section, Tally

PROVISIONAL: Final = "provisional"  # begins the words of verdicts on few seeds
OURS: Final = "MPGD"  # names the claims that it is better; others are of sums and equations
NOTHING: Final = "These runs do not answer it: no claim that MPGD is better has been tested."
LETTERS: Final[dict[Basis, str]] = {
    "stated": "to the letter",
    "corrected": "with corrected signs",
    "scripts": "as the authors' scripts ran",
    "reduced": "on a reduced CIFAR-10 with corrected signs",
}
ONE_LAYER: Final = "as the text says, one hidden layer"
TWO_LAYERS: Final = "as the text says, two hidden layers"
ONLY: Final = (
    "Counted are the comparisons in which the paper says that MPGD is better; what it says of "
    "sums, equations and coefficients is judged below."
)


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
    """Return a sentence for each claim, and first what is counted, with ``more`` at its end."""
    if not claims:
        return ("No claim has been tested yet.",)
    return (
        " ".join(filter(None, (_uncounted(claims), literal(claims), more))),
        *(f"{claim.text}. {spoken(claim)}." for claim in claims),
    )


def answer(claims: Sequence[Claim], without: str = "") -> str:
    """Return a sentence that answers whether chaos helps: by what the paper says of MPGD.

    Counted are comparisons to the letter; with corrected signs, or as the authors' scripts ran,
    they are the same comparisons again. So each stands beside it, with its own count. ``without``
    names what was not run.

    Examples:
        >>> answer([])
        'These runs do not answer it: no claim that MPGD is better has been tested.'
    """
    counted = counts_by_basis(claims)
    if not counted:
        return NOTHING
    basis, counts = next(iter(counted.items()))
    total, few = counts.total(), sum(counts[word] for word in WORDS if word.startswith(PROVISIONAL))
    of = f"of {total:,} comparison{'s' * (total > 1)} in which the paper says that MPGD is better"
    rest = "".join(f"; {LETTERS[each]}, {_held(own)}" for each, own in [*counted.items()][1:])
    rest += f"; without {without}" if without else ""
    if 2 * few > total:
        return f"It is too early to say: {LETTERS[basis]}, {of}, {few:,} rest on few seeds{rest}."
    parts = ", ".join(f"{counts[word]:,} {word}" for word in WORDS if counts[word])
    if counts["undecided"] + few == total:
        return f"These runs do not tell: {LETTERS[basis]}, {of}, {parts}{rest}."
    yes = counts["supported"]
    none = "No" if 2 * counts["contradicted"] > total else "Not that we could see"
    word = "Yes" if yes == total else "Mostly" if 2 * yes > total else "Hardly" if yes else none
    hold = f"{yes or 'none'} hold{'s' * (yes == 1)} in these runs"
    return f"{word}: {LETTERS[basis]}, {of}, {hold} ({parts}){rest}."


def _held(counts: Counter[str]) -> str:
    return f"{counts['supported'] or 'none'} of {counts.total():,}"


def counts_by_basis(claims: Sequence[Claim]) -> dict[Basis, Counter[str]]:
    """Return the verdicts on claims that MPGD is better: to the letter, then on other bases."""
    every: dict[Basis, Counter[str]] = {each: _mpgd_counts(claims, each) for each in LETTERS}
    return {basis: counts for basis, counts in every.items() if counts.total()}


def literal(claims: Sequence[Claim]) -> str:
    """Return what is counted of ECG5000, where both nets were run: the text says one layer."""
    nets = [
        (claim, {tally.setting: tally for tally in claim.tallies})
        for claim in claims
        if OURS in claim.text and any(tally.setting == ONE_LAYER for tally in claim.tallies)
    ]
    letter = _mpgd_counts(claims, "stated")
    two = sum((Counter(dict(own[TWO_LAYERS].counts)) for _, own in nets), Counter[str]())
    one = sum((Counter(dict(own[ONE_LAYER].counts)) for _, own in nets), Counter[str]())
    if not nets or two.total() != one.total():
        return ""
    shallow = letter["supported"] - two["supported"] + one["supported"]
    return (
        f"Of ECG5000 the nets with two hidden layers are counted, those of the printed numbers; "
        f"the paper's text says a shallow net. With one hidden layer {shallow or 'none'} of the "
        f"{letter.total()} would hold to the letter instead of {letter['supported']}."
    )


def is_compared(claims: Sequence[Claim]) -> bool:
    """Return whether there are comparisons in which the paper says that MPGD is better."""
    return bool(counts_by_basis(claims))


def tiles(claims: Sequence[Claim]) -> tuple[str, dict[str, int]]:
    """Return what the answer counts, in words, and how often each verdict was reached."""
    basis, counts = next(iter(counts_by_basis(claims).items()), ("stated", Counter[str]()))
    shown: dict[str, int] = {
        word: counts[word] for word in WORDS if word in WORDS[:4] or counts[word]
    }
    return LETTERS[basis], shown


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


def _uncounted(claims: Sequence[Claim]) -> str:
    """Return what the answer counts and what it leaves out, in words."""
    sentences = [ONLY]
    if any(counts["mixed"] for counts in counts_by_basis(claims).values()):
        sentences.append("Mixed: the two tests of one comparison disagree.")
    if others := sum({t.basis for t in claim.tallies}.isdisjoint(LETTERS) for claim in claims):
        many = "claims are" if others > 1 else "claim is"
        sentences.append(
            f"{others} more {many} on what the paper prints no numbers of (its remarks, other "
            "data, other rivals), and not counted."
        )
    if any(_is_mixed_with_others(claim) for claim in claims):
        sentences.append(
            "Nor are settings that the printed numbers are not of: random splits, ECG5000 with one "
            "hidden layer."
        )
    return " ".join(sentences)


def _is_mixed_with_others(claim: Claim) -> bool:
    """Return whether some settings of a claim are counted and some are not."""
    return len({tally.basis in LETTERS for tally in claim.tallies}) == 2
