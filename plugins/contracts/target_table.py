"""A target table as reflected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdcbus.plugins.rowchange import TableId


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A target column."""

    name: str
    # The target's own type name as a cast spells it, without length: `varchar`, `bytea`, `"bit"`.
    type: str
    # The declared length, a decimal's digits, or a time's digits after the point: -2 where
    # PostgreSQL's interval has no seconds, -4 without minutes, -6 without hours, too.
    length: int | None = None
    is_nullable: bool = True
    # The target computes the column, so it is never written.
    is_generated: bool = False
    # An insert must name the column: it is neither nullable nor has a default.
    is_required: bool = False
    # The digits after the point of a decimal, or of PostgreSQL's money.
    scale: int | None = None
    # The whole type as MySQL spells it (`int(10) unsigned auto_increment`), or as it would spell
    # an enum type of PostgreSQL (`enum('a','b')`).
    declared: str = ""
    # Only an insert may give the column its value (GENERATED ALWAYS AS IDENTITY).
    is_fixed: bool = False
    # Different texts, such as `a` and `A`, can be equal in it.
    is_folding: bool = False


@dataclass(frozen=True, slots=True)
class CascadingKey:
    """A foreign key with an action: the target itself changes or deletes rows of `child` where a
    row of `parent` is deleted, or gets another value in a column that the key names. `on_delete`,
    `on_update`: the action, as `CASCADE`, `SET NULL` or `SET DEFAULT`; else empty."""

    child: TableId
    parent: TableId
    on_delete: str
    on_update: str


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A target table as reflected."""

    id: TableId
    # The columns by name, in the table's order.
    columns: Mapping[str, TargetColumn]
    # The primary key, else a unique key without nullable columns, else empty.
    key: tuple[str, ...]
    # The other unique keys. A key that is more than its columns (an expression, a prefix, a
    # condition) is an empty tuple.
    unique_keys: tuple[tuple[str, ...], ...] = ()
    # SQLAlchemy's name of the target's kind: `postgresql`, `mysql`, `oracle`.
    dialect: str = ""
    # Why nothing may be written to the table, as a sentence with the remedy; else empty.
    unsafe: str = ""
    # The key is, or can be, checked at the commit, so no upsert can use it.
    is_key_deferrable: bool = False
    # Sentences for `task check` on other properties of the table that affect rows.
    remarks: tuple[str, ...] = ()
    # Its loader applies `TableBatch.moves`.
    can_move: bool = False
    # The foreign keys with an action in which the table is child or parent. Changes of such tables
    # are applied in the source's order.
    cascades: tuple[CascadingKey, ...] = ()

    @property
    def key_columns(self) -> list[TargetColumn]:
        """The columns of the key, in its order."""
        return [self.columns[name] for name in self.key]
