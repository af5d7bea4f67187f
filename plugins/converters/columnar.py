"""Batches of records as columns: the same row changes that `from_bytes` reads one by one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from cdcbus.plugins.contracts import ColumnarConverter, Converter
from cdcbus.plugins.rowchange import Op, Table


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Row changes of one table and operation with the same columns, one per record. All arrays have
    the same length."""

    table: Table
    op: Op
    # The indexes of the records in the batch, ascending (int64).
    records: pa.Array
    # As in RowChange, but with a column of texts in place of each cell.
    before: Mapping[str, pa.Array] | None
    after: Mapping[str, pa.Array] | None
    # As in Origin (int64).
    commit_us: pa.Array


@dataclass(frozen=True, slots=True)
class Columns:
    """A batch as columns."""

    groups: list[RowGroup]
    # The indexes of the records that are in no group, ascending: `from_bytes` reads them, or raises
    # what is wrong with them.
    rest: list[int]


def read_columns(records: pa.BinaryArray, converter: Converter) -> Columns:
    """The row changes of record values, in the order of `records`, without their places in the
    binlog.

    The rest also holds records without a value, and all records of a format that cannot be read as
    columns. No record makes this raise.
    """
    if isinstance(converter, ColumnarConverter):
        return converter.read_columns(records)
    return Columns([], list(range(len(records))))
