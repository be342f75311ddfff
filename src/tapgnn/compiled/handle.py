"""Records that compiled code takes by one pointer.

To unpack a hundred arrays at every call would cost more than a small call itself.

    handle = make_handle(parts)      once; the memory of the arrays is shared
    handle.parts                     in compiled code
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.experimental import structref

from tapgnn.compiled.jit import compile_loop


@structref.register
class _HandleType(types.StructRef):
    """The type of a handle, by that of its parts."""


class Handle(structref.StructRefProxy):
    """Some parts, a tuple of records; see the module."""


structref.define_constructor(Handle, _HandleType, ["parts"])  # type: ignore[no-untyped-call]
structref.define_attributes(_HandleType)  # type: ignore[no-untyped-call]
structref.define_boxing(_HandleType, Handle)  # type: ignore[no-untyped-call]


@compile_loop
def make_handle(parts: Any) -> Any:
    """The parts as one thing."""
    return Handle(parts)  # type: ignore[no-untyped-call]
