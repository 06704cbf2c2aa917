"""Instructions that numba has no words for: sixteen words at a time, and single bits.

A visit to Z costs far more than a step of a laminar phase, and a quarter of the words are in Z. So
a block is gone through three times, `count_down`, `send_on` and `put_back`. Four lanes instead of
sixteen, n.f for count and fraction, X for nothing of interest:

    words             5.3   0.7   0.2   9.1
    count_down        4.3    X     X    8.1     everybody loses 1; values are written
      packed          0.7   0.2                 those that were in Z, side by side
      places           1     2                  and where they stood
      marks           0110                      one bit per lane
    send_on           2.4   0.9                 packed words after their visit, without a branch
    put_back          4.3   2.4   0.9   8.1     spread out again under the same mask

What must hold for the bits to be right: `put_back` meets the marks in the order in which
`count_down` wrote them, and nobody changes one between; a packed word's index is ``first`` plus
its place; all arithmetic is unsigned and wraps; X, t1, t2 and q stay below 2^32, else their
products lose bits. The table row of a lane is loaded whole, because two gathers are slower.

Packing is one instruction with AVX-512. Elsewhere the same code is right but slow (LLVM writes it
out lane by lane), and `fused` uses only `count_down_and_mark`.
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding
import llvmlite.ir as ir
import numba
import numba.extending
from numba import types

from mpgd.maps.rows import BEND_BITS
from mpgd.maps.tables import RETURN_ROW_BITS
from mpgd.noise.counter import MULTIPLIER
from mpgd.noise.word import (
    FAR,
    FRACTION,
    FRACTION_BITS,
    LONG,
    LONGEST,
    MAGNITUDE,
    NEGATIVE,
    ONE,
    SALT_SHIFT,
)

LANES: Final = 16  # words of 32 bits
WIDE: Final = 8  # of 64 bits
AHEAD: Final = 1024  # words; memory is asked for so far ahead, since hardware stops at a page

intrinsic: Any = numba.extending.intrinsic

_BIT, _HALF_INT, _INT, _LONG = (ir.IntType(bits) for bits in (1, 16, 32, 64))
_FLOAT, _DOUBLE, _POINTER = ir.FloatType(), ir.DoubleType(), ir.PointerType()
_WORDS, _CHOICE = ir.VectorType(_INT, LANES), ir.VectorType(_BIT, LANES)
_FEW, _WIDE = ir.VectorType(_INT, WIDE), ir.VectorType(_LONG, WIDE)
_LOW_HALF: Final = 2**32 - 1


def can_pack() -> bool:
    """Return whether the CPU that numba compiles for packs lanes in one instruction."""
    features = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    return {"+avx512f", "+avx512cd", "+avx512dq", "+avx512vl"} <= set(features.split(","))


@intrinsic
def leading_zeros(typing_context: Any, number: Any) -> Any:
    """Return how many zeros stand before the highest bit of a non-zero 64-bit number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(_BIT, 1))

    return types.uint64(types.uint64), generate


@intrinsic
def trailing_zeros(typing_context: Any, number: Any) -> Any:
    """Return the position of the lowest bit of a non-zero 64-bit number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(_BIT, 1))

    return types.uint64(types.uint64), generate


@intrinsic
def count_down_and_mark(
    typing_context: Any, words: Any, i: Any, out: Any, c0: Any, c1: Any, marks: Any
) -> Any:
    """Write the values of sixteen words from ``i`` on, count them down, and mark those in Z."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        _, in_Z = code.count_down(args[1], args[3], args[4])
        mask = builder.bitcast(in_Z, _HALF_INT)
        code.store(mask, code.place(5, builder.lshr(args[1], ir.Constant(_LONG, 4))))
        return context.get_dummy_value()

    return types.void(words, types.int64, out, types.float64, types.float64, marks), generate


@intrinsic
def count_down(
    typing_context: Any,
    words: Any,
    i: Any,
    out: Any,
    c0: Any,
    c1: Any,
    marks: Any,
    packed: Any,
    places: Any,
    count: Any,
) -> Any:
    """Do the same, and append those in Z to ``packed``, where ``count`` are already.

    Their places go to ``places``. Return the new count.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        i, count = args[1], args[8]
        old, in_Z = code.count_down(i, args[3], args[4])
        mask = builder.bitcast(in_Z, _HALF_INT)
        code.store(mask, code.place(5, builder.lshr(i, ir.Constant(_LONG, 4))))
        lanes = ir.Constant(_WORDS, [ir.Constant(_INT, lane) for lane in range(LANES)])
        here = builder.add(code.spread(builder.trunc(i, _INT), _WORDS), lanes)
        code.store(code.pack(old, in_Z), code.place(6, count))
        code.store(code.pack(here, in_Z), code.place(7, count))
        return builder.add(count, builder.zext(builder.ctpop(mask), _LONG))

    arguments = (words, types.int64, out, types.float64, types.float64, marks, packed, places)
    return types.int64(*arguments, types.int64), generate


@intrinsic
def send_on(
    typing_context: Any,
    packed: Any,
    places: Any,
    k: Any,
    first: Any,
    key: Any,
    table: Any,
    threshold: Any,
    product: Any,
) -> Any:
    """Replace eight packed words from ``k`` on by those after a visit, as `fused.visited` does."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        first, key, threshold, product = (code.spread(args[n], _WIDE) for n in (3, 4, 6, 7))
        old = builder.zext(code.load(code.place(0, args[2]), _FEW), _WIDE)
        places = builder.zext(code.load(code.place(1, args[2]), _FEW), _WIDE)
        f = builder.and_(old, wide(MAGNITUDE))  # in Z the magnitude is the fraction
        h = code.hash(builder.add(places, first), key, builder.shl(f, wide(SALT_SHIFT)))
        new = code.encode(code.first_return(5, code.input(f, h)))
        drawn = builder.not_(builder.sub(builder.lshr(h, wide(33)), threshold))
        drawn = builder.and_(builder.lshr(drawn, wide(32)), wide(NEGATIVE))
        new = builder.xor(builder.or_(new, drawn), builder.and_(old, product))
        code.store(builder.trunc(new, _FEW), code.place(0, args[2]))
        return context.get_dummy_value()

    arguments = (packed, places, types.int64, types.uint64, types.uint64, table)
    return types.void(*arguments, types.uint64, types.uint64), generate


@intrinsic
def put_back(typing_context: Any, words: Any, i: Any, packed: Any, count: Any, marks: Any) -> Any:
    """Put the packed words from ``count`` on into their places among the sixteen from ``i`` on.

    Return the count of those that are back.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        i, count = args[1], args[3]
        mask = code.load(code.place(4, builder.lshr(i, ir.Constant(_LONG, 4))), _HALF_INT)
        in_Z = builder.bitcast(mask, _CHOICE)
        old = code.load(code.place(0, i), _WORDS)
        code.store(code.unpack(code.place(2, count), in_Z, old), code.place(0, i))
        return builder.add(count, builder.zext(builder.ctpop(mask), _LONG))

    return types.int64(words, types.int64, packed, types.int64, marks), generate


class Code:
    """Writes the instructions of one intrinsic; arguments are named by their number."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args

    def count_down(self, i: Any, c0: Any, c1: Any) -> tuple[Any, Any]:
        """Write values of the words (argument 0) to argument 2; return the old words, who is in Z."""
        builder = self.builder
        old = self.load(self.place(0, i), _WORDS)
        self.prefetch(self.place(0, builder.add(i, ir.Constant(_LONG, AHEAD))))
        q, negative = builder.and_(old, words(MAGNITUDE)), builder.and_(old, words(NEGATIVE))
        in_Z = builder.icmp_signed("<", q, words(ONE))
        self.store(self.values(in_Z, negative, c0, c1), self.place(2, i))
        is_long = builder.icmp_signed(">", q, words(LONG))
        self.store(
            builder.sub(old, builder.select(is_long, words(1), words(ONE))), self.place(0, i)
        )
        return old, in_Z

    def values(self, in_Z: Any, negative: Any, c0: Any, c1: Any) -> Any:
        """Return c1 in Z, else c0, with the sign bit flipped where chi is negative."""
        builder, single = self.builder, self.signature.args[2].dtype == types.float32
        if single:
            c0, c1 = (builder.fptrunc(c, _FLOAT) for c in (c0, c1))
        number, bits = (_FLOAT, _INT) if single else (_DOUBLE, _LONG)
        numbers, patterns = ir.VectorType(number, LANES), ir.VectorType(bits, LANES)
        value = builder.select(in_Z, self.spread(c1, numbers), self.spread(c0, numbers))
        if not single:
            shift = ir.Constant(patterns, [ir.Constant(bits, 32)] * LANES)
            negative = builder.shl(builder.zext(negative, patterns), shift)
        return builder.bitcast(builder.xor(builder.bitcast(value, patterns), negative), numbers)

    def hash(self, index: Any, key: Any, salt: Any) -> Any:
        """Return `counter.hash_elements`."""
        builder, multiplier = self.builder, wide(MULTIPLIER)
        h = builder.xor(builder.mul(builder.xor(index, key), multiplier), salt)
        for _ in range(2):
            h = builder.mul(builder.xor(h, builder.lshr(h, wide(32))), multiplier)
        return h

    def input(self, f: Any, h: Any) -> Any:
        """Return U, the argument of B, in the upper 50 bits."""
        builder = self.builder
        drawn = builder.and_(h, wide(FRACTION))
        is_unknown = builder.icmp_unsigned("==", f, wide(0))
        upper = builder.select(is_unknown, drawn, builder.sub(wide(FRACTION), f))
        dither = builder.and_(builder.xor(h, builder.lshr(h, wide(32))), wide(_LOW_HALF))
        lower = builder.shl(builder.or_(dither, wide(1)), wide(64 - FRACTION_BITS - 32))
        return builder.or_(builder.shl(upper, wide(SALT_SHIFT)), lower)

    def first_return(self, number: int, U: Any) -> Any:
        """Return B from the table in argument ``number``, with 32 bits behind the point."""
        builder = self.builder
        kind = ir.FunctionType(_WIDE, [_WIDE, _BIT])
        zeros = self._external(f"llvm.ctlz.v{WIDE}i64", kind)
        octave = builder.call(zeros, [U, ir.Constant(_BIT, 1)])
        below = builder.shl(builder.shl(U, octave), wide(1))
        row = builder.add(
            builder.shl(octave, wide(RETURN_ROW_BITS)), builder.lshr(below, wide(64 - 7))
        )
        c0, shape = self.rows(number, builder.shl(row, wide(1)))
        X = builder.lshr(builder.shl(below, wide(RETURN_ROW_BITS)), wide(32))
        t2 = builder.and_(builder.lshr(shape, wide(32)), wide(2**BEND_BITS - 1))
        bend = builder.lshr(builder.mul(X, t2), wide(32))
        q = builder.and_(builder.sub(shape, bend), wide(_LOW_HALF))  # t1 - bend, t1 lies lowest
        return builder.sub(c0, builder.lshr(builder.mul(X, q), builder.lshr(shape, wide(58))))

    def encode(self, b: Any) -> Any:
        """Return `tensor.encode`."""
        builder = self.builder
        n, short = builder.lshr(b, wide(32)), builder.lshr(b, wide(32 - FRACTION_BITS))
        taken = builder.icmp_unsigned("==", builder.and_(short, wide(FRACTION)), wide(0))
        short = builder.add(short, builder.zext(taken, _WIDE))
        is_capped = builder.icmp_unsigned(">", n, wide(LONGEST))
        long = builder.add(builder.select(is_capped, wide(LONGEST), n), wide(LONG - FAR))
        return builder.select(builder.icmp_unsigned("<", n, wide(FAR)), short, long)

    def rows(self, number: int, starts: Any) -> list[Any]:
        """Return both words of eight rows that start at these elements of an argument.

        Rows (a0 a1), (b0 b1), ... are joined to a0 a1 b0 b1 ... h0 h1, then dealt out in turn.
        """
        parts = []
        for lane in range(WIDE):
            start = self.builder.extract_element(starts, ir.Constant(_INT, lane))
            parts.append(self.load(self.place(number, start), ir.VectorType(_LONG, 2)))
        while len(parts) > 1:
            both = range(2 * parts[0].type.count)
            pairs = zip(parts[0::2], parts[1::2], strict=True)
            parts = [self._shuffle(a, b, both) for a, b in pairs]
        return [self._shuffle(parts[0], parts[0], range(odd, 2 * WIDE, 2)) for odd in (0, 1)]

    def place(self, number: int, index: Any) -> Any:
        """Return the address of an element of an array argument."""
        kind = self.signature.args[number]
        data = self.context.make_array(kind)(self.context, self.builder, self.args[number]).data
        size = ir.Constant(_LONG, kind.dtype.bitwidth // 8)
        start = self.builder.ptrtoint(data, _LONG)
        address = self.builder.add(start, self.builder.mul(index, size))
        return self.builder.inttoptr(address, _POINTER)

    def load(self, place: Any, kind: Any) -> Any:
        """Return a vector or number from memory."""
        found = self.builder.load(place, typ=kind)
        found.align = 1
        return found

    def store(self, vector: Any, place: Any) -> None:
        """Write a vector or number to memory."""
        self.builder.store(vector, place).align = 1

    def prefetch(self, place: Any) -> None:
        """Ask for memory that is needed soon; it need not exist."""
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _INT, _INT, _INT])
        function = self._external("llvm.prefetch.p0", kind)
        hints = [ir.Constant(_INT, hint) for hint in (0, 3, 1)]  # to read, to keep, data
        self.builder.call(function, [place, *hints])

    def spread(self, number: Any, kind: Any) -> Any:
        """Return a vector of equal numbers."""
        nothing = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(_INT, 0))
        return self._shuffle(one, nothing, [0] * kind.count)

    def pack(self, vector: Any, chosen: Any) -> Any:
        """Return the chosen lanes side by side."""
        name = f"llvm.experimental.vector.compress.v{LANES}i32"
        function = self._external(name, ir.FunctionType(_WORDS, [_WORDS, _CHOICE, _WORDS]))
        return self.builder.call(function, [vector, chosen, ir.Constant(_WORDS, ir.Undefined)])

    def unpack(self, place: Any, chosen: Any, others: Any) -> Any:
        """Return successive words from memory in the chosen lanes, and ``others`` elsewhere."""
        name = f"llvm.masked.expandload.v{LANES}i32"
        function = self._external(name, ir.FunctionType(_WORDS, [_POINTER, _CHOICE, _WORDS]))
        return self.builder.call(function, [place, chosen, others])

    def _shuffle(self, a: Any, b: Any, order: Any) -> Any:
        order = list(order)
        return self.builder.shuffle_vector(
            a, b, ir.Constant(ir.VectorType(_INT, len(order)), order)
        )

    def _external(self, name: str, kind: Any) -> Any:
        known = self.builder.module.globals.get(name)
        return known or ir.Function(self.builder.module, kind, name)


def words(number: int) -> Any:
    """Return sixteen equal integers of 32 bits."""
    return ir.Constant(_WORDS, [ir.Constant(_INT, number)] * LANES)


def wide(number: int) -> Any:
    """Return eight equal integers of 64 bits."""
    return ir.Constant(_WIDE, [ir.Constant(_LONG, number)] * WIDE)
