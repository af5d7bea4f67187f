"""Cells of whole Arrow columns as SQL text: what the loaders make of cells one by one, for many
at a time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

NUMBER: Final = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"


def has_any(cells: pa.Array, *substrings: str) -> bool:
    """Whether one of these stands in the text that the cells are together: in one of them, or
    from one to the next. To look for one character takes a twentieth of the time that it takes
    to tell which cells have it."""
    data = pa.concat_arrays([cells]).buffers()[2]  # of a slice its own, None without any
    text = b"" if data is None else data.to_pybytes()
    return any(substring.encode() in text for substring in substrings)


def are_numbers(cells: pa.Array) -> bool:
    """Whether all cells but the NULLs are numbers as SQL writes them; a line break at the end is
    none."""
    return pc.all(pc.match_substring_regex(cells, NUMBER)).as_py() is not False and not has_any(
        cells, "\n"
    )


def array_literal(cells: pa.Array) -> str:
    """PostgreSQL's text of an array."""
    if has_any(cells, "\\", '"'):
        cells = pc.replace_substring(pc.replace_substring(cells, "\\", "\\\\"), '"', '\\"')
    quoted = pc.fill_null(
        pc.binary_join_element_wise(_text('"'), cells, _text('"'), _text("")), "NULL"
    )
    return "{" + _joined(quoted) + "}"


def text_literals(cells: pa.Array) -> pa.Array:
    """SQL text literals, for a session without backslash escapes."""
    if has_any(cells, "'"):
        cells = pc.replace_substring(cells, "'", "''")
    return pc.fill_null(
        pc.binary_join_element_wise(_text("'"), cells, _text("'"), _text("")), "NULL"
    )


def number_literals(cells: pa.Array) -> pa.Array:
    """Numbers as they stand."""
    return pc.fill_null(cells, "NULL")


def rows_of(literals: Sequence[pa.Array]) -> list[str]:
    """`(1, 'a', NULL)` of each row."""
    joined = pc.binary_join_element_wise(*literals, _text(", "))
    rows: list[str] = pc.binary_join_element_wise(
        _text("("), joined, _text(")"), _text("")
    ).to_pylist()
    return rows


def _joined(cells: pa.Array) -> str:
    whole: str = pc.binary_join(
        pa.ListArray.from_arrays(pa.array([0, len(cells)], pa.int32()), cells), _text(",")
    )[0].as_py()
    return whole


def _text(text: str) -> pa.Scalar:
    """What it is is said: see `plugins.columnar`."""
    return pa.scalar(text, pa.string())
