"""Cuts records of one shape into their cells.

The texts that all of them share at both ends are compared and cut off, and so is the longest text
within. Arrow's CSV reader cuts the remaining lines at their quotation marks. Then each line is put
together again from its pieces: a line that comes out byte for byte has been read correctly, any
other is left to `from_bytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from cdcbus.plugins.converters.arrow.shape import NUMBER, Shape

# Few enough for a processor's cache.
BLOCK_ROWS: Final = 4000
# A text of this length is removed first, as each of its quotation marks would cost a cut.
LONG_TEXT_BYTES: Final = 100
NULL: Final = b"\x01"
BACKSLASH: Final = b"\x02"
QUOTE: Final = b"\x03"
LONG_TEXT: Final = b"\x04"
ESCAPES: Final = ((rb"\\", BACKSLASH), (rb"\"", QUOTE))
ANY_ESCAPE: Final = "[\\\\\x02\x03]"
# Scalars, because with a bare Python value Arrow tries to import dateutil on each call; where that
# is not installed, Python searches for it each time.
NOTHING: Final = pa.scalar("", pa.string())
LINE_BREAK: Final = pa.scalar("\n", pa.string())


def cut_in_blocks(
    shape: Shape, values: pa.BinaryArray, places: pa.Array
) -> tuple[pa.Array, list[pa.Array]]:
    """The places of the records that have the shape, and the contents of their placeholders; no
    contents where no record has it. Raises ArrowInvalid, ValueError."""
    kept: list[pa.Array] = []
    cells_by_block: list[list[pa.Array]] = []
    for start in range(0, len(places), BLOCK_ROWS):
        block = places[start : start + BLOCK_ROWS]
        found, cells_of_block = cut(shape, taken(values, block), block)
        if len(found):
            kept.append(found)
            cells_by_block.append(cells_of_block)
    if not kept:
        return places[:0], []
    cells = [pa.concat_arrays(blocks) for blocks in zip(*cells_by_block, strict=True)]
    return pa.concat_arrays(kept), cells


def taken(values: pa.BinaryArray, places: pa.Array) -> pa.BinaryArray:
    """The values at ascending places."""
    first = places[0].as_py()
    last = places[-1].as_py()
    has_gaps = last - first >= len(places)
    if has_gaps:
        return values.take(places)
    # A slice copies nothing.
    return values.slice(first, len(places))


def cut(shape: Shape, values: pa.BinaryArray, places: pa.Array) -> tuple[pa.Array, list[pa.Array]]:
    """Does the same for one block, whose records are `values`."""
    values, places = filtered(shape.encloses(values), values, places)
    lines = pc.binary_slice(values, len(shape.start), -shape.bytes_after_slots)
    if len(lines) and pc.min(_bytes(lines)).as_py() < ord(" "):
        raise ValueError("not JSON on one line")
    lines, places, texts = _without_long_text(lines, places, list(shape.texts))
    if not len(lines):
        return places, []
    lines = lines.cast(pa.string())
    has_escapes = b"\\" in lines.buffers()[2].to_pybytes()
    lines, texts = _with_marks(lines, texts, has_escapes)
    skipped, fields = _fields(lines, texts)
    if skipped:
        is_kept = [True] * len(lines)
        for number in skipped:
            is_kept[number] = False
        lines, places = filtered(pa.array(is_kept), lines, places)
    # Only a line that equals its joined pieces has been read correctly.
    is_right = pc.equal(_joined(fields, texts), lines)
    for placeholder, field in zip(shape.placeholders, fields, strict=True):
        if not placeholder.is_text:
            is_right = pc.and_(is_right, pc.match_substring_regex(field, NUMBER))
    places, *fields = filtered(is_right, places, *fields)
    if has_escapes:
        fields = list(map(_unescaped, fields))
    return places, fields


def _with_marks(
    lines: pa.Array, texts: list[bytes], has_escapes: bool
) -> tuple[pa.Array, list[bytes]]:
    """Lines and texts in which quotation marks only enclose texts: NULL gets some as well, and
    those within texts are replaced."""
    replaced = [(b":null", b':"' + NULL + b'"')]
    if has_escapes:
        replaced += ESCAPES
    for old, new in replaced:
        lines = pc.replace_substring(lines, old, new)
        texts = [text.replace(old, new) for text in texts]
    return lines, texts


def _without_long_text(
    lines: pa.Array, places: pa.Array, texts: list[bytes]
) -> tuple[pa.Array, pa.Array, list[bytes]]:
    """The lines that contain the longest of the texts, and the texts, with one character in its
    place, as each of its quotation marks would cost a cut."""
    longest = max(texts, key=len)
    if len(longest) < LONG_TEXT_BYTES:
        return lines, places, texts
    # Searching for a text that begins with a rare character is faster.
    start = max(longest.find(b"{", 0, len(longest) // 2), 1)
    inner = longest[start:-1]
    cut = pc.replace_substring(lines, inner, LONG_TEXT, max_replacements=1)
    has_it = pc.not_equal(pc.binary_length(lines), pc.binary_length(cut))
    lines, places = filtered(has_it, cut, places)
    texts[texts.index(longest)] = longest.replace(inner, LONG_TEXT)
    return lines, places, texts


def _joined(fields: Sequence[pa.Array], texts: Sequence[bytes]) -> pa.Array:
    """The lines put together again: the fields with the texts between them."""
    parts = [fields[0]]
    for text, field in zip(pa.array(texts, pa.string()), fields[1:], strict=True):
        parts += (text, field)
    return pc.binary_join_element_wise(
        *parts, NOTHING, null_handling="replace", null_replacement=NULL.decode()
    )


def _bytes(texts: pa.BinaryArray) -> pa.Array:
    """All bytes of the texts, one after the other."""
    data = texts.buffers()[2]
    return pa.Array.from_buffers(pa.uint8(), data.size, [None, data])


def filtered(mask: pa.BooleanArray, *arrays: pa.Array) -> list[pa.Array]:
    """The arrays where the mask is true. Usually it is true everywhere, and nothing is copied."""
    if pc.all(mask).as_py():
        return list(arrays)
    return [array.filter(mask) for array in arrays]


def _fields(lines: pa.StringArray, texts: Sequence[bytes]) -> tuple[set[int], list[pa.Array]]:
    """Returns the numbers of the lines whose count of quotation marks differs from that of `texts`;
    and for all other lines, the pieces before, between and after the texts."""
    skipped: set[int] = set()

    def skip(row: csv.InvalidRow) -> str:
        skipped.add(row.number - 1)
        return "skip"

    # A line is cut at each quotation mark, including those of the texts: only the pieces that are
    # not part of a text are kept.
    marks = [text.count(b'"') for text in texts]
    kept = [0, *accumulate(marks)]
    pieces = [f"f{number}" for number in range(sum(marks) + 1)]
    names = [pieces[number] for number in kept]
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    data = pc.binary_join(whole, LINE_BREAK)[0].as_buffer()
    table = csv.read_csv(
        data,
        csv.ReadOptions(use_threads=False, column_names=pieces, block_size=data.size + 1),
        csv.ParseOptions(
            delimiter='"',
            quote_char=False,
            double_quote=False,
            invalid_row_handler=skip,
            ignore_empty_lines=False,
        ),
        csv.ConvertOptions(
            # The cast to strings has checked the lines.
            check_utf8=False,
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[NULL.decode()],
            strings_can_be_null=True,
        ),
    )
    return skipped, [table.column(name).combine_chunks() for name in names]


def _unescaped(cells: pa.Array) -> pa.Array:
    """Cells without their JSON escapes. Raises ValueError."""
    is_escaped = pc.fill_null(pc.match_substring_regex(cells, ANY_ESCAPE), False)
    escaped = cells.filter(is_escaped).to_pylist()
    if not escaped:
        return cells
    # One call for all of them.
    message = '["' + '","'.join(escaped) + '"]'
    for escape, mark in ESCAPES:
        message = message.replace(mark.decode(), escape.decode())
    texts = orjson.loads(message)
    return pc.replace_with_mask(cells, is_escaped, pa.array(texts, pa.string()))
