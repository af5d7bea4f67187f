"""Converters: they turn row changes into record values and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from cdcbus.plugins.rowchange import RowChange, TableDdl

if TYPE_CHECKING:
    import pyarrow as pa

    from cdcbus.plugins.converters.columnar import Columns


class Converter(Protocol):
    """Turns row changes into a Kafka record's value and back. Pure; one instance serves many
    threads."""

    def to_bytes(self, change: RowChange) -> bytes:
        """The record value of one row change."""
        ...

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The row changes of one record, in order; empty for records that hold none by design
        (heartbeats, transaction marks). Raises ConversionError for anything it cannot read:
        never skips."""
        ...


@runtime_checkable
class ColumnarConverter(Converter, Protocol):
    """A converter that can also read many records together, which is several times as fast."""

    def read_columns(self, records: pa.BinaryArray) -> Columns:
        """The row changes of record values as columns, equal to what `from_bytes` reads; records
        that cannot be read this way are in the rest."""
        ...


@runtime_checkable
class DdlConverter(Converter, Protocol):
    """A converter that also has a form for DDL: a record for which `from_bytes` returns nothing."""

    def ddl_to_bytes(self, ddl: TableDdl) -> bytes:
        """The record value of one statement. Not for a TRUNCATE, which is a row change."""
        ...


@runtime_checkable
class JoiningConverter(Converter, Protocol):
    """A converter whose records can hold many rows."""

    def joined(self, values: Sequence[bytes]) -> bytes:
        """One record value with the rows of many, in order. Each value is one that `to_bytes`
        returns, of the same table, operation and origin."""
        ...


@runtime_checkable
class MarkingConverter(Converter, Protocol):
    """A converter whose records can say that a snapshot sent them. For any other converter a Kafka
    header says so, which costs more."""

    @property
    def marks_snapshots(self) -> bool:
        """Whether the records say so."""
        ...
