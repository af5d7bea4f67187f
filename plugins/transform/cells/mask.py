"""Masks for cells that must not reach the target unchanged. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from cdcbus.plugins.rowchange import Cell, Column

TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
# Numbers of java.sql.Types.
CHAR, VARCHAR = 1, 12
FORMS = "hash, hash:SALT, truncate:N or fixed:TEXT"


@dataclass(frozen=True, slots=True)
class Mask:
    """The replacement of a cell; NULL stays NULL.

    `hash`: the SHA-256 of salt and cell, in hexadecimal digits. `truncate`: the first `length`
    characters. `fixed`: always `text`.
    """

    kind: str
    length: int = 0
    text: str = field(default="", repr=False)

    @property
    def keeps_difference(self) -> bool:
        """Whether different cells stay different, as a key requires."""
        return self.kind == "hash"

    def cell(self, cell: Cell) -> Cell:
        if cell is None:
            return None
        if self.kind == "hash":
            return hashlib.sha256((self.text + cell).encode()).hexdigest()
        return cell[: self.length] if self.kind == "truncate" else self.text

    def column(self, column: Column) -> Column:
        """The column with a type for masked cells: text, whatever it was before, except that
        truncated bytes stay bytes."""
        if self.kind == "hash":
            return replace(column, mysql_type="char(64)", sql_type=CHAR)
        if self.kind == "fixed":
            return replace(column, mysql_type=f"varchar({len(self.text)})", sql_type=VARCHAR)
        if column.is_binary or column.mysql_type.startswith(TEXTS):
            return column
        return replace(column, mysql_type=f"varchar({self.length})", sql_type=VARCHAR)


def read_mask(text: str) -> Mask:
    """The mask of a task file's text. Raises ValueError for any other text than FORMS."""
    kind, colon, rest = text.partition(":")
    if kind == "hash" and bool(colon) == bool(rest):
        return Mask(kind, text=rest)
    if kind == "truncate" and rest.isascii() and rest.isdigit():
        return Mask(kind, length=int(rest))
    if kind == "fixed" and colon:
        return Mask(kind, text=rest)
    raise ValueError("not a mask")
