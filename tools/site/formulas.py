r"""Formulas as the source writes them, ``x' = x - eta grad(x)``, become LaTeX and then MathML.

Docstrings are read in a terminal, and pages in an editor, so their formulas are plain text.
Browsers show MathML by themselves: the site needs no script, no network and no second notation.

    mu eta^gamma v1 x   ->   \mu \eta^{\gamma} v_{1} x   ->   <math>...</math>

`latex` reads a formula by the grammar below, and raises `FormulaError` at a word it does not know.

    formula   terms and operators, side by side
    term      atom, then any of  _ atom,  ^ atom,  ',  *
    fraction  term / term, where fractions are asked for and outside brackets
    atom      number, name, name(formula), (formula), [formula], |formula|
"""

from __future__ import annotations

import re
from functools import cache

from latex2mathml.converter import convert

GREEK = (
    "alpha beta gamma delta epsilon eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi "
    "Gamma Delta Lambda Sigma Phi Psi"
).split()
FUNCTIONS = (
    "log exp cos sin tan arctan max min sup inf lim tr diag sign det expm binom Hess abs mod lr "
    "steps exponent increments norm trace third cross"
).split()
NAMES = {
    **{name: f"\\{name}" for name in GREEK},
    **{name: f"\\mathrm{{{name}}}" for name in FUNCTIONS},
    "eps": r"\varepsilon",
    "grad": r"\nabla",
    "sum": r"\sum",
    "prod": r"\prod",
    "int": r"\int",
    "integral": r"\int",
    "xbar": r"\overline{x}",
    "Rhat": r"\hat{R}",
    "oo": r"\infty",
    "sqrt": r"\sqrt",
    "o": r"\circ",
}
SIGNS = {
    "<=": r"\le",
    ">=": r"\ge",
    "->": r"\to",
    "<-": r"\leftarrow",
    "<>": r"\diamond",
    "+-": r"\pm",
    "...": r"\dots",
    "~": r"\sim",
    "{": r"\{",
    "}": r"\}",
    "%": r"\%",
    "×": r"\times",
}
BETWEEN = (*SIGNS.values(), *"=<>+-/,;:.")
OPEN, CLOSE = "([{", ")]}"
TOKEN = re.compile(
    r"""\s*(?P<number>\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)
      | \s*(?P<name>[A-Za-z]+\d*)
      | \s*(?P<sign><=|>=|->|<-(?=\s)|<>|\+-|\.\.\.|[=<>+\-/^_|()\[\]{},;:.'~%×]|\*)""",
    re.VERBOSE,
)
PRIMED = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")  # it is raised as it is


class FormulaError(ValueError):
    """A text that is not a formula."""


def tokens(text: str) -> list[str]:
    """Return the tokens of a formula; ``''`` stands for a space."""
    found, place, text = [], 0, text.rstrip().replace("²", "^2")
    text = re.sub(r"(?<=\d) x (?=\d)|(?<=^\w) x (?=\w$)", " × ", text)
    while place < len(text):
        match = TOKEN.match(text, place)
        if not match:
            raise FormulaError(text)
        if match[0][0].isspace() and found:
            found.append("")
        found.append(match[match.lastgroup or 0])
        place = match.end()
    return found


def known(name: str) -> bool:
    """Return whether a word is a name in formulas: a letter, a Greek one, a function, v1, dL."""
    stem = name.rstrip("0123456789")
    return stem in NAMES or len(stem) == 1 or (stem[0] == "d" and len(stem) == 2)


class Reader:
    """A formula that is being read, from left to right."""

    def __init__(self, text: str, fractions: bool, words: bool) -> None:
        self.tokens, self.place = tokens(text), 0
        self.fractions, self.words = fractions, words
        self.depth = 0

    def peek(self, skip: bool = False) -> str | None:
        """Return the next token; ``skip`` passes over a space."""
        place = self.place
        if skip and place < len(self.tokens) and self.tokens[place] == "":
            place += 1
        return self.tokens[place] if place < len(self.tokens) else None

    def take(self) -> str:
        """Return the next token that is no space, and pass over it."""
        if self.peek() == "":
            self.place += 1
        if self.peek() is None:
            raise FormulaError("it ends too early")
        self.place += 1
        return self.tokens[self.place - 1]

    def formula(self, until: str = "") -> str:
        """Read terms and signs up to one of the closing signs, or to the end."""
        parts: list[str] = []
        while (token := self.peek(skip=True)) is not None and token not in until:
            if token in SIGNS or token in "=<>+-,;:.*":
                parts.append(SIGNS.get(self.take(), token.replace("*", r"\cdot")))
            elif token == "/":
                self.take()
                parts.append("/")
            else:
                apart = self.peek() == "" and parts and parts[-1] not in BETWEEN
                parts.append("\\;" * bool(apart and wide(parts[-1], token)) + self.fraction())
        return " ".join(parts)

    def fraction(self) -> str:
        """Read a term, and what it is divided by."""
        above = self.term()
        while self.fractions and self.depth == 0 and self.peek(skip=True) == "/":
            self.take()
            above = f"\\frac{{{bare(above)}}}{{{bare(self.term())}}}"
        return above

    def term(self) -> str:
        """Read an atom with its indices and powers."""
        text, seen = self.atom(), ""
        while (token := self.peek()) in ("_", "^", "'", "*"):
            if token == "*" and not self.is_star():
                break
            self.take()
            if token in "_^" and token in seen:
                raise FormulaError("two indices")
            seen += token
            if token == "_" and text[-1] == "}" and text.rpartition("_{")[2][:-1].isdigit():
                text = f"{text[:-1]},{self.script(token)}}}"  # v1_k has one index of two parts
            elif token in ("_", "^"):
                text += token + "{" + self.script(token) + "}"
            else:
                text += "'" if token == "'" else "^{*}"
            if self.peek() in ("(", "["):
                text += self.atom()
        return text

    def is_star(self) -> bool:
        """Return whether a star is a mark, as in y*, rather than a product."""
        after = self.tokens[self.place + 1 : self.place + 2]
        return not after or not after[0][:1].isalnum()

    def script(self, before: str) -> str:
        """Read an index or a power; a minus may stand before it."""
        sign = self.take() if self.peek() in ("-", "+") else ""
        token = self.peek()
        if token == "T":
            return self.take() and r"\top"
        if token and token.isalpha() and not known(token):  # P_kj, steps^exponent
            if before == "_" and len(token) > 2:  # a name of Python, as y_star
                raise FormulaError(f"{token!r} is no index")
            self.take()
            return " ".join(token) if len(token) == 2 else f"\\mathrm{{{token}}}"
        return sign + bare(self.atom(apply=False))

    def atom(self, apply: bool = True) -> str:
        """Read a number, a name, a name with its argument, or something in brackets."""
        token = self.take()
        if token[0].isdigit():
            return token.replace(",", "{,}")
        if token in OPEN or token == "|":
            return self.bracket(token)
        if not token[0].isalpha():
            raise FormulaError(f"no term begins with {token!r}")
        if token == "sqrt" and self.peek() == "(":
            return f"\\sqrt{{{bare(self.atom())}}}"
        text = self.name(token)
        if token == "grad" and self.peek() == "(":
            text = r"\mathrm{grad}"
        elif token == "grad" and (self.peek(skip=True) or "_")[0].isalpha():
            text += " " + self.term()  # grad R(x) is one thing, also over a fraction bar
        while apply and self.peek() in ("(", "["):
            text += self.atom(apply=False)
        return text

    def bracket(self, token: str) -> str:
        """Read what stands in brackets, which need not be of one kind: (0, 1]."""
        self.depth += 1
        inside = self.formula(until="|" if token == "|" else CLOSE)
        self.depth -= 1
        return SIGNS.get(token, token) + inside + SIGNS.get(end := self.take(), end)

    def name(self, token: str) -> str:
        """Return the LaTeX of a name."""
        stem = token.rstrip("0123456789")
        index = f"_{{{token[len(stem) :]}}}" if token != stem else ""
        if stem in NAMES:
            return NAMES[stem] + index
        if len(stem) == 1:
            return stem + index
        if known(token):
            return f"d {stem[1]}" + index
        if self.words or self.peek() == "^":
            return f"\\text{{ {token} }}" if self.words else f"\\mathrm{{{token}}}"
        raise FormulaError(f"{token!r} is no name")


def wide(before: str, token: str) -> bool:
    """Return whether a space is drawn between a term and what follows: eta 0.1, log x."""
    return (
        token[0].isdigit()
        or before.removeprefix("\\;").startswith("\\mathrm")
        or token in FUNCTIONS
        or token == "grad"
    )


def bare(text: str) -> str:
    """Return a text without the brackets that hold all of it."""
    if text[:1] != "(" or text[-1:] != ")":
        return text
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def latex(text: str, fractions: bool = False, words: bool = False) -> str:
    r"""Return the LaTeX of a formula.

    Args:
        text: the formula as the source writes it.
        fractions: whether a quotient is drawn as a fraction.
        words: whether unknown words are kept as words.

    Raises:
        FormulaError: an unknown word, or brackets that do not close.

    Example:
        >>> latex("mu eta^(gamma-1) v1 x")
        '\\mu \\eta^{\\gamma - 1} v_{1} x'
    """
    reader = Reader(text, fractions, words)
    found = reader.formula()
    if reader.peek(skip=True) is not None:
        raise FormulaError(text)
    return found


@cache
def mathml(text: str, block: bool = False) -> str:
    """Return the MathML of LaTeX."""
    found = convert(text, display="block" if block else "inline")
    for sign in ("<mo>&#x0002F;", '<mo stretchy="false">&#x0007C;'):  # no space around / and |
        found = found.replace(sign, sign.replace("<mo", '<mo lspace="0" rspace="0"'))
    return PRIMED.sub(r'<mrow>\1<mo lspace="0" rspace="0">&#x02032;</mo></mrow>', found)
