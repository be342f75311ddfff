"""Records that compiled code takes by one pointer.

To unpack a hundred arrays at every call would cost more than a small call itself.

    kept = keep(parts)      once; the memory of the arrays is shared
    kept.parts              in compiled code
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.experimental import structref

from tapgnn.compiled.jit import compile_loop


@structref.register
class _KeptType(types.StructRef):
    """The type of what is kept, by that of its parts."""


class Kept(structref.StructRefProxy):
    """Some parts, a tuple of records; see the module."""


structref.define_constructor(Kept, _KeptType, ["parts"])  # type: ignore[no-untyped-call]
structref.define_attributes(_KeptType)  # type: ignore[no-untyped-call]
structref.define_boxing(_KeptType, Kept)  # type: ignore[no-untyped-call]


@compile_loop
def keep(parts: Any) -> Any:
    """The parts as one thing."""
    return Kept(parts)  # type: ignore[no-untyped-call]
