"""The contracts of the exchangeable parts. Implementations: `converters/`, `loaders/`,
`cdcbus.tasks.zookeeper.position.store`."""

from cdcbus.plugins.contracts.applied_offset import AppliedOffset, Details, OffsetTable
from cdcbus.plugins.contracts.converters import (
    ColumnarConverter,
    Converter,
    DdlConverter,
    JoiningConverter,
    MarkingConverter,
)
from cdcbus.plugins.contracts.loader import (
    VERSION,
    JdbcTarget,
    KnownRow,
    Loader,
    LoadTransaction,
    RowVersion,
    ZeroDate,
)
from cdcbus.plugins.contracts.stores import (
    NO_MARK,
    Landmark,
    Mark,
    PositionStore,
    SchemaStore,
    SentLog,
    Written,
)
from cdcbus.plugins.contracts.table_batch import Counts, Moves, Swaps, TableBatch, Writes
from cdcbus.plugins.contracts.target_table import CascadingKey, TargetColumn, TargetTable

__all__ = [
    "NO_MARK",
    "VERSION",
    "AppliedOffset",
    "CascadingKey",
    "ColumnarConverter",
    "Converter",
    "Counts",
    "DdlConverter",
    "Details",
    "JdbcTarget",
    "JoiningConverter",
    "KnownRow",
    "Landmark",
    "LoadTransaction",
    "Loader",
    "Mark",
    "MarkingConverter",
    "Moves",
    "OffsetTable",
    "PositionStore",
    "RowVersion",
    "SchemaStore",
    "SentLog",
    "Swaps",
    "TableBatch",
    "TargetColumn",
    "TargetTable",
    "Writes",
    "Written",
    "ZeroDate",
]
