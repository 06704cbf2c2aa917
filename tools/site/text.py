"""Find formulas in the HTML of a page: in running text, in code spans and in indented blocks.

    running text     Greek names, and what stands around a power or a relation: mu = sigma = 0
    code spans       formulas from end to end, as eps^2 and R'(x); names of arguments stay code
    indented blocks  those made of formulas and words; commands stay code

What cannot be read as a formula stays as it is. A test of the built site looks for leftovers.
"""

from __future__ import annotations

import html
import re

from tools.site.formulas import GREEK, NAMES, FormulaError, known, latex, mathml

TAG = re.compile(r"(<[^>]+>)")
BLOCK = re.compile(
    r'<div class="language-text highlight"><pre><span></span><code>([^<]*)</code></pre></div>'
)
SPAN = re.compile(r"(?<!<b>)<code>([^<]*)</code>")  # a bold one is the name of an argument
TRAILED = re.compile(r"(<math\b(?:(?!<math).)*?</math>)([.,;:)\]?!]+)", re.DOTALL)
LATEX = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
SKIPPED = ("pre", "code", "h1", "h2", "h3", "h4", "h5", "h6", "math", "script", "style", "label")
PIECE = re.compile(
    rf"""(?P<name>(?!(?:{"|".join(GREEK)})_)[a-z]{{2,}}_[a-z]{{2,}}\w*)
      | (?P<number>\d+(?:,\d{{3}})*(?:\.\d+)?(?:e[-+]?\d+)?)
      | (?P<word>[^\W\d_]+\d*) | (?P<space>[ \n]+)
      | (?P<sign><=|>=|->|<-(?=[ ])|<>|\+-|\.\.\.(?=\s[+(])|[=<>+\-/^_|()\[\]{{}}*²]|'(?!s\b))
      | (?P<other>'s\b|.)""",
    re.VERBOSE,
)
ARTICLES = ("a", "A", "I")
SYMBOL = re.compile(r"\b[vcx][0-3]\b|\b[A-Za-z]_[\w(\[]|\b[ny]\*")
QUOTIENT = re.compile(r"^(?=.*[(/])(?=.*[-+/])[\d(].*\b[A-Za-z]\b")
RELATION = re.compile(r"<=|>=|->|<-|<>|[=<>^²]")
COMMAND = re.compile(r"^\s*(mpgd|make|pip|python|torchrun|cd|git|import)\b|--[a-z]", re.MULTILINE)
# A word, x0, a number, lr=0.1, (d,), 10-20, --option, a.b, and what ends in the middle.
PYTHON = re.compile(
    r"^[A-Za-z]{2,}$|^[a-z]+\d$|^[\d. e-]+$|\w=|=\w|,\)|\d\d-|^--?\w+$|\.\w|[=,<]$|[^.]\.$"
)
SIGNS_ONLY = "phi psi eps xbar chi eta lambda xi nu v1 v2 c0 c1".split()
ENDS = "+-/=<>^_*|,'"


def rendered(page: str) -> str:
    """Return the HTML of a page with its formulas as MathML."""
    page = LATEX.sub(lambda found: mathml(html.unescape(found[3]), found[2] == "["), page)
    page = BLOCK.sub(lambda found: block(html.unescape(found[1])) or found[0], page)
    page = SPAN.sub(lambda found: span(html.unescape(found[1])) or found[0], page)
    parts, inside = [], 0
    for part in TAG.split(page):
        if part.startswith("<"):
            name = re.match(r"</?(\w*)", part)[1]  # type: ignore[index]
            if name in SKIPPED:
                inside += -1 if part[1] == "/" else 1
        elif not inside:
            part = text(html.unescape(part))
        parts.append(part)
    return TRAILED.sub(r'<span class="formula">\1\2</span>', "".join(parts))


def span(code: str) -> str | None:
    """Return the MathML of a code span, or None if it is code.

    Example:
        >>> span("sigma=0.1") is None
        True
    """
    if code in SIGNS_ONLY:  # no argument has these names
        return mathml(latex(code))
    if PYTHON.search(code) or not re.search(r"[A-Za-z]", code):
        return None
    try:
        return mathml(latex(code))
    except FormulaError:
        return None


def block(code: str) -> str | None:
    """Return the HTML of an indented block of formulas, or None if it is none."""
    if COMMAND.search(code) or not RELATION.search(code) or not is_mathematics(code):
        return None
    code = re.sub(r"(?<=[=+]) +", " ", code)
    lines = [re.split(r" {2,}", line.strip()) for line in code.splitlines() if line.strip()]
    return f'<div class="formulas">{"".join(map(line_of, lines))}</div>'


def is_mathematics(code: str) -> bool:
    """Return whether at least two words in five are names of formulas."""
    names = re.findall(r"[A-Za-z]+\d*", code)
    return bool(names) and sum(map(known, names)) >= 0.4 * len(names)


def line_of(cells: list[str]) -> str:
    """Return one line of a displayed formula; a line that goes on is indented."""
    goes_on = ' class="goes-on"' if cells[0][0] in "=*+" else ""
    return f"<p{goes_on}>{' '.join(map(cell, cells))}</p>"


def cell(code: str) -> str:
    """Return a formula, or words with formulas in them."""
    if is_mathematics(code) and re.search(r"[\W_]", code):
        try:
            return mathml(latex(code, fractions=True, words=True), block=True)
        except FormulaError:
            pass
    return f"<span>{text(code)}</span>"


def text(words: str) -> str:
    """Return running text as HTML with its formulas as MathML.

    Example:
        >>> text("no formula, but a < sign")
        'no formula, but a &lt; sign'
    """
    out, run = [], []
    pieces = [(found.lastgroup, found[0]) for found in PIECE.finditer(words + "\n\0")]
    for place, (kind, piece) in enumerate(pieces):
        around = {pieces[place - 1][1], pieces[min(place + 1, len(pieces) - 1)][1]}
        if begins_anew(piece, run):
            out, run = [*out, run_of(run)], []
        called = piece in "([" and place and pieces[place - 1][0] == "word" and not run
        if (not called and belongs(kind or "", piece, around)) or (piece == "," and is_open(run)):
            run.append(piece)
        else:
            out += [run_of(run), html.escape(piece, quote=False)]
            run = []
    return "".join(out).removesuffix("\n\0").removesuffix("\0")


def begins_anew(piece: str, run: list[str]) -> bool:
    """Return whether a piece after a number belongs to a formula of its own.

    In "plain 0.6 beta 0.5" and "eta 0.02 (sigma 0.3)" the first number is the value of what stands
    before it. Only after a sign is a number a factor: x = 2 gamma.
    """
    if len(run) < 2 or not run[-1].isspace() or not run[-2][0].isdigit():
        return False
    before = next((each for each in reversed(run[:-2]) if not each.isspace()), "a")
    return piece == "(" or (piece in GREEK and before[0].isalpha())


def is_open(run: list[str]) -> bool:
    """Return whether a bracket of a run has not been closed."""
    return sum(piece in "([{" for piece in run) > sum(piece in ")]}" for piece in run)


def belongs(kind: str, piece: str, around: set[str]) -> bool:
    """Return whether a piece of text may be part of a formula."""
    if kind in ("number", "sign"):
        return True
    if kind == "space":
        return "\n" not in piece or len(piece) == 1
    if kind != "word":
        return False
    if "^" in around and piece.isalpha():
        return True
    short = piece not in NAMES or piece in (
        *GREEK,
        "lr",
        "eps",
        "xbar",
        "Hess",
        "grad",
        "log",
        "int",
        "o",
    )
    return known(piece) and (short or bool({"(", ")", "_", "|", "["} & around))


def run_of(pieces: list[str]) -> str:
    """Return the HTML of pieces that may be a formula: what is none at their ends is left out."""
    if (place := unmatched(pieces)) is not None:
        return run_of(pieces[:place]) + pieces[place] + run_of(pieces[place + 1 :])
    first, last = 0, len(pieces)
    while first < last and loose(pieces, first, last, 1):
        first += 1
    while first < last and loose(pieces, first, last, -1):
        last -= 1
    before, code, after = (
        "".join(part) for part in (pieces[:first], pieces[first:last], pieces[last:])
    )
    found = formula(code)
    return html.escape(before, quote=False) + found + html.escape(after, quote=False)


def unmatched(pieces: list[str]) -> int | None:
    """Return the place of a bracket that has no partner."""
    opened: list[int] = []
    for place, piece in enumerate(pieces):
        if piece in "([{":
            opened.append(place)
        elif piece in ")]}":
            if not opened:
                return place
            opened.pop()
    return opened[0] if opened else None


def loose(pieces: list[str], first: int, last: int, side: int) -> bool:
    """Return whether the piece at an end of a run is not part of the formula."""
    piece = pieces[first] if side > 0 else pieces[last - 1]
    inner = "".join(pieces[first + 1 : last] if side > 0 else pieces[first : last - 1])
    if piece.isspace() or (not inner and (piece in ARTICLES or piece in ENDS)):
        return True
    if side > 0:
        return piece in "/=<>^_*)]}'" or (piece in ARTICLES and inner[:2].strip()[:1].isalnum())
    if piece in ("a", "A") and inner[-1:] == " " and inner.strip()[-1:].isalnum():
        return True
    return piece in "+-/=<>^_([{" or (piece == "'" and inner[-1:] == "s")


def formula(code: str) -> str:
    """Return the MathML of a run if it is a formula, else the text."""
    names = re.findall(r"[A-Za-z]+", code)
    plain = html.escape(code, quote=False)
    if not (names or "^" in code) or not (
        set(names) & {*GREEK, "eps"}
        or any(sign.search(code) for sign in (RELATION, SYMBOL, QUOTIENT))
    ):
        return plain
    if RELATION.search(code) and len(code) < 3:
        return plain
    try:
        return mathml(latex(code))
    except FormulaError:
        pieces = re.split(rf"\b({'|'.join(GREEK)})\b", plain)
        return "".join(mathml(latex(piece)) if piece in GREEK else piece for piece in pieces)
