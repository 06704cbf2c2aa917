"""Writes vector instructions in LLVM's own language, for `mpgd.noise.engines.intrinsics`.

The arithmetic is that of `mpgd.noise.engines.tensor`. Eight visits are eight lanes of 32 bits. A
64-bit number is a pair of them, its low and its upper half; only products and the table's rows take
lanes of 64 bits. Registers interleave two vectors within their own 128 bits, so whole numbers stand
in `ORDER`, and taking their halves again restores the order at no cost:

    halves      0 1 2 3 4 5 6 7
    whole       0 1 4 5   2 3 6 7

What would break the bits: signed shifts to the right; X, t1 - bend or t2 above 2^32, because then
the products lose their upper half; a fused or reordered floating-point operation in `octaves`,
where the subtraction must be exact (LLVM does neither unless it is told to); indices that differ in
their upper half, because `hash` takes that half from the first (`fused.in_lanes` sees to it).
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding
import llvmlite.ir as ir
import numba
from numba import types

from mpgd.maps.rows import BEND_BITS, INPUT_BITS
from mpgd.maps.tables import RETURN_ROW_BITS
from mpgd.noise.counter_hash import MULTIPLIER
from mpgd.noise.word import (
    DRAWN_SHIFT,
    FAR,
    FRACTION,
    FRACTION_BITS,
    LONG,
    MAGNITUDE,
    NEGATIVE,
    ONE,
)

LANES: Final = 16  # words that are counted down together
WIDE: Final = 8  # words that take their visit together
ORDER: Final = (0, 1, 4, 5, 2, 3, 6, 7)  # in which whole numbers stand
AHEAD: Final = 512  # words; memory is asked for so far ahead, since hardware stops at a page

BIT, BYTE, SHORT, INT, LONG_INT = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
FLOAT, DOUBLE, POINTER = ir.FloatType(), ir.DoubleType(), ir.PointerType()
WORDS, CHOICE = ir.VectorType(INT, LANES), ir.VectorType(BIT, LANES)
FEW, LONGS, HALVES = ir.VectorType(INT, WIDE), ir.VectorType(LONG_INT, WIDE), WORDS
PAIRS = ir.VectorType(LONG_INT, WIDE // 2)  # eight halves, two by two

_LOW_HALF: Final = 2**32 - 1
_LOW_M, _UPPER_M = MULTIPLIER & _LOW_HALF, MULTIPLIER >> 32
_UPPER_BITS_OF_2_52: Final = (1023 + 52) << 20
_LAST_ROW: Final = (1023 + INPUT_BITS - 1) << RETURN_ROW_BITS


def has_features(*names: str) -> bool:
    """Return whether the CPU that numba compiles for has these features."""
    features = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    return {f"+{name}" for name in names} <= set(features.split(","))


PACKS_IN_ONE: Final = has_features("avx512f", "avx512dq", "avx512vl")
PACKS: Final = PACKS_IN_ONE or has_features("avx2")


class Code:
    """Writes the instructions of one intrinsic; arguments are named by their number."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args

    def count_down(self, i: Any, c0: Any, c1: Any, kind: Any = WORDS) -> tuple[Any, Any]:
        """Count words of argument 0 down from ``i`` on and write their values to argument 2.

        Return the old words and which of them were in Z.
        """
        builder = self.builder
        old = self.load(self.place(0, i), kind)
        q, negative = builder.and_(old, equal(MAGNITUDE, kind)), self.sign_bit(old)
        in_Z = builder.icmp_signed("<", q, equal(ONE, kind))
        self.store(self.values(in_Z, negative, c0, c1), self.place(2, i))
        is_long = builder.icmp_signed(">", q, equal(LONG, kind))
        step = builder.select(is_long, equal(1, kind), equal(ONE, kind))
        self.store(builder.sub(old, step), self.place(0, i))
        return old, in_Z

    def values(self, in_Z: Any, negative: Any, c0: Any, c1: Any) -> Any:
        """Return c1 in Z, else c0, with the sign bit flipped where chi is negative."""
        builder, single = self.builder, self.signature.args[2].dtype == types.float32
        if single:
            c0, c1 = (builder.fptrunc(c, FLOAT) for c in (c0, c1))
        number, bits = (FLOAT, INT) if single else (DOUBLE, LONG_INT)
        numbers, patterns = (ir.VectorType(kind, negative.type.count) for kind in (number, bits))
        value = builder.select(in_Z, self.spread(c1, numbers), self.spread(c0, numbers))
        if not single:
            negative = builder.shl(builder.zext(negative, patterns), equal(32, patterns))
        return builder.bitcast(builder.xor(builder.bitcast(value, patterns), negative), numbers)

    def sign_bit(self, word: Any) -> Any:
        """Return words without their magnitude."""
        return self.builder.and_(word, equal(NEGATIVE, word.type))

    def hash(self, first: Any, place: Any, key: Any, salt: Any = None) -> tuple[Any, Any]:
        """Return `counter.hash_elements` of the indices first + place, as low and upper halves.

        ``salt`` belongs to the upper half.
        """
        in_halves = PACKS and not PACKS_IN_ONE
        hash_lanes = self._hash_halves if in_halves else self._hash_whole
        return hash_lanes(first, place, key, salt)

    def _hash_whole(self, first: Any, place: Any, key: Any, salt: Any) -> tuple[Any, Any]:
        builder, multiplier = self.builder, equal(MULTIPLIER, LONGS)
        index = builder.add(builder.zext(place, LONGS), self.spread(first, LONGS))
        h = builder.mul(builder.xor(index, self.spread(key, LONGS)), multiplier)
        if salt is not None:
            h = builder.xor(h, builder.shl(builder.zext(salt, LONGS), equal(32, LONGS)))
        for _ in range(2):
            h = builder.mul(builder.xor(h, builder.lshr(h, equal(32, LONGS))), multiplier)
        return builder.trunc(h, FEW), builder.trunc(builder.lshr(h, equal(32, LONGS)), FEW)

    def _hash_halves(self, first: Any, place: Any, key: Any, salt: Any) -> tuple[Any, Any]:
        """Do the same with products of halves, for AVX2, which has none of 64 bits.

        All indices have one upper half, so the first product takes it as a constant.
        """
        builder = self.builder
        start, turned = builder.trunc(first, INT), builder.trunc(key, INT)
        low = builder.xor(builder.add(place, self.spread(start, FEW)), self.spread(turned, FEW))
        common = builder.lshr(builder.xor(first, key), ir.Constant(LONG_INT, 32))
        common = builder.mul(builder.trunc(common, INT), ir.Constant(INT, _LOW_M))
        low, upper = self._times(low, self.spread(common, FEW))
        if salt is not None:
            upper = builder.xor(upper, salt)
        for _ in range(2):
            low, upper = builder.xor(low, upper), builder.mul(upper, equal(_LOW_M, FEW))
            low, upper = self._times(low, upper)
        return low, upper

    def _times(self, low: Any, upper: Any) -> tuple[Any, Any]:
        """Return the halves of low M + 2^32 upper."""
        builder, multiplier = self.builder, equal(_LOW_M, PAIRS)
        both = builder.bitcast(low, PAIRS)
        even = builder.mul(builder.and_(both, equal(_LOW_HALF, PAIRS)), multiplier)
        odd = builder.mul(builder.lshr(both, equal(32, PAIRS)), multiplier)
        carried = self._shuffle(
            builder.bitcast(even, FEW), builder.bitcast(odd, FEW), [1, 9, 3, 11, 5, 13, 7, 15]
        )
        upper = builder.add(upper, builder.mul(low, equal(_UPPER_M, FEW)))
        return builder.mul(low, equal(_LOW_M, FEW)), builder.add(upper, carried)

    def input(self, f: Any, low: Any, upper: Any) -> tuple[Any, Any]:
        """Return U, the argument of B, as low and upper halves, from a fraction and a hash."""
        builder = self.builder
        drawn = builder.and_(builder.lshr(low, equal(DRAWN_SHIFT, FEW)), equal(FRACTION, FEW))
        is_unknown = builder.icmp_unsigned("==", f, equal(0, FEW))
        above = builder.select(is_unknown, drawn, builder.xor(f, equal(FRACTION, FEW)))
        return builder.or_(builder.xor(low, upper), equal(1, FEW)), above

    def octaves(self, low: Any, upper: Any) -> Any:
        """Return U as doubles: their bits are its octave, its row and X, one after the other.

        U becomes a double as 2^52 + U, which has U for its low bits, minus 2^52; both are exact.
        """
        builder, doubles = self.builder, ir.VectorType(DOUBLE, WIDE)
        raised = builder.or_(upper, equal(_UPPER_BITS_OF_2_52, FEW))
        order = [half for lane in ORDER for half in (lane, WIDE + lane)]
        whole = builder.bitcast(self._shuffle(low, raised, order), doubles)
        large = ir.Constant(doubles, [ir.Constant(DOUBLE, 2.0**52)] * WIDE)
        return builder.bitcast(builder.fsub(whole, large), LONGS)

    def halves(self, whole: Any) -> list[Any]:
        """Return the low and the upper halves of whole numbers."""
        parts = self.builder.bitcast(whole, HALVES)
        places = [ORDER.index(lane) for lane in range(WIDE)]
        return [self._shuffle(parts, parts, [2 * at + odd for at in places]) for odd in (0, 1)]

    def row_starts(self, bits: Any) -> Any:
        """Return where the rows of such doubles begin in a table, less `2 _LAST_ROW` elements.

        Octaves are counted down from U = 2^49 and rows up: (1072 - exponent) 2^7 + row.
        """
        builder = self.builder
        both = builder.lshr(self.halves(bits)[1], equal(20 - RETURN_ROW_BITS, FEW))
        row = builder.and_(both, equal(2**RETURN_ROW_BITS - 1, FEW))
        number = builder.sub(builder.add(row, row), both)
        return builder.add(number, number)

    def first_return(self, number: int, starts: list[Any], bits: Any) -> Any:
        """Return B from the table in argument ``number``, with 32 bits behind the point."""
        builder = self.builder
        c0, shape = self._rows(number, starts)
        X = builder.lshr(bits, equal(52 - RETURN_ROW_BITS - 32, LONGS))
        X = builder.and_(X, equal(_LOW_HALF, LONGS))
        t2 = builder.lshr(shape, equal(32, LONGS))
        t2 = builder.and_(t2, equal(2**BEND_BITS - 1, LONGS))
        bend = builder.lshr(builder.mul(X, t2), equal(32, LONGS))
        q = builder.and_(builder.sub(shape, bend), equal(_LOW_HALF, LONGS))  # t1 lies lowest
        shift = builder.lshr(shape, equal(58, LONGS))
        return builder.sub(c0, builder.lshr(builder.mul(X, q), shift))

    def encode(self, b: Any, largest: Any) -> Any:
        """Return `tensor.encode`."""
        builder = self.builder
        n = self.halves(b)[1]
        short = self.halves(builder.lshr(b, equal(32 - FRACTION_BITS, LONGS)))[0]
        taken = builder.icmp_unsigned(
            "==", builder.and_(short, equal(FRACTION, FEW)), equal(0, FEW)
        )
        short = builder.add(short, builder.zext(taken, FEW))
        long = builder.add(n, equal(LONG - FAR, FEW))
        q = builder.select(builder.icmp_signed("<", n, equal(FAR, FEW)), short, long)
        return builder.select(builder.icmp_unsigned(">", q, largest), largest, q)

    def _rows(self, number: int, starts: list[Any]) -> list[Any]:
        """Return both words of the rows that start at these elements, in `ORDER`.

        Rows (a0 a1) and (e0 e1) are joined to a0 a1 e0 e1, (b0 b1) and (f0 f1) to b0 b1 f0 f1; then
        both are dealt out to a0 b0 e0 f0 and a1 b1 e1 f1, and so are c, d, g and h.
        """
        row = ir.VectorType(LONG_INT, 2)
        last = ir.Constant(LONG_INT, 2 * _LAST_ROW)
        places = [self.place(number, self.builder.add(start, last)) for start in starts]
        rows = [self.load(place, row) for place in places]
        half = WIDE // 2
        joined = [self._shuffle(rows[k], rows[k + half], range(4)) for k in range(half)]
        parts = [
            [
                self._shuffle(joined[k], joined[k + 1], [odd, 4 + odd, 2 + odd, 6 + odd])
                for k in (0, 2)
            ]
            for odd in (0, 1)
        ]
        return [self._shuffle(a, b, range(WIDE)) for a, b in parts]

    def place(self, number: int, index: Any) -> Any:
        """Return the address of an element of an array argument."""
        kind = self.signature.args[number]
        data = self.context.make_array(kind)(self.context, self.builder, self.args[number]).data
        size = ir.Constant(LONG_INT, kind.dtype.bitwidth // 8)
        start = self.builder.ptrtoint(data, LONG_INT)
        address = self.builder.add(start, self.builder.mul(index, size))
        return self.builder.inttoptr(address, POINTER)

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
        kind = ir.FunctionType(ir.VoidType(), [POINTER, INT, INT, INT])
        function = self._external("llvm.prefetch.p0", kind)
        hints = [ir.Constant(INT, hint) for hint in (0, 2, 1)]  # to read, second level, data
        self.builder.call(function, [place, *hints])

    def spread(self, number: Any, kind: Any) -> Any:
        """Return a vector of equal numbers."""
        nothing = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(INT, 0))
        return self._shuffle(one, nothing, [0] * kind.count)

    def append_packed(self, chosen: Any, vector: Any, number: int, count: Any) -> Any:
        """Store the chosen lanes side by side in argument ``number``, from ``count`` on.

        Return the new count. Lanes that were not chosen are written behind and count for nothing.
        """
        builder = self.builder
        mask = builder.bitcast(chosen, ir.IntType(chosen.type.count))
        pack = self._compress if PACKS_IN_ONE else self._permute
        self.store(pack(vector, mask), self.place(number, count))
        return builder.add(count, builder.zext(builder.ctpop(mask), LONG_INT))

    def _compress(self, vector: Any, mask: Any) -> Any:
        """Return the chosen lanes side by side, for AVX-512."""
        name = f"llvm.experimental.vector.compress.v{LANES}i32"
        function = self._external(name, ir.FunctionType(WORDS, [WORDS, CHOICE, WORDS]))
        nothing = ir.Constant(WORDS, ir.Undefined)
        return self.builder.call(function, [vector, self.builder.bitcast(mask, CHOICE), nothing])

    def _permute(self, vector: Any, mask: Any) -> Any:
        """Return the chosen of eight lanes side by side, for AVX2: their order is looked up."""
        builder = self.builder
        entry = self.constant("mpgd_lane_orders", ORDERS, builder.zext(mask, LONG_INT), LONG_INT)
        order = builder.zext(self.load(entry, ir.VectorType(BYTE, WIDE)), FEW)
        function = self._external("llvm.x86.avx2.permd", ir.FunctionType(FEW, [FEW, FEW]))
        return builder.call(function, [vector, order])

    def constant(self, name: str, numbers: list[int], index: Any, kind: Any = INT) -> Any:
        """Return the address of an element of a table of constants."""
        known = self.builder.module.globals
        if name not in known:
            table = ir.GlobalVariable(self.builder.module, ir.ArrayType(kind, len(numbers)), name)
            table.linkage, table.global_constant = "internal", True
            table.initializer = ir.Constant(
                table.value_type, [ir.Constant(kind, number) for number in numbers]
            )
        table = known[name]
        zero = ir.Constant(LONG_INT, 0)
        return self.builder.gep(table, [zero, index], source_etype=table.value_type)

    def _shuffle(self, a: Any, b: Any, order: Any) -> Any:
        order = list(order)
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT, len(order)), order))

    def _external(self, name: str, kind: Any) -> Any:
        known = self.builder.module.globals.get(name)
        return known or ir.Function(self.builder.module, kind, name)


def order(mask: int) -> int:
    """Return the numbers of the lanes set in ``mask``, one per byte, the first in the lowest."""
    chosen = [lane for lane in range(WIDE) if mask >> lane & 1]
    return sum(lane << (8 * place) for place, lane in enumerate(chosen))


ORDERS: Final = [order(mask) for mask in range(1 << WIDE)]


def equal(number: int, kind: Any) -> Any:
    """Return a vector of equal constants."""
    return ir.Constant(kind, [ir.Constant(kind.element, number)] * kind.count)


def counted(kind: Any, step: int = 1) -> Any:
    """Return the vector 0, step, 2 step, ..."""
    return ir.Constant(kind, [ir.Constant(kind.element, step * lane) for lane in range(kind.count)])
