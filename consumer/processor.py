"""Event processors: a Python function of the user's that sees each row between filter and mapping."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib.metadata import entry_points

from cdcbus.plugins.errors import ConfigError, DataError
from cdcbus.plugins.rowchange import RowChange

PROCESSOR_GROUP = "cdcbus.processors"
KEY = "consumer.eventProcessor.className"

Processor = Callable[[RowChange], RowChange | None]
"""Gives the row change to apply, changed or not; None leaves the row out. Called by several threads, in order within a lane."""


def is_python(name: str) -> bool:
    """Whether a processor's name is one of ours: `module:function`, or an entry point; any other is a Java class of porter's."""
    return ":" in name or name in entry_points(group=PROCESSOR_GROUP).names


def make_processor(name: str) -> Processor | None:
    """The processor; a class is made once, without arguments, and called; None for no name. Raises ConfigError."""
    if not name:
        return None
    try:
        added = entry_points(group=PROCESSOR_GROUP)
        found = added[name].load() if name in added.names else pkgutil.resolve_name(name)
        made = found() if isinstance(found, type) else found
    except Exception as error:  # it is the user's code
        raise ConfigError(f"{KEY}={name} cannot be imported: {type(error).__name__}: {error}; it must be on Python's path") from error
    if not callable(made):
        raise ConfigError(f"{KEY}={name} is no function: it is called with a RowChange and gives a RowChange or None")
    return _guarded(name, made)


def _guarded(name: str, process: Callable[[RowChange], object]) -> Processor:
    def call(change: RowChange) -> RowChange | None:
        try:
            processed = process(change)
        except Exception as error:  # its text may hold cell values
            raise DataError(f"event processor {name} raised {type(error).__name__} on a row of {change.table.id}") from error
        if processed is not None and not isinstance(processed, RowChange):
            found = f"gave a {type(processed).__name__} for a row of {change.table.id}"
            raise DataError(f"event processor {name} {found}; expected a RowChange or None")
        return processed

    return call
