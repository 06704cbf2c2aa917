"""Writes vector instructions in LLVM's own language, for the intrinsics in `lanes`.

The arithmetic is that of `mpgd.noise.engines.tensor`, in lanes of 64 bits. What would break the
bits: signed shifts to the right; X, t1 - bend or t2 above 2^32, because then the products lose
their upper half; a fused or reordered floating-point operation in `first_return`, where the
subtraction must be exact. LLVM does neither unless it is told to.
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding
import llvmlite.ir as ir
import numba
from numba import types

from mpgd.maps.rows import BEND_BITS, INPUT_BITS
from mpgd.maps.tables import RETURN_ROW_BITS
from mpgd.noise.counter import MULTIPLIER
from mpgd.noise.word import (
    DITHER_BITS,
    DRAWN_SHIFT,
    FAR,
    FRACTION,
    FRACTION_BITS,
    LONG,
    MAGNITUDE,
    NEGATIVE,
    ONE,
)

LANES: Final = 16  # words of 32 bits
WIDE: Final = 8  # of 64 bits
AHEAD: Final = 1024  # words; memory is asked for so far ahead, since hardware stops at a page

BIT, BYTE, SHORT, INT, LONG_INT = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
FLOAT, DOUBLE, POINTER = ir.FloatType(), ir.DoubleType(), ir.PointerType()
WORDS, CHOICE = ir.VectorType(INT, LANES), ir.VectorType(BIT, LANES)
FEW, LONGS = ir.VectorType(INT, WIDE), ir.VectorType(LONG_INT, WIDE)

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


class Code:
    """Writes the instructions of one intrinsic; arguments are named by their number."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args

    def count_down(self, i: Any, c0: Any, c1: Any) -> tuple[Any, Any]:
        """Count the words of argument 0 down and write their values to argument 2.

        Return the old words and which of them were in Z.
        """
        builder = self.builder
        old = self.load(self.place(0, i), WORDS)
        self.prefetch(self.place(0, builder.add(i, ir.Constant(LONG_INT, AHEAD))))
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
            c0, c1 = (builder.fptrunc(c, FLOAT) for c in (c0, c1))
        number, bits = (FLOAT, INT) if single else (DOUBLE, LONG_INT)
        numbers, patterns = ir.VectorType(number, LANES), ir.VectorType(bits, LANES)
        value = builder.select(in_Z, self.spread(c1, numbers), self.spread(c0, numbers))
        if not single:
            shift = ir.Constant(patterns, [ir.Constant(bits, 32)] * LANES)
            negative = builder.shl(builder.zext(negative, patterns), shift)
        return builder.bitcast(builder.xor(builder.bitcast(value, patterns), negative), numbers)

    def hash(self, index: Any, key: Any, salt: Any) -> Any:
        """Return `counter.hash_elements`."""
        builder, multiplier = self.builder, longs(MULTIPLIER)
        h = builder.xor(builder.mul(builder.xor(index, key), multiplier), salt)
        for _ in range(2):
            h = builder.mul(builder.xor(h, builder.lshr(h, longs(32))), multiplier)
        return h

    def hash_from(self, first: Any, key: Any) -> Any:
        """Return the hashes of eight elements from ``first`` on, without a salt."""
        lanes = ir.Constant(LONGS, [ir.Constant(LONG_INT, lane) for lane in range(WIDE)])
        index = self.builder.add(self.spread(first, LONGS), lanes)
        return self.hash(index, self.spread(key, LONGS), longs(0))

    def input(self, f: Any, h: Any) -> Any:
        """Return U, the argument of B."""
        builder = self.builder
        drawn = builder.and_(builder.lshr(h, longs(DRAWN_SHIFT)), longs(FRACTION))
        is_unknown = builder.icmp_unsigned("==", f, longs(0))
        upper = builder.select(is_unknown, drawn, builder.sub(longs(FRACTION), f))
        dither = builder.and_(builder.xor(h, builder.lshr(h, longs(32))), longs(_LOW_HALF))
        return builder.or_(builder.shl(upper, longs(DITHER_BITS)), builder.or_(dither, longs(1)))

    def first_return(self, number: int, U: Any) -> Any:
        """Return B from the table in argument ``number``, with 32 bits behind the point.

        The bits of U as a double are its octave, its row and X, one after the other. U becomes a
        double as 2^52 + U, which has U for its low bits, minus 2^52; both are exact.
        """
        builder, doubles = self.builder, ir.VectorType(DOUBLE, WIDE)
        large = ir.Constant(doubles, [ir.Constant(DOUBLE, 2.0**52)] * WIDE)
        raised = builder.bitcast(builder.or_(U, longs(_BITS_OF_2_52)), doubles)
        bits = builder.bitcast(builder.fsub(raised, large), LONGS)
        both = builder.lshr(bits, longs(52 - RETURN_ROW_BITS))  # exponent and row
        row = builder.and_(both, longs(2**RETURN_ROW_BITS - 1))
        # Octaves are counted down from U = 2^49 and rows up: (1072 - exponent) 2^7 + row.
        last = longs((1023 + INPUT_BITS - 1) << RETURN_ROW_BITS)
        row = builder.sub(builder.add(last, builder.add(row, row)), both)
        c0, shape = self.rows(number, builder.add(row, row))
        X = builder.and_(builder.lshr(bits, longs(52 - RETURN_ROW_BITS - 32)), longs(_LOW_HALF))
        t2 = builder.and_(builder.lshr(shape, longs(32)), longs(2**BEND_BITS - 1))
        bend = builder.lshr(builder.mul(X, t2), longs(32))
        q = builder.and_(builder.sub(shape, bend), longs(_LOW_HALF))  # t1 - bend, t1 lies lowest
        return builder.sub(c0, builder.lshr(builder.mul(X, q), builder.lshr(shape, longs(58))))

    def encode(self, b: Any, largest: Any) -> Any:
        """Return `tensor.encode`."""
        builder = self.builder
        n, short = builder.lshr(b, longs(32)), builder.lshr(b, longs(32 - FRACTION_BITS))
        taken = builder.icmp_unsigned("==", builder.and_(short, longs(FRACTION)), longs(0))
        short = builder.add(short, builder.zext(taken, LONGS))
        long = builder.add(n, longs(LONG - FAR))
        q = builder.select(builder.icmp_signed("<", n, longs(FAR)), short, long)
        return builder.select(builder.icmp_signed(">", q, largest), largest, q)

    def rows(self, number: int, starts: Any) -> list[Any]:
        """Return both words of eight rows that start at these elements of an argument.

        Rows (a0 a1), (b0 b1), ... are joined to a0 a1 b0 b1 ... h0 h1, then dealt out in turn.
        """
        parts = []
        for lane in range(WIDE):
            start = self.builder.extract_element(starts, ir.Constant(INT, lane))
            parts.append(self.load(self.place(number, start), ir.VectorType(LONG_INT, 2)))
        while len(parts) > 1:
            both = range(2 * parts[0].type.count)
            pairs = zip(parts[0::2], parts[1::2], strict=True)
            parts = [self._shuffle(a, b, both) for a, b in pairs]
        return [self._shuffle(parts[0], parts[0], range(odd, 2 * WIDE, 2)) for odd in (0, 1)]

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
        hints = [ir.Constant(INT, hint) for hint in (0, 3, 1)]  # to read, to keep, data
        self.builder.call(function, [place, *hints])

    def spread(self, number: Any, kind: Any) -> Any:
        """Return a vector of equal numbers."""
        nothing = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(INT, 0))
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
            count = builder.add(count, builder.zext(builder.ctpop(mask), LONG_INT))
        return count

    def _compress(self, vector: Any, mask: Any) -> Any:
        """Return the chosen lanes side by side, for AVX-512."""
        name = f"llvm.experimental.vector.compress.v{LANES}i32"
        function = self._external(name, ir.FunctionType(WORDS, [WORDS, CHOICE, WORDS]))
        nothing = ir.Constant(WORDS, ir.Undefined)
        return self.builder.call(function, [vector, self.builder.bitcast(mask, CHOICE), nothing])

    def _permute(self, vector: Any, mask: Any) -> Any:
        """Return the chosen of eight lanes side by side, for AVX2: their order is looked up."""
        builder, table = self.builder, self._orders()
        at = builder.zext(mask, INT)
        entry = builder.gep(table, [ir.Constant(INT, 0), at], source_etype=table.value_type)
        order = builder.zext(self.load(entry, ir.VectorType(BYTE, WIDE)), FEW)
        function = self._external("llvm.x86.avx2.permd", ir.FunctionType(FEW, [FEW, FEW]))
        return builder.call(function, [vector, order])

    def _orders(self) -> Any:
        """Return a table that holds, for each mask of eight lanes, the chosen lanes in order."""
        name, module = "mpgd_lane_orders", self.builder.module
        if name not in module.globals:
            kind = ir.ArrayType(LONG_INT, 256)
            table = ir.GlobalVariable(module, kind, name)
            table.linkage, table.global_constant = "internal", True
            table.initializer = ir.Constant(
                kind, [ir.Constant(LONG_INT, order(m)) for m in range(256)]
            )
        return module.globals[name]

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


def words(number: int) -> Any:
    """Return sixteen equal integers of 32 bits."""
    return ir.Constant(WORDS, [ir.Constant(INT, number)] * LANES)


def longs(number: int) -> Any:
    """Return eight equal integers of 64 bits."""
    return ir.Constant(LONGS, [ir.Constant(LONG_INT, number)] * WIDE)
