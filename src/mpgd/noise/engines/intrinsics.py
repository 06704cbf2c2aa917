"""Instructions that numba has no words for: sixteen words at a time, and single bits.

A visit to Z costs far more than a step of a laminar phase, and a quarter of the words are in Z. So
a block is gone through several times. Here with four lanes for sixteen, words as n.f (steps to go
and fraction), and the laminar value a, the value in Z b:

                       lane 0  lane 1  lane 2  lane 3
    words               5.3     0.7     0.2     9.1
    count_down_and_pack
      values             a       b       b       a
      words             4.3     ...     ...     8.1     everybody loses 1, in Z it means nothing
      packed            1:0.7   2:0.2                   those that were in Z, with their places
    draw
      inputs            U       U'                      1 - f and a dither from the hash
      rows              r       r'                      and where the table has them
      places             1       2
      packed            +       -                       new signs
    send_on
      words             4.3    +2.4    -0.9     8.1     signs and B(U), back in their places

A word in Z has n = 0, so its place in the block fits in where n was. `draw` and `send_on` are two
loops because one visit is a long chain of instructions, each waiting for the one before: of the
halves, twice as many fit into the CPU's window. Row numbers go through memory, because that is the
quickest way from a vector register to an address.

What must hold: a word's index in the hash is ``first`` plus its place, and no index of a block
carries into the upper 32 bits; the packed words are read before `draw` overwrites them with signs;
nobody is in Z twice in one step.
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.ir as ir
import numba.extending
from numba import types

from mpgd.maps.normal import EXCESS, INPUT_SHIFT
from mpgd.noise.engines import vectors
from mpgd.noise.engines.vectors import (
    AHEAD,
    BIT,
    BYTE,
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
    counted,
    equal,
)
from mpgd.noise.word import FRACTION, FRACTION_BITS, SALT_SHIFT

PLACE_BITS: Final = 9  # of a place in a block
PLACES: Final = [place << FRACTION_BITS for place in range(1 << PLACE_BITS)]  # as words have them

intrinsic: Any = numba.extending.intrinsic
intrinsic_of_constants: Any = numba.extending.intrinsic(prefer_literal=True)


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
        code.prefetch(code.place(0, builder.add(args[1], ir.Constant(LONG_INT, AHEAD))))
        _, in_Z = code.count_down(args[1], args[3], args[4])
        mask = builder.bitcast(in_Z, SHORT)
        code.store(mask, code.place(5, builder.lshr(args[1], ir.Constant(LONG_INT, 4))))
        return context.get_dummy_value()

    return types.void(words, types.int64, out, types.float64, types.float64, marks), generate


@intrinsic
def count_down_and_pack(
    typing_context: Any, words: Any, i: Any, out: Any, c0: Any, c1: Any, packed: Any, count: Any
) -> Any:
    """Do the same, and append those in Z to ``packed``, where ``count`` are already.

    Each has its place in its upper half. Return the new count.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, i, count = Code(context, builder, signature, args), args[1], args[6]
        code.prefetch(code.place(0, builder.add(i, ir.Constant(LONG_INT, AHEAD))))
        kind = WORDS if vectors.PACKS_IN_ONE else FEW
        for first in range(0, LANES, kind.count):
            at = builder.add(i, ir.Constant(LONG_INT, first))
            old, in_Z = code.count_down(at, args[3], args[4], kind)
            here = code.load(code.constant("mpgd_places", PLACES, at), kind)
            count = code.append_packed(in_Z, builder.or_(old, here), 5, count)
        return count

    arguments = (words, types.int64, out, types.float64, types.float64, packed, types.int64)
    return types.int64(*arguments), generate


@intrinsic
def draw(
    typing_context: Any,
    packed: Any,
    k: Any,
    first: Any,
    key: Any,
    threshold: Any,
    product: Any,
    places: Any,
    inputs: Any,
    rows: Any,
) -> Any:
    """Hash eight packed words from ``k`` on: replace them by their new sign bits.

    Their places, their inputs U and the rows of these are written too.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, k = Code(context, builder, signature, args), args[1]
        threshold, product = (code.spread(builder.trunc(args[n], INT), FEW) for n in (4, 5))
        old = code.load(code.place(0, k), FEW)
        f = builder.and_(old, equal(FRACTION, FEW))
        place = builder.lshr(old, equal(FRACTION_BITS, FEW))
        place = builder.and_(place, equal(2**PLACE_BITS - 1, FEW))
        code.store(place, code.place(6, k))
        salt = builder.shl(f, equal(SALT_SHIFT - 32, FEW))
        low, upper = code.hash(args[2], place, args[3], salt)
        bits = code.octaves(*code.input(f, low, upper))
        code.store(bits, code.place(7, k))
        code.store(code.row_starts(bits), code.place(8, k))
        # At least the threshold, both below 2^32: then threshold - 1 - bits is negative.
        below = builder.sub(threshold, equal(1, FEW))
        drawn = code.sign_bit(builder.sub(below, builder.lshr(upper, equal(1, FEW))))
        chi = builder.xor(drawn, builder.and_(old, product))
        code.store(chi, code.place(0, k))
        return context.get_dummy_value()

    long = types.uint64
    arguments = (packed, types.int64, long, long, long, long, places, inputs, rows)
    return types.void(*arguments), generate


@intrinsic
def send_on(
    typing_context: Any,
    packed: Any,
    k: Any,
    inputs: Any,
    rows: Any,
    table: Any,
    largest: Any,
    words: Any,
    places: Any,
) -> Any:
    """Write eight words after their visit to their places: packed sign bits, and B of the inputs.

    It is done from the registers while the next rows come: a loop of its own takes longer.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, k = Code(context, builder, signature, args), args[1]
        starts = []
        for lane in range(WIDE):
            place = code.place(3, builder.add(k, ir.Constant(LONG_INT, lane)))
            starts.append(builder.sext(code.load(place, INT), LONG_INT))
        b = code.first_return(4, starts, code.load(code.place(2, k), LONGS))
        q = code.encode(b, code.spread(builder.trunc(args[5], INT), FEW))
        chi = code.load(code.place(0, k), FEW)
        new = builder.or_(chi, q)
        for lane in range(WIDE):
            at = code.place(7, builder.add(k, ir.Constant(LONG_INT, lane)))
            place = builder.zext(code.load(at, INT), LONG_INT)
            word = builder.extract_element(new, ir.Constant(INT, lane))
            code.store(word, code.place(6, place))
        return context.get_dummy_value()

    arguments = (packed, types.int64, inputs, rows, table, types.uint64, words, places)
    return types.void(*arguments), generate


@intrinsic
def hash_eight(typing_context: Any, out: Any, i: Any, first: Any, key: Any, shift: Any) -> Any:
    """Write the upper half of the hashes of eight elements from ``first + i`` on, shifted right."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        _, upper = code.hash(builder.add(args[2], args[1]), counted(FEW), args[3])
        shift = code.spread(builder.trunc(args[4], INT), FEW)
        code.store(builder.lshr(upper, shift), code.place(0, args[1]))
        return context.get_dummy_value()

    return types.void(out, types.int64, types.uint64, types.uint64, types.uint64), generate


@intrinsic
def normal_eight(
    typing_context: Any, out: Any, i: Any, first: Any, key: Any, table: Any, unit: Any
) -> Any:
    """Write eight normal numbers from place ``i`` on; see `mpgd.noise.memoryless`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        low, upper = code.hash(builder.add(args[2], args[1]), counted(FEW), args[3])
        joined = builder.shl(upper, equal(32 - INPUT_SHIFT, FEW))
        joined = builder.or_(joined, builder.lshr(low, equal(INPUT_SHIFT, FEW)))
        above = builder.and_(builder.lshr(upper, equal(INPUT_SHIFT, FEW)), equal(FRACTION, FEW))
        bits = code.octaves(builder.or_(joined, equal(1, FEW)), above)
        rows = code.row_starts(bits)
        lanes = (builder.extract_element(rows, ir.Constant(INT, lane)) for lane in range(WIDE))
        z = code.first_return(4, [builder.sext(row, LONG_INT) for row in lanes], bits)
        z = builder.add(z, equal(1 << (EXCESS - 1), LONGS))
        q, _ = code.halves(builder.lshr(z, equal(EXCESS, LONGS)))
        sign = builder.ashr(upper, equal(31, FEW))  # all ones where the number is negative
        q = builder.sub(builder.xor(q, sign), sign)
        single = signature.args[0].dtype == types.float32
        scale = builder.fptrunc(args[5], FLOAT) if single else args[5]
        numbers = ir.VectorType(FLOAT if single else DOUBLE, WIDE)
        scaled = builder.fmul(builder.sitofp(q, numbers), code.spread(scale, numbers))
        code.store(scaled, code.place(0, args[1]))
        return context.get_dummy_value()

    arguments = (out, types.int64, types.uint64, types.uint64, table, types.float64)
    return types.void(*arguments), generate


@intrinsic
def prefetch(typing_context: Any, array: Any, i: Any) -> Any:
    """Ask for the memory of an element that is needed soon; it need not exist."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        code.prefetch(code.place(0, args[1]))
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def copy_past_cache(typing_context: Any, source: Any, target: Any, i: Any) -> Any:
    """Copy eight words from place ``i`` on; the target's stand at a multiple of 32 bytes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        vector = code.load(code.place(0, args[2]), FEW)
        write = builder.store(vector, code.place(1, args[2]))
        write.align = WIDE * 4
        hint = builder.module.add_metadata([ir.Constant(INT, 1)])
        write.set_metadata("nontemporal", hint)
        return context.get_dummy_value()

    return types.void(source, target, types.int64), generate


@intrinsic
def fence(typing_context: Any) -> Any:
    """Wait until other threads can see what was written, also past the cache."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def pointer(typing_context: Any, address: Any) -> Any:
    """Return an address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@intrinsic_of_constants
def stack(typing_context: Any, size: Any) -> Any:
    """Return so many bytes, a constant, of the kernel's own stack; they need not be freed."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        with builder.goto_entry_block():  # once, also where the call stands in a loop
            room = builder.alloca(ir.ArrayType(BYTE, size.literal_value))
            room.align = 64
        return builder.bitcast(room, ir.IntType(8).as_pointer())

    return types.voidptr(size), generate
