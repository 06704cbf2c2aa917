"""What a visit to Z should be worth without bursts: the phase's own value, or 0.

Walkers on two wells, the sharp one lower: 1,500 steps with noise and 500 without. Printed is the
share that ends in the lower well, for twelve forces. All three noises come from the same orbits.

    python -m benchmarks.bursts
"""

from __future__ import annotations

import numpy as np

from mpgd import ChaoticNoise

LR, STEPS, REST, WALKERS = 0.02, 1500, 500, 3000
SHARP, WIDE = 0.5, 1.5  # half widths
FORCES = np.geomspace(0.4, 8.0, 12)


def gradient(z: np.ndarray) -> np.ndarray:
    """Return the slope of the wells of the comparison: amplitude 1.2 at -0.5 and 1 at 1.5."""
    sharp = 1.2 * np.pi / SHARP / 2 * np.sin(np.pi * (z + SHARP) / SHARP)
    wide = np.pi / WIDE / 2 * np.sin(np.pi * (z - WIDE) / WIDE)
    inside = np.where(z < 0, sharp, wide)
    return np.where(z < -SHARP, 24 * (z + SHARP), np.where(z > WIDE, 6 * (z - WIDE), inside))


def main() -> None:
    """Print success in per cent at each force, and at the best one."""
    noise = ChaoticNoise(0.6)
    v = noise.path(STEPS, WALKERS, seed=3).numpy() / noise.laminar_value
    is_visit = np.abs(v) > 1.5  # a burst is three times as large
    pushes = {
        "bursts": v,
        "the phase's own value": np.where(is_visit, -np.sign(v), v),
        "0": np.where(is_visit, 0.0, v),
    }
    start = np.random.default_rng(0).uniform(-1.0, 3.0, WALKERS)
    for name, push in pushes.items():
        x = np.tile(start, (len(FORCES), 1))
        for k in range(STEPS):
            x += LR * (FORCES[:, None] * push[k] - gradient(x))
        for _ in range(REST):
            x -= LR * gradient(x)
        success = 100 * (np.abs(x + SHARP) < 0.05).mean(axis=1)
        print(f"{name}: best {success.max():.1f} %; {', '.join(f'{each:.0f}' for each in success)}")


if __name__ == "__main__":
    main()
