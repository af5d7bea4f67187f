"""Cuts records of one shape into their cells: compiled (`cut.c`), or with Arrow where that is not
built or `CDCBUS_PURE_PYTHON` is set (`cut.py`)."""

from __future__ import annotations

import os
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.plugins.converters.arrow.cut import cut_in_blocks
from cdcbus.plugins.converters.arrow.shape import Shape

try:
    from cdcbus.plugins.converters.arrow import _cut as built
except ImportError:
    built = None  # type: ignore[assignment]

INTERFACE: Final = 1
"""The version of the values passed to the compiled part and returned by it."""
if built is not None and (
    built.INTERFACE != INTERFACE or os.environ.get("CDCBUS_PURE_PYTHON")
):  # built from another version, or must not be used
    built = None  # type: ignore[assignment]
compiled = built.cut if built is not None else None
"""None if it is not built, or must not be used."""


def cells_of(
    shape: Shape, values: pa.BinaryArray, places: pa.Array
) -> tuple[pa.Array, list[pa.Array]]:
    """The places of the records that have the shape, and the contents of their placeholders; no
    contents where no record has it. `places`: those of the records that can have it, ascending.
    Raises ArrowInvalid, ValueError."""
    if compiled is None:
        return cut_in_blocks(shape, values, places)
    _, ends, data = values.buffers()
    last = shape.before_stamp if shape.stamp_bytes else shape.end
    are_texts = bytes(placeholder.is_text for placeholder in shape.placeholders)
    kept, columns = compiled(
        (shape.start, *shape.texts, last),
        are_texts,
        shape.stamp_bytes,
        shape.end,
        ends,
        values.offset,
        data,
        _whole(places),
    )
    count = len(kept) // 8
    found = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(kept)])
    if not count:
        return found, []
    cells: list[pa.Array] = []
    for *buffers, may_have_escapes in columns:
        raw = pa.Array.from_buffers(pa.binary(), count, list(map(pa.py_buffer, buffers)))
        # The cast checks that they are UTF-8.
        texts = raw.cast(pa.string())
        cells.append(_unescaped(texts) if may_have_escapes else texts)
    return found, cells


def _whole(places: pa.Array) -> pa.Buffer:
    """The places as a buffer of their own."""
    return places.buffers()[1].slice(8 * places.offset, 8 * len(places))


def _unescaped(cells: pa.StringArray) -> pa.Array:
    """Cells without their JSON escapes. Raises ValueError."""
    is_escaped = pc.fill_null(pc.match_substring(cells, "\\"), False)
    escaped = cells.filter(is_escaped).to_pylist()
    # One call for all of them.
    texts = orjson.loads('["' + '","'.join(escaped) + '"]') if escaped else []
    return pc.replace_with_mask(cells, is_escaped, pa.array(texts, pa.string()))
