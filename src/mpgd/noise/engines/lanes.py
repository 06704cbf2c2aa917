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

from mpgd.maps.rows import BEND_BITS, INPUT_BITS
from mpgd.maps.tables import RETURN_ROW_BITS
from mpgd.noise.counter import MULTIPLIER
from mpgd.noise.word import (
    DITHER_BITS,
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
_BITS_OF_2_52: Final = (1023 + 52) << 52


def has_features(*names: str) -> bool:
    """Return whether the CPU that numba compiles for has these features."""
    features = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    return {f"+{name}" for name in names} <= set(features.split(","))


PACKS_IN_ONE: Final = has_features("avx512f", "avx512dq", "avx512vl")
PACKS: Final = PACKS_IN_ONE or has_features("avx2")


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
        lanes = ir.Constant(_WORDS, [ir.Constant(_INT, lane) for lane in range(LANES)])
        here = builder.add(code.spread(builder.trunc(i, _INT), _WORDS), lanes)
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
        first, key, threshold, product = (code.spread(args[n], _WIDE) for n in (3, 4, 5, 6))
        old = builder.zext(code.load(code.place(0, args[2]), _FEW), _WIDE)
        places = builder.zext(code.load(code.place(1, args[2]), _FEW), _WIDE)
        f = builder.and_(old, wide(MAGNITUDE))  # in Z the magnitude is the fraction
        h = code.hash(builder.add(places, first), key, builder.shl(f, wide(SALT_SHIFT)))
        code.store(code.input(f, h), code.place(7, args[2]))
        drawn = builder.not_(builder.sub(builder.lshr(h, wide(33)), threshold))
        drawn = builder.and_(builder.lshr(drawn, wide(32)), wide(NEGATIVE))
        chi = builder.xor(drawn, builder.and_(old, product))
        code.store(builder.trunc(chi, _FEW), code.place(0, args[2]))
        return context.get_dummy_value()

    arguments = (packed, places, types.int64, types.uint64, types.uint64)
    return types.void(*arguments, types.uint64, types.uint64, inputs), generate


@intrinsic
def send_on(typing_context: Any, packed: Any, k: Any, inputs: Any, table: Any) -> Any:
    """Add the magnitudes after the visit, B of the inputs, to eight packed sign bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        U = code.load(code.place(2, args[1]), _WIDE)
        q = builder.trunc(code.encode(code.first_return(3, U)), _FEW)
        chi = code.load(code.place(0, args[1]), _FEW)
        code.store(builder.or_(chi, q), code.place(0, args[1]))
        return context.get_dummy_value()

    return types.void(packed, types.int64, inputs, table), generate


class Code:
    """Writes the instructions of one intrinsic; arguments are named by their number."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args

    def count_down(self, i: Any, c0: Any, c1: Any) -> tuple[Any, Any]:
        """Count the words of argument 0 down and write their values to argument 2.

        Return the old words and which of them were in Z.
        """
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
        """Return U, the argument of B."""
        builder = self.builder
        drawn = builder.and_(h, wide(FRACTION))
        is_unknown = builder.icmp_unsigned("==", f, wide(0))
        upper = builder.select(is_unknown, drawn, builder.sub(wide(FRACTION), f))
        dither = builder.and_(builder.xor(h, builder.lshr(h, wide(32))), wide(_LOW_HALF))
        return builder.or_(builder.shl(upper, wide(DITHER_BITS)), builder.or_(dither, wide(1)))

    def first_return(self, number: int, U: Any) -> Any:
        """Return B from the table in argument ``number``, with 32 bits behind the point.

        The bits of U as a double are its octave, its row and X, one after the other. U becomes a
        double as 2^52 + U, which has U for its low bits, minus 2^52; both are exact.
        """
        builder, doubles = self.builder, ir.VectorType(_DOUBLE, WIDE)
        large = ir.Constant(doubles, [ir.Constant(_DOUBLE, 2.0**52)] * WIDE)
        raised = builder.bitcast(builder.or_(U, wide(_BITS_OF_2_52)), doubles)
        bits = builder.bitcast(builder.fsub(raised, large), _WIDE)
        both = builder.lshr(bits, wide(52 - RETURN_ROW_BITS))  # exponent and row
        row = builder.and_(both, wide(2**RETURN_ROW_BITS - 1))
        # Octaves are counted down from U = 2^49 and rows up: (1072 - exponent) 2^7 + row.
        last = wide((1023 + INPUT_BITS - 1) << RETURN_ROW_BITS)
        row = builder.sub(builder.add(last, builder.add(row, row)), both)
        c0, shape = self.rows(number, builder.add(row, row))
        X = builder.and_(builder.lshr(bits, wide(52 - RETURN_ROW_BITS - 32)), wide(_LOW_HALF))
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
        is_capped = builder.icmp_signed(">", n, wide(LONGEST))
        long = builder.add(builder.select(is_capped, wide(LONGEST), n), wide(LONG - FAR))
        return builder.select(builder.icmp_signed("<", n, wide(FAR)), short, long)

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

    def append_packed(self, chosen: Any, vectors: list[tuple[Any, int]], count: Any) -> Any:
        """Store the chosen lanes of each vector side by side in its argument, from ``count`` on.

        Return the new count. Lanes that were not chosen are written behind and count for nothing.
        """
        builder, size = self.builder, LANES if PACKS_IN_ONE else WIDE
        for first in range(0, LANES, size):
            part = range(first, first + size)
            mask = builder.bitcast(self._shuffle(chosen, chosen, part), ir.IntType(size))
            pack = self._compress if PACKS_IN_ONE else self._permute
            for vector, number in vectors:
                lanes = self._shuffle(vector, vector, part)
                self.store(pack(lanes, mask), self.place(number, count))
            count = builder.add(count, builder.zext(builder.ctpop(mask), _LONG))
        return count

    def _compress(self, vector: Any, mask: Any) -> Any:
        """Return the chosen lanes side by side, for AVX-512."""
        name = f"llvm.experimental.vector.compress.v{LANES}i32"
        function = self._external(name, ir.FunctionType(_WORDS, [_WORDS, _CHOICE, _WORDS]))
        nothing = ir.Constant(_WORDS, ir.Undefined)
        return self.builder.call(function, [vector, self.builder.bitcast(mask, _CHOICE), nothing])

    def _permute(self, vector: Any, mask: Any) -> Any:
        """Return the chosen ones of eight lanes side by side, for AVX2: their order is looked up."""
        builder, table = self.builder, self._orders()
        at = builder.zext(mask, _INT)
        entry = builder.gep(table, [ir.Constant(_INT, 0), at], source_etype=table.value_type)
        order = builder.zext(self.load(entry, ir.VectorType(ir.IntType(8), WIDE)), _FEW)
        function = self._external("llvm.x86.avx2.permd", ir.FunctionType(_FEW, [_FEW, _FEW]))
        return builder.call(function, [vector, order])

    def _orders(self) -> Any:
        """Return a table that holds, for each mask of eight lanes, the chosen lanes in order."""
        name, module = "mpgd_lane_orders", self.builder.module
        if name not in module.globals:
            kind = ir.ArrayType(_LONG, 256)
            table = ir.GlobalVariable(module, kind, name)
            table.linkage, table.global_constant = "internal", True
            table.initializer = ir.Constant(
                kind, [ir.Constant(_LONG, order(m)) for m in range(256)]
            )
        return module.globals[name]

    def _shuffle(self, a: Any, b: Any, order: Any) -> Any:
        order = list(order)
        return self.builder.shuffle_vector(
            a, b, ir.Constant(ir.VectorType(_INT, len(order)), order)
        )

    def _external(self, name: str, kind: Any) -> Any:
        known = self.builder.module.globals.get(name)
        return known or ir.Function(self.builder.module, kind, name)


def order(mask: int) -> int:
    """Return the numbers of the lanes set in ``mask``, one per byte, the first in the lowest."""
    chosen = [lane for lane in range(WIDE) if mask >> lane & 1]
    return sum(lane << (8 * place) for place, lane in enumerate(chosen))


def words(number: int) -> Any:
    """Return sixteen equal integers of 32 bits."""
    return ir.Constant(_WORDS, [ir.Constant(_INT, number)] * LANES)


def wide(number: int) -> Any:
    """Return eight equal integers of 64 bits."""
    return ir.Constant(_WIDE, [ir.Constant(_LONG, number)] * WIDE)
