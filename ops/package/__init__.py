"""A change-data-capture bus: binlog to Kafka to tables.

The names in `__all__` are the public API, described in docs/api.md: what formats, event processors
and programs of other packages use. They are imported on first access, so that `import cdcbus` costs
nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# For type checkers and editors; at run time `__getattr__` imports.
if TYPE_CHECKING:
    from cdcbus.ops.alarms.added_channels import AlarmChannel
    from cdcbus.ops.alarms.channels import Message, NotAccepted, Receiver
    from cdcbus.plugins.added.sources import RecordSource, SourcePlace, SourceRows
    from cdcbus.plugins.contracts import (
        AppliedOffset,
        ColumnarConverter,
        Converter,
        Counts,
        DdlConverter,
        Details,
        JdbcTarget,
        JoiningConverter,
        KnownRow,
        Landmark,
        Loader,
        LoadTransaction,
        Moves,
        OffsetTable,
        RowVersion,
        Swaps,
        TableBatch,
        TargetColumn,
        TargetTable,
        Writes,
    )
    from cdcbus.plugins.converters.columnar import Columns, RowGroup
    from cdcbus.plugins.errors import (
        BusError,
        CdcError,
        ConfigError,
        ConversionError,
        DataError,
        OffsetConflict,
        PositionError,
        PositionLost,
        RowConflict,
        SourceError,
        SourceMisconfigured,
        SourceUnavailable,
        TargetError,
        TargetMisconfigured,
        TargetRejected,
        TargetUnavailable,
        UnreadableEvent,
    )
    from cdcbus.plugins.registry import converter_names, make_converter
    from cdcbus.plugins.rowchange import (
        Cell,
        Column,
        Op,
        Origin,
        Row,
        RowChange,
        Table,
        TableDdl,
        TableId,
    )
    from cdcbus.tasks.config.read_task import ReadTask, read_task
    from cdcbus.tasks.preflight.check import check_task
    from cdcbus.tasks.runtime.runner import run_task

_MODULES = {
    "cdcbus.plugins.rowchange": (
        "Cell",
        "Column",
        "Op",
        "Origin",
        "Row",
        "RowChange",
        "Table",
        "TableDdl",
        "TableId",
    ),
    "cdcbus.plugins.added.sources": ("RecordSource", "SourcePlace", "SourceRows"),
    "cdcbus.plugins.contracts": (
        "AppliedOffset",
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
        "Moves",
        "OffsetTable",
        "RowVersion",
        "Swaps",
        "TableBatch",
        "TargetColumn",
        "TargetTable",
        "Writes",
    ),
    "cdcbus.plugins.converters.columnar": ("Columns", "RowGroup"),
    "cdcbus.plugins.registry": ("converter_names", "make_converter"),
    "cdcbus.plugins.errors": (
        "BusError",
        "CdcError",
        "ConfigError",
        "ConversionError",
        "DataError",
        "OffsetConflict",
        "PositionError",
        "PositionLost",
        "RowConflict",
        "SourceError",
        "SourceMisconfigured",
        "SourceUnavailable",
        "TargetError",
        "TargetMisconfigured",
        "TargetRejected",
        "TargetUnavailable",
        "UnreadableEvent",
    ),
    "cdcbus.ops.alarms.added_channels": ("AlarmChannel",),
    "cdcbus.ops.alarms.channels": ("Message", "NotAccepted", "Receiver"),
    "cdcbus.tasks.config.read_task": ("ReadTask", "read_task"),
    "cdcbus.tasks.preflight.check": ("check_task",),
    "cdcbus.tasks.runtime.runner": ("run_task",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AlarmChannel",
    "AppliedOffset",
    "BusError",
    "CdcError",
    "Cell",
    "Column",
    "ColumnarConverter",
    "Columns",
    "ConfigError",
    "ConversionError",
    "Converter",
    "Counts",
    "DataError",
    "DdlConverter",
    "Details",
    "JdbcTarget",
    "JoiningConverter",
    "KnownRow",
    "Landmark",
    "LoadTransaction",
    "Loader",
    "Message",
    "Moves",
    "NotAccepted",
    "OffsetConflict",
    "OffsetTable",
    "Op",
    "Origin",
    "PositionError",
    "PositionLost",
    "ReadTask",
    "Receiver",
    "RecordSource",
    "Row",
    "RowChange",
    "RowConflict",
    "RowGroup",
    "RowVersion",
    "SourceError",
    "SourceMisconfigured",
    "SourcePlace",
    "SourceRows",
    "SourceUnavailable",
    "Swaps",
    "Table",
    "TableBatch",
    "TableDdl",
    "TableId",
    "TargetColumn",
    "TargetError",
    "TargetMisconfigured",
    "TargetRejected",
    "TargetTable",
    "TargetUnavailable",
    "UnreadableEvent",
    "Writes",
    "__version__",
    "check_task",
    "converter_names",
    "make_converter",
    "read_task",
    "run_task",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    # Later accesses find it without this function.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
