"""Event processors: a user's Python function that receives each row between filter and mapping, and
returns the changes to apply instead."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from types import GeneratorType

from cdcbus.plugins.added.entry_points import PROCESSORS, is_added, load_added
from cdcbus.plugins.errors import ConfigError, DataError
from cdcbus.plugins.rowchange import RowChange

KEY = "consumer.eventProcessor.className"

Processor = Callable[[RowChange], Sequence[RowChange]]
"""Returns the row changes to apply in place of one, in order; an empty sequence leaves it out.
Called by several threads; in order within a partition, except for rows read again or ahead.

The user's function can return a RowChange, None, or a list, tuple or generator of RowChanges.
"""
EXPECTED = "expected a RowChange, None, or a list, tuple or generator of RowChanges"
CELLS = frozenset({str, type(None)})


def is_python(name: str) -> bool:
    """Whether a processor's name is one of ours: `module:function`, or an entry point; any other is
    a Java class of porter."""
    return ":" in name or is_added(name, PROCESSORS)


def make_processor(name: str) -> Processor | None:
    """The processor of this name; None for an empty name. A class is instantiated once, without
    arguments, and the instance is called. Raises ConfigError."""
    if not name:
        return None
    try:
        if is_added(name, PROCESSORS):
            found = load_added(PROCESSORS, name, ())
        else:
            found = pkgutil.resolve_name(name)
        made = found() if isinstance(found, type) else found
    except ConfigError as error:
        raise ConfigError(f"{KEY}={name}: {error}") from error
    # The user's code can raise anything.
    except Exception as error:
        raise ConfigError(
            f"{KEY}={name} cannot be imported: {type(error).__name__}: {error}; it must be on "
            "Python's path"
        ) from error
    if not callable(made):
        raise ConfigError(
            f"{KEY}={name} is not a function: it is called with a RowChange, and returns the "
            "changes to apply"
        )
    return _guarded(name, made)


def _guarded(name: str, process: Callable[[RowChange], object]) -> Processor:
    def call(change: RowChange) -> Sequence[RowChange]:
        try:
            rows = _listed(process(change))
        except Exception as error:
            # Only its type, as its text can hold cell values.
            raise DataError(
                f"event processor {name} raised {type(error).__name__} on a row of "
                f"{change.table.id}"
            ) from error
        made: list[RowChange] = []
        for row in rows:
            if not isinstance(row, RowChange):
                raise DataError(
                    f"event processor {name} gave a {type(row).__name__} for a row of "
                    f"{change.table.id}; {EXPECTED}"
                )
            for image in (row.before, row.after):
                if image is not None and not (
                    isinstance(image, Mapping) and CELLS.issuperset(map(type, image.values()))
                ):
                    _check_cells(name, row, image)
            made.append(row)
        return made

    return call


def _check_cells(name: str, row: RowChange, image: object) -> None:
    """Raises DataError for an image that is not a row, and for a cell that is neither text, which
    can be of a subclass of str, nor NULL."""
    if not isinstance(image, Mapping):
        raise DataError(
            f"event processor {name} gave a {type(image).__name__} as a row of {row.table.id}; "
            "expected a dict of cells"
        )
    for column, cell in image.items():
        if not (cell is None or isinstance(cell, str)):
            raise DataError(
                f"event processor {name} gave a {type(cell).__name__} in column {column} of a row "
                f"of {row.table.id}; expected text or None"
            )


def _listed(given: object) -> list[object]:
    """A function's result as a list. A generator is run to its end first, as rows that it yields
    before it fails must not be applied."""
    if isinstance(given, list | tuple | GeneratorType):
        return list(given)
    if given is None:
        return []
    return [given]
