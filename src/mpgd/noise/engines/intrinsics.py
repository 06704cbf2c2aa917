"""Instructions that numba has no words for, and with them eight states at a time (AVX-512).

A visit to Z costs far more than a step of a laminar phase, and a quarter of the states are in Z.
Working on visits one by one leaves seven of eight vector lanes idle; working on all states as if
they were visits does four times too much. So a block is gone through three times:

    count_down   everybody counts down; the states in Z are packed side by side, with their places
    send_on      the packed ones take their return B, eight at once and without a branch
    put_back     they go back to their places

A worked example, positions only (signs and values left out). Eight states

    s        0.3   2.5   7.1   0.9   1.2   0.6   4.0   9.9       in Z: lanes 0, 3 and 5
    counted  0.7   1.5   6.1   0.1   0.2   0.4   3.0   8.9       in Z that is u = 1 - s
    packed   0.7   0.1   0.4                                     places 0 3 5, mask 0b00101001
    sent on  B(.)  B(.)  B(.)                                    with five of the next eight
    put back B     1.5   6.1   B     0.2   B     3.0   8.9

The last eight packed may be fewer than eight: the rest is filled with any state in Z, and what
comes of it is not put back.

Invariants: ``packed`` and ``places`` have room for a whole block and eight more; the order of
packed states is that of their places, which is all that `put_back` relies on; a state's hash is
made from its place and its bits, so it does not matter which lane it sits in. The bits would break
with a fused multiply-add (none is asked for: products and sums are separate instructions), with
another order in the polynomial, or with a comparison that treats NaN otherwise than
`tensor.advance` does.

Table rows are loaded whole and transposed, because a gather is slower. LLVM's vectoriser finds
none of this by itself, hence its own language here. On a CPU without AVX-512 the same instructions
are emulated, which is slow but gives the same bits; `fused` then works one by one.
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding
import llvmlite.ir as ir
import numba
import numba.extending
from numba import types

from mpgd.maps.tables import FIRST_ROW, LONGEST, OFFSET_MASK, ONE_BITS, ROW_SHIFT
from mpgd.noise.counter import MULTIPLIER
from mpgd.noise.driver import DITHER_BITS, SIGN_BITS

LANES: Final = 8
AHEAD: Final = 512  # states; memory is asked for so far ahead, since hardware stops at a page

intrinsic: Any = numba.extending.intrinsic

_WORD, _DOUBLE, _BYTE, _INT = ir.IntType(64), ir.DoubleType(), ir.IntType(8), ir.IntType(32)
_WORDS, _DOUBLES = ir.VectorType(_WORD, LANES), ir.VectorType(_DOUBLE, LANES)
_FLOATS, _CHOICE = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(ir.IntType(1), LANES)
_ROW = ir.VectorType(_DOUBLE, 4)
_POINTER = ir.PointerType()
_SIGN, _MAGNITUDE = 2**63, 2**63 - 1
_ANYTHING = ir.Constant(_WORDS, ir.Undefined)


def can_pack() -> bool:
    """Return whether the CPU that numba compiles for packs lanes in one instruction."""
    features = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    return {"+avx512f", "+avx512dq", "+avx512vl"} <= set(features.split(","))


@intrinsic
def count_down(
    typing_context: Any, s: Any, i: Any, out: Any, c0: Any, c1: Any, packed: Any, places: Any,
    count: Any, masks: Any,
) -> Any:  # fmt: skip
    """Write the values of the states from ``i`` on and count them down.

    Those that were in Z are appended to ``packed``, where ``count`` are already, their places to
    ``places``, and one byte tells which they were. Return the new count.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        i, c0, c1, count = args[1], args[3], args[4], args[7]
        old = code.load(code.place(0, i), _WORDS)
        code.prefetch(code.place(0, builder.add(i, ir.Constant(_WORD, AHEAD))))
        magnitude, sign = builder.and_(old, words(_MAGNITUDE)), builder.and_(old, words(_SIGN))
        in_z = builder.icmp_unsigned("<", magnitude, words(ONE_BITS))
        value = builder.select(in_z, code.spread(c1, _DOUBLES), code.spread(c0, _DOUBLES))
        value = builder.bitcast(builder.xor(builder.bitcast(value, _WORDS), sign), _DOUBLES)
        if signature.args[2].dtype == types.float32:
            value = builder.fptrunc(value, _FLOATS)
        code.store(value, code.place(2, i))
        position, longest = builder.bitcast(magnitude, _DOUBLES), doubles(LONGEST)
        is_short = builder.fcmp_ordered("<", position, longest)
        less = builder.fsub(builder.select(is_short, position, longest), doubles(1.0))
        bits = builder.and_(builder.bitcast(less, _WORDS), words(_MAGNITUDE))
        new = builder.or_(bits, sign)
        code.store(new, code.place(0, i))
        lanes = ir.Constant(_WORDS, [ir.Constant(_WORD, lane) for lane in range(LANES)])
        code.store(code.pack(new, in_z), code.place(5, count))
        here = builder.add(code.spread(i, _WORDS), lanes)
        code.store(code.pack(here, in_z), code.place(6, count))
        mask = builder.bitcast(in_z, _BYTE)
        builder.store(mask, code.place(8, builder.lshr(i, ir.Constant(_WORD, 3))))
        return builder.add(count, builder.zext(builder.ctpop(mask), _WORD))

    arguments = (s, types.int64, out, types.float64, types.float64, packed, places, types.int64)
    return types.int64(*arguments, masks), generate


@intrinsic
def send_on(
    typing_context: Any, packed: Any, places: Any, k: Any, first: Any, key: Any, table: Any,
    threshold: Any, product: Any,
) -> Any:  # fmt: skip
    """Replace eight packed states from ``k`` on by their returns, as `fused.visited` does."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        first, key, threshold, product = (code.spread(args[n], _WORDS) for n in (3, 4, 6, 7))
        multiplier = words(MULTIPLIER)
        old = code.load(code.place(0, args[2]), _WORDS)
        index = builder.add(code.load(code.place(1, args[2]), _WORDS), first)
        bits = builder.and_(old, words(_MAGNITUDE))
        h = builder.xor(builder.mul(builder.xor(index, key), multiplier), bits)
        h = builder.mul(builder.xor(h, builder.lshr(h, words(32))), multiplier)
        bits = builder.xor(bits, builder.lshr(h, words(64 - DITHER_BITS)))
        row = builder.sub(builder.lshr(bits, words(ROW_SHIFT)), words(FIRST_ROW))
        c = code.rows(5, builder.shl(row, words(2)))
        x = builder.sitofp(builder.and_(bits, words(OFFSET_MASK)), _DOUBLES)
        b = builder.fadd(builder.fmul(c[3], x), c[2])
        b = builder.fadd(builder.fmul(b, x), c[1])
        b = builder.fadd(builder.fmul(b, x), c[0])
        drawn = builder.sub(builder.and_(h, words((1 << SIGN_BITS) - 1)), threshold)
        drawn = builder.and_(builder.not_(drawn), words(_SIGN))
        new = builder.xor(builder.bitcast(b, _WORDS), drawn)
        code.store(builder.xor(new, builder.and_(old, product)), code.place(0, args[2]))
        return context.get_dummy_value()

    arguments = (packed, places, types.int64, types.uint64, types.uint64, table)
    return types.void(*arguments, types.int64, types.int64), generate


@intrinsic
def put_back(typing_context: Any, s: Any, i: Any, packed: Any, count: Any, masks: Any) -> Any:
    """Put the packed states from ``count`` on into their places among the eight from ``i`` on.

    Return the count of those that are back.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(context, builder, signature, args)
        i, count = args[1], args[3]
        mask = code.load(code.place(4, builder.lshr(i, ir.Constant(_WORD, 3))), _BYTE)
        in_z = builder.bitcast(mask, _CHOICE)
        old = code.load(code.place(0, i), _WORDS)
        code.store(code.unpack(code.place(2, count), in_z, old), code.place(0, i))
        return builder.add(count, builder.zext(builder.ctpop(mask), _WORD))

    return types.int64(s, types.int64, packed, types.int64, masks), generate


@intrinsic
def bits_of(typing_context: Any, x: Any) -> Any:
    """Return the bits of a double as an int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def double_of(typing_context: Any, bits: Any) -> Any:
    """Return the double with these bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Return the position of the lowest set bit of a non-zero word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@intrinsic
def mask_of_visits(typing_context: Any, s: Any, first: Any) -> Any:
    """Return the bit mask of |s| < 1 among the 64 states from ``first`` on, by vector compare."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        word = ir.IntType(64)
        vector = ir.VectorType(word, 64)
        place = builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer())
        states = builder.load(place)
        states.align = 8
        magnitude = ir.Constant(vector, [ir.Constant(word, 2**63 - 1)] * 64)
        one = ir.Constant(vector, [ir.Constant(word, ONE_BITS)] * 64)
        inside = builder.icmp_unsigned("<", builder.and_(states, magnitude), one)
        return builder.bitcast(inside, word)

    return types.uint64(s, types.uint64), generate


@intrinsic
def pointer(typing_context: Any, address: Any) -> Any:
    """Return an address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


class Code:
    """Writes the instructions of one intrinsic; arguments are named by their number."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args

    def place(self, number: int, index: Any) -> Any:
        """Return the address of an element of an array argument."""
        kind = self.signature.args[number]
        data = self.context.make_array(kind)(self.context, self.builder, self.args[number]).data
        size = ir.Constant(_WORD, kind.dtype.bitwidth // 8)
        start = self.builder.ptrtoint(data, _WORD)
        address = self.builder.add(start, self.builder.mul(index, size))
        return self.builder.inttoptr(address, _POINTER)

    def load(self, place: Any, kind: Any) -> Any:
        """Return a vector or number from memory."""
        found = self.builder.load(place, typ=kind)
        found.align = 1
        return found

    def store(self, vector: Any, place: Any) -> None:
        """Write a vector to memory."""
        self.builder.store(vector, place).align = 1

    def prefetch(self, place: Any) -> None:
        """Ask for memory that is needed soon; it need not exist."""
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _INT, _INT, _INT])
        function = self._external("llvm.prefetch.p0", kind)
        hints = [ir.Constant(_INT, hint) for hint in (0, 3, 1)]  # to read, to keep, data
        self.builder.call(function, [place, *hints])

    def spread(self, number: Any, kind: Any) -> Any:
        """Return a vector of equal numbers."""
        zeros = ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES)
        nothing = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(one, nothing, zeros)

    def pack(self, vector: Any, chosen: Any) -> Any:
        """Return the chosen lanes side by side."""
        name = f"llvm.experimental.vector.compress.v{LANES}i64"
        function = self._external(name, ir.FunctionType(_WORDS, [_WORDS, _CHOICE, _WORDS]))
        return self.builder.call(function, [vector, chosen, _ANYTHING])

    def unpack(self, place: Any, chosen: Any, others: Any) -> Any:
        """Return successive words from memory in the chosen lanes, and ``others`` elsewhere."""
        name = f"llvm.masked.expandload.v{LANES}i64"
        function = self._external(name, ir.FunctionType(_WORDS, [_POINTER, _CHOICE, _WORDS]))
        return self.builder.call(function, [place, chosen, others])

    def rows(self, number: int, starts: Any) -> list[Any]:
        """Return columns of eight rows of four doubles that start at elements of an argument."""
        lines = []
        for lane in range(LANES):
            start = self.builder.extract_element(starts, ir.Constant(_INT, lane))
            lines.append(self.load(self.place(number, start), _ROW))
        both = [self._shuffle(lines[i], lines[i + 4], range(8)) for i in range(4)]
        columns: list[Any] = [None] * 4
        for odd in (0, 1):  # columns 0 and 2, then 1 and 3
            turn = [n + odd for n in (0, 8, 2, 10, 4, 12, 6, 14)]
            left, right = (self._shuffle(both[i], both[i + 1], turn) for i in (0, 2))
            columns[odd] = self._shuffle(left, right, (0, 1, 8, 9, 4, 5, 12, 13))
            columns[odd + 2] = self._shuffle(left, right, (2, 3, 10, 11, 6, 7, 14, 15))
        return columns

    def _shuffle(self, a: Any, b: Any, order: Any) -> Any:
        order = list(order)
        return self.builder.shuffle_vector(
            a, b, ir.Constant(ir.VectorType(_INT, len(order)), order)
        )

    def _external(self, name: str, kind: Any) -> Any:
        known = self.builder.module.globals.get(name)
        return known or ir.Function(self.builder.module, kind, name)


def words(number: int) -> Any:
    """Return a vector of equal integers."""
    return ir.Constant(_WORDS, [ir.Constant(_WORD, number)] * LANES)


def doubles(number: float) -> Any:
    """Return a vector of equal doubles."""
    return ir.Constant(_DOUBLES, [ir.Constant(_DOUBLE, number)] * LANES)
