"""The colours of everything we draw, and which one a scheme has: in figures, report and lab.

Colours are Okabe & Ito's, and three more, told apart by colour-blind readers and in grey. A scheme
has the same one wherever it is drawn; on dark paper it is a lighter shade of it.
"""

from typing import Final

PALETTE: Final = {  # on light paper, on dark
    "blue": ("#0072B2", "#4DA6E0"),
    "red": ("#D55E00", "#F2804A"),
    "green": ("#009E73", "#2FC79C"),
    "orange": ("#E69F00", "#F0B64A"),
    "sky": ("#56B4E9", "#8FD0F5"),
    "pink": ("#CC79A7", "#E39CC3"),
    "indigo": ("#5D4A9C", "#A593E6"),
    "plum": ("#882255", "#FF7A9C"),
    "olive": ("#6B7A00", "#9DAA2B"),
    "grey": ("#7F7F7F", "#9AA2AB"),
    "pale": ("#BFD9EA", "#234A63"),
    "grid": ("#E6E6E6", "#363D45"),
}
SCHEMES: Final = {
    "mpgd": "blue",
    "symmetric": "green",  # MPGD with differences of two drivers
    "telegraph": "olive",
    "coloured": "sky",
    "gaussian": "orange",
    "langevin": "pink",
    "stable": "plum",
    "gd": "grey",
    "sgd": "indigo",
}


def of(scheme: str) -> str:
    """Return the colour of a scheme on light paper, which a figure is drawn with.

    Examples:
        >>> of("mpgd")
        '#0072B2'
    """
    return PALETTE[SCHEMES[scheme]][0]


def stylesheet() -> str:
    """Return every colour and every scheme as a variable of CSS, for light and dark pages.

    Examples:
        >>> "--gaussian: var(--orange)" in stylesheet()
        True
    """
    light, dark = (
        " ".join(f"--{name}: {shades[which]};" for name, shades in PALETTE.items())
        for which in (0, 1)
    )
    schemes = " ".join(f"--{scheme}: var(--{name});" for scheme, name in SCHEMES.items())
    return (
        f":root {{ {light} {schemes} }}\n"
        f':root[data-theme="dark"] {{ {dark} }}\n'
        "@media (prefers-color-scheme: dark) {\n"
        f'  :root:not([data-theme="light"]) {{ {dark} }}\n'
        "}\n"
    )
