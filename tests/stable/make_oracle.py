"""Write ``oracle.json``: P(X > y) and f(y) by inverting the characteristic function.

With phi(t) = exp(-t^alpha (1 - i beta tan(pi alpha/2))) for t > 0, the inversion integrals are
turned to the ray t = r e^(i psi), on which both phi(t) and e^(-ity) decay, and r = e^v is summed in
equal steps:

    f(y)     = 1/pi Re int e^(-ity) phi(t) dt
    P(X > y) = 1/2 + psi/pi + 1/pi int Im(e^(-ity) phi(t)) dv

The step follows from the width of the sector, so that the error is below 1e-36 for values up to 1.
Nothing here is shared with ``mpgd``: neither Zolotarev's integral nor its variables.

Each row is (alpha, beta, y, P(X > y), f(y)), y >= 0; the other side is the reflection (-y, -beta).
Run from the repository root:

    python tests/stable/make_oracle.py

``random_points.csv`` and ``nolan_cells.csv`` beside it have such rows too; `benchmarks.stable`
writes them, by its parts ``oracle`` and ``nolan``.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import mpmath as mp
import numpy as np

ALPHAS = [1.01, 1.02, 1.035, 1.05, 1.1, 1.25, 1.5, 5 / 3, 1.9, 1.999, 2.0]
BETAS = [-1.0, -0.5, 0.0, 0.5, 1.0]
POINTS = [0.0, 1e-12, 1e-3, 0.1, 0.7, 1.0, 2.0, 3.5, 6.0, 12.0, 14.0, 20.0, 50.0]
POINTS += [1e3, 1e6, 1e10, 1e14]
NEAR = [-5.0, -1.0, 0.0, 1.0, 3.0, 10.0]  # of the mode, which lies far out as alpha tends to 1
FAR = 1.04  # up to this alpha
BAND = 0.02  # about alpha = 1, where the sector of S1 is thin and that of S0 is not
THIN = [0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0]  # parts of the way to 1e-15 on a thin tail
SMALLEST = 1e-16
DIGITS = 36
TABLE = Path(__file__).with_name("oracle.json")


def tail_and_density(alpha: float, beta: float, y: float) -> tuple[float, float]:
    """Return P(X > y) and f(y) of the standard law (S1) at y >= 0."""
    with mp.workdps(DIGITS + 14):
        if abs(alpha - 1) < BAND and y < _skew(alpha, beta):  # left of 0 in S0
            tail, density = _inverted(alpha, -beta, -mp.mpf(y))
            return float(1 - tail), float(density)
        tail, density = _inverted(alpha, beta, mp.mpf(y))
        return float(tail), float(density)


def _skew(alpha: float, beta: float) -> mp.mpf:
    """Return beta tan(pi alpha/2), by which S1 is to the right of S0."""
    return beta * mp.tan(mp.pi * mp.mpf(alpha) / 2) if alpha not in (1, 2) else mp.mpf(0)


def _inverted(alpha: float, beta: float, y: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    a, skew = mp.mpf(alpha), _skew(alpha, beta)
    near, x = abs(alpha - 1) < BAND, y - skew
    centre, half_width = mp.atan(skew) / a, mp.pi / (2 * a)
    low = max(centre - half_width, -mp.pi)
    high = min(centre + half_width, mp.mpf(0) if y else mp.pi)
    if near:  # t log t may grow along a ray: either x t is far ahead of it, or the sector is thin
        low, high = (-mp.pi / 2, mp.mpf(0)) if x >= 5 else (-mp.mpf("0.08"), mp.mpf("0.08"))
    turn = 2j * mp.mpf(beta) / mp.pi if alpha == 1 else mp.mpf(0)
    psi, cut = (low + high) / 2, DIGITS * mp.log(10)
    h = mp.pi * (high - low) / cut
    ray = mp.exp(1j * psi)
    wave, decay = 1j * ray * y, (1 - 1j * skew) * ray**a
    v = -cut / min(a, 1) - mp.log(max(x if near else y, 1))
    r, ra, tail, density = mp.exp(v), mp.exp(a * v), mp.mpf(0), mp.mpf(0)
    step, step_a = mp.exp(h), mp.exp(a * h)
    while True:
        exponent = wave * r + decay * ra
        if turn:
            exponent += turn * r * ray * (mp.log(r) + 1j * psi)
        if exponent.real > 1.3 * cut:
            break
        value = mp.exp(-exponent)
        tail += value.imag
        density += r * (ray * value).real
        r, ra = r * step, ra * step_a
    return mp.mpf(0.5) + (psi + h * tail) / mp.pi, h * density / mp.pi


def decided(wanted: Iterable[tuple[float, float, float]], path: Path) -> Iterator[list[float]]:
    """Yield (alpha, beta, y, tail, density) of each wanted point, y of either sign.

    The tail is the side of 0 on which y lies. Rows are kept in the file, so a second run goes on.
    """
    lines = path.read_text().splitlines()[1:] if path.exists() else []
    known = {tuple(row[:3]): row for row in ([float(c) for c in line.split(",")] for line in lines)}
    with path.open("a") as file:
        if not lines:
            file.write("alpha,beta,y,tail,density\n")
        for alpha, beta, y in wanted:
            if (alpha, beta, y) not in known:
                values = tail_and_density(alpha, beta if y >= 0 else -beta, abs(y))
                known[alpha, beta, y] = [alpha, beta, y, *values]
                file.write(",".join(map(repr, known[alpha, beta, y])) + "\n")
                file.flush()
            yield known[alpha, beta, y]


def random_points() -> list[tuple[float, float, float]]:
    """Return 500 (alpha, beta, y), a fifth of them with |beta| = 1, and 100 far in the tail."""
    rng, found = np.random.default_rng(0), []
    for _ in range(500):
        alpha = rng.uniform(0.1, 2.0)
        beta = float(rng.choice([rng.uniform(-1.0, 1.0), 1.0, -1.0], p=[0.8, 0.1, 0.1]))
        found.append((alpha, beta, 10.0 ** rng.uniform(-3.0, 3.0 / min(alpha, 1.0))))
    for _ in range(100):
        alpha, beta = rng.uniform(0.1, 2.0), rng.uniform(-1.0, 1.0)
        found.append((alpha, beta, 10.0 ** (rng.uniform(3.0, 14.0) / alpha)))
    return found


def points(alpha: float, beta: float) -> list[float]:
    """Return the y of one law, with its mode and the thin tail followed down to 1e-15."""
    mode = beta * float(mp.tan(mp.pi * alpha / 2))
    near = [round(mode + step, 6) for step in NEAR] if alpha < FAR and mode > max(NEAR) else []
    if alpha < 2 and beta > -1:
        return sorted({*POINTS, *near})
    cosine = abs(mp.cos(mp.pi * alpha / 2))
    floor = (cosine / alpha) ** (1 / (alpha - 1)) * (alpha - 1) / alpha
    last = float((34.5 / floor) ** ((alpha - 1) / alpha))
    found = {y for y in (*POINTS, *near) if y < last} | {round(last * part, 6) for part in THIN}
    return sorted(found)


def main() -> None:
    """Compute every row and write the table."""
    rows = [
        (alpha, beta, y, *tail_and_density(alpha, beta, y))
        for alpha in ALPHAS
        for beta in BETAS
        for y in points(alpha, beta)
    ]
    kept = [row for row in rows if row[3] > SMALLEST]
    TABLE.write_text("[\n" + ",\n".join(json.dumps(row) for row in kept) + "\n]\n")


if __name__ == "__main__":
    main()
