"""What loops over rows need that numba has no word for.

Three things make such a loop slow that do not show in its text. A row cut out of an array is counted up and down
(`row_at` is not). The compiler cannot know that two arrays do not overlap, and checks it before every loop (a
`new_line` overlaps nothing). And numbers that were written one by one cannot be read together before they have reached
the cache (`spread` writes many at once).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import carray  # type: ignore[attr-defined]
from numba.core import types
from numba.extending import intrinsic

from tapgnn.compiled.jit import fast

# float32 numbers in a cache line.
LINE = 16
# How many rows before its turn a scattered row is fetched.
ROWS_AHEAD = 4


def _make_fetch(typing: Any, address: Any) -> Any:
    """Ask for the line at an address early: the processor's own prefetcher stops at the end of every page."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        to_read, used_once, data = (ir.Constant(flag, value) for value in (0, 0, 1))
        builder.call(prefetch, [builder.inttoptr(arguments[0], pointer), to_read, used_once, data])
        return context.get_dummy_value()

    return types.void(types.intp), generate


def _pointer_to(like: Any) -> Any:
    return types.CPointer(like.dtype)  # type: ignore[no-untyped-call]


def _make_room(typing: Any, size: Any, like: Any) -> Any:
    """Room on the stack for so many numbers of the type of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room = builder.alloca(context.get_data_type(like.dtype), size=arguments[0])
        room.align = 4 * LINE
        return room

    return _pointer_to(like)(types.intp, like), generate


def _make_pointer(typing: Any, address: Any, like: Any) -> Any:
    """The pointer at an address, to numbers of the type of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_data_type(like.dtype).as_pointer())

    return _pointer_to(like)(types.intp, like), generate


def _make_fill(typing: Any, row: Any, start: Any, value: Any) -> Any:
    """Write a value LINE times into a row, from `start` on, at once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(context.get_data_type(row.dtype), LINE)
        nothing, lanes = ir.Constant(vector, ir.Undefined), ir.VectorType(ir.IntType(32), LINE)
        number = context.cast(builder, arguments[2], value, row.dtype)
        one = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
        all_of_them = builder.shuffle_vector(one, nothing, ir.Constant(lanes, [0] * LINE))
        place = builder.gep(context.make_array(row)(context, builder, arguments[0]).data, [arguments[1]])
        builder.store(all_of_them, builder.bitcast(place, vector.as_pointer()), align=row.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(row, types.intp, value), generate


_fetch_line: Any = intrinsic(_make_fetch)
_room: Any = intrinsic(_make_room)
_pointer: Any = intrinsic(_make_pointer)
_fill: Any = intrinsic(_make_fill)


@fast
def row_address(table, row):  # type: ignore[no-untyped-def]
    """Where a row starts."""
    return table.ctypes.data + row * table.strides[0]


@fast
def row_at(address, shape, like):  # type: ignore[no-untyped-def]
    """The numbers at an address, of the type of an array, as an array that is not counted up and down."""
    return carray(_pointer(address, like), shape)


@fast
def fetch(table, row):  # type: ignore[no-untyped-def]
    """Ask early for a row that is out of the order of memory, so that it is there when it is needed."""
    start = row_address(table, row)
    for offset in range(0, table.shape[1] * table.itemsize, 4 * LINE):
        _fetch_line(start + offset)


@fast
def new_line(width, like):  # type: ignore[no-untyped-def]
    """A row to work in, of the type of an array: on the stack, so that the compiler knows that no array overlaps it."""
    return carray(_room(width, like), (width,))


@fast
def spread(borders, by_group, by_channel):  # type: ignore[no-untyped-def]
    """Give channels borders[g] to borders[g+1] the value of group g: loops over channels then vectorise.

    Whole lines are written, over the end of a group and into LINE numbers of room that follow the last. To read them at
    once would wait until they have reached the cache: call it well before its result is needed.
    """
    for g in range(len(borders) - 1):
        for j in range(borders[g], borders[g + 1], LINE):
            _fill(by_channel, j, by_group[g])
