"""What a generated writer needs from a wire format: the texts that all rows of one event share, and
the placeholders between them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, runtime_checkable

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.rowchange import Op, Origin, Table


class Placeholder(Enum):
    """A part that differs between records of one template."""

    BEFORE = auto()
    """The before image as a JSON object of column name to text or null, in column order; only
    the columns present."""
    AFTER = auto()
    """The after image, likewise."""
    OLD = auto()
    """The before image, but only columns that the after image lacks or has with another value."""
    ROW = auto()
    """The row's number in its transaction."""
    IS_LAST = auto()
    """`true` for the transaction's last row, else `false`."""


@dataclass(frozen=True, slots=True)
class RecordTemplate:
    """A record is the first text, the first placeholder, the second text, and so on; there is one
    more text than placeholders."""

    placeholders: tuple[Placeholder, ...]
    texts: Callable[[Origin], tuple[str, ...]]


@runtime_checkable
class TemplateConverter(Converter, Protocol):
    """A converter whose records of one table and operation follow a template, with the same bytes
    as `to_bytes`."""

    def template(
        self, table: Table, op: Op, before: Collection[str] = (), after: Collection[str] = ()
    ) -> RecordTemplate | None:
        """The template of INSERT, UPDATE or DELETE records of a table; None when `to_bytes` alone
        can write them. `before`, `after`: the columns of an UPDATE's images, in order."""
        ...
