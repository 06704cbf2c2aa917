"""Instructions that numba has no words for: sixteen words at a time, and single bits.

A visit to Z costs far more than a step of a laminar phase, and a quarter of the words are in Z. So
a block is gone through several times. Here with four lanes for sixteen, words as n.f (steps to go
and fraction), and the laminar value a, the value in Z b:

                       lane 0  lane 1  lane 2  lane 3
    words               5.3     0.7     0.2     9.1
    count_down_and_pack
      values             a       b       b       a
      words             4.3     ...     ...     8.1     everybody loses 1, in Z it means nothing
      packed            0.7     0.2                     those that were in Z, side by side
      places             1       2                      and where they stood
    draw
      inputs            U       U'                      1 - f and a dither from the hash
      packed            +       -                       new signs
    send_on
      packed           +2.4    -0.9                     signs and B(U)
    then words[places] = packed
      words             4.3    +2.4    -0.9     8.1

`draw` and `send_on` are two loops because one visit is a long chain of instructions, each waiting
for the one before: of the halves, twice as many fit into the CPU's window.

What must hold: a word's index in the hash is ``first`` plus its place; the packed words are read
before `draw` overwrites them with signs; nobody is in Z twice in one step.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
import numba.extending
from numba import types

from mpgd.maps.normal import EXCESS, INPUT_SHIFT
from mpgd.maps.rows import INPUT_BITS
from mpgd.noise.engines.vectors import (
    BIT,
    DOUBLE,
    FEW,
    FLOAT,
    INT,
    LANES,
    LONG_INT,
    LONGS,
    SHORT,
    WIDE,
    WORDS,
    Code,
    longs,
)
from mpgd.noise.word import MAGNITUDE, NEGATIVE, SALT_SHIFT

intrinsic: Any = numba.extending.intrinsic


@intrinsic
def leading_zeros(typing_context: Any, number: Any) -> Any:
    """Return how many zeros stand before the highest bit of a non-zero 64-bit number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(BIT, 1))

    return types.uint64(types.uint64), generate


@intrinsic
def trailing_zeros(typing_context: Any, number: Any) -> Any:
    """Return the position of the lowest bit of a non-zero 64-bit number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(BIT, 1))

    return types.uint64(types.uint64), generate


@intrinsic
def count_down_and_mark(
    typing_context: Any, words: Any, i: Any, out: Any, c0: Any, c1: Any, marks: Any
) -> Any:
    """Write the values of sixteen words from ``i`` on, count them down, and mark those in Z."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        _, in_Z = code.count_down(args[1], args[3], args[4])
        mask = builder.bitcast(in_Z, SHORT)
        code.store(mask, code.place(5, builder.lshr(args[1], ir.Constant(LONG_INT, 4))))
        return context.get_dummy_value()

    return types.void(words, types.int64, out, types.float64, types.float64, marks), generate


@intrinsic
def count_down_and_pack(
    typing_context: Any,
    words: Any,
    i: Any,
    out: Any,
    c0: Any,
    c1: Any,
    packed: Any,
    places: Any,
    count: Any,
) -> Any:
    """Do the same, and append those in Z to ``packed``, where ``count`` are already.

    Their places go to ``places``. Return the new count.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        i, count = args[1], args[7]
        old, in_Z = code.count_down(i, args[3], args[4])
        lanes = ir.Constant(WORDS, [ir.Constant(INT, lane) for lane in range(LANES)])
        here = builder.add(code.spread(builder.trunc(i, INT), WORDS), lanes)
        return code.append_packed(in_Z, [(old, 5), (here, 6)], count)

    arguments = (words, types.int64, out, types.float64, types.float64, packed, places)
    return types.int64(*arguments, types.int64), generate


@intrinsic
def draw(
    typing_context: Any,
    packed: Any,
    places: Any,
    k: Any,
    first: Any,
    key: Any,
    threshold: Any,
    product: Any,
    inputs: Any,
) -> Any:
    """Hash eight packed words from ``k`` on: replace them by their new sign bits, and write U."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        first, key, threshold, product = (code.spread(args[n], LONGS) for n in (3, 4, 5, 6))
        old = builder.zext(code.load(code.place(0, args[2]), FEW), LONGS)
        places = builder.zext(code.load(code.place(1, args[2]), FEW), LONGS)
        f = builder.and_(old, longs(MAGNITUDE))  # in Z the magnitude is the fraction
        h = code.hash(builder.add(places, first), key, builder.shl(f, longs(SALT_SHIFT)))
        code.store(code.input(f, h), code.place(7, args[2]))
        drawn = builder.not_(builder.sub(builder.lshr(h, longs(33)), threshold))
        drawn = builder.and_(builder.lshr(drawn, longs(32)), longs(NEGATIVE))
        chi = builder.xor(drawn, builder.and_(old, product))
        code.store(builder.trunc(chi, FEW), code.place(0, args[2]))
        return context.get_dummy_value()

    arguments = (packed, places, types.int64, types.uint64, types.uint64)
    return types.void(*arguments, types.uint64, types.uint64, inputs), generate


@intrinsic
def send_on(typing_context: Any, packed: Any, k: Any, inputs: Any, table: Any, largest: Any) -> Any:
    """Add the magnitudes after the visit, B of the inputs, to eight packed sign bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        U = code.load(code.place(2, args[1]), LONGS)
        q = code.encode(code.first_return(3, U), code.spread(args[4], LONGS))
        q = builder.trunc(q, FEW)
        chi = code.load(code.place(0, args[1]), FEW)
        code.store(builder.or_(chi, q), code.place(0, args[1]))
        return context.get_dummy_value()

    return types.void(packed, types.int64, inputs, table, types.uint64), generate


@intrinsic
def hash_eight(typing_context: Any, out: Any, i: Any, first: Any, key: Any, shift: Any) -> Any:
    """Write the hashes of eight elements from ``first + i`` on, shifted right, as 32-bit words."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        h = code.hash_from(builder.add(args[2], args[1]), args[3])
        word = builder.trunc(builder.lshr(h, code.spread(args[4], LONGS)), FEW)
        code.store(word, code.place(0, args[1]))
        return context.get_dummy_value()

    return types.void(out, types.int64, types.uint64, types.uint64, types.uint64), generate


@intrinsic
def normal_eight(
    typing_context: Any, out: Any, i: Any, first: Any, key: Any, table: Any, unit: Any
) -> Any:
    """Write eight normal numbers from place ``i`` on; see `mpgd.noise.memoryless`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        h = code.hash_from(builder.add(args[2], args[1]), args[3])
        U = builder.and_(builder.lshr(h, longs(INPUT_SHIFT)), longs(2**INPUT_BITS - 1))
        z = code.first_return(4, builder.or_(U, longs(1)))
        q = builder.lshr(builder.add(z, longs(1 << (EXCESS - 1))), longs(EXCESS))
        sign = builder.ashr(h, longs(63))  # all ones where the number is negative
        q = builder.trunc(builder.sub(builder.xor(q, sign), sign), FEW)
        single = signature.args[0].dtype == types.float32
        scale = builder.fptrunc(args[5], FLOAT) if single else args[5]
        numbers = ir.VectorType(FLOAT if single else DOUBLE, WIDE)
        scaled = builder.fmul(builder.sitofp(q, numbers), code.spread(scale, numbers))
        code.store(scaled, code.place(0, args[1]))
        return context.get_dummy_value()

    arguments = (out, types.int64, types.uint64, types.uint64, table, types.float64)
    return types.void(*arguments), generate


@intrinsic
def pointer(typing_context: Any, address: Any) -> Any:
    """Return an address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate
