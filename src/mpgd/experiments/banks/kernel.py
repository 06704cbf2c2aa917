"""The bank's passes over memory, compiled by numba; import it only where numba is installed."""

from typing import Any

from mpgd.noise.engines.compiled import jitted
from mpgd.noise.engines.fused import Floats, Words, advance_values, step_key


@jitted
def advance_tensors(
    words: Words,
    values: Floats,
    sizes: Any,
    keys: Any,
    step: Any,
    table: Any,
    threshold: Any,
    product: Any,
    largest: Any,
    c0: float,
    c1: float,
) -> None:
    """Write the values of all tensors of all runs and advance them one step, in place.

    Tensors lie one after the other, again and again of the same ``sizes``; each has its own key.
    """
    first = 0
    for k in range(len(keys)):
        last = first + sizes[k % len(sizes)]
        part, key = slice(first, last), step_key(keys[k], step)
        rule = (threshold, product, largest)
        advance_values(words[part], values[part], 0, key, table, *rule, c0, c1)
        first = last


@jitted
def write_terms(
    out: Floats, v: Floats, twin: Floats, places: Any, strengths: Floats, symmetric: Any
) -> None:
    """Write `update.term` of every row: strength times v, or times v - twin where ``symmetric``.

    ``out`` is (row, element), ``v`` and ``twin`` (seed, element); ``places`` has each row's seed.
    """
    for row in range(len(out)):
        place, strength = places[row], strengths[row]
        for i in range(out.shape[1]):
            scaled = v[place, i] * strength
            out[row, i] = scaled - twin[place, i] * strength if symmetric[row] else scaled
