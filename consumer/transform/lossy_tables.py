"""Says where a target cannot hold what tells rows, or their cells, of the source apart. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.loaders.cells.canonical import WHOLE, holds_less
from cdcbus.plugins.rowchange import Column, TableId
from cdcbus.plugins.transform.plan import Plan
from cdcbus.plugins.transform.route import any_case

KEY_REMEDY = (
    "Unless other columns of the source tell them apart, stop the task, give the target table the "
    "source's key, start the task, and compare the tables: cdcbus verify finds such rows."
)
CELLS_REMEDY = (
    "Give the target's columns the source's types (loader.schemaChange=evolve widens digits), then "
    "let cdcbus verify --repair send such rows again."
)


def describe_merged_rows(plan: Plan, *, had_key: bool) -> str:
    """Which rows of the source become one at the target, as the rest of a sentence that begins with
    the target table; empty where its key keeps them apart, or may. `had_key`: earlier records of
    the source table had a key. Without that, a record without one says nothing, as some formats
    never name it."""
    source, target = plan.source, plan.target
    # Computed columns may tell rows apart.
    if not target.key or not plan.computed.keys().isdisjoint(target.key):
        return ""
    key = ", ".join(target.key)
    if not source.key and had_key:
        return (
            f"has the key ({key}), and {source.id} has lost its own: rows of {source.id} that are "
            f"equal in {key} become one row there"
        )
    beyond = [name for name in source.key if _is_beyond(name, plan)]
    if not beyond:
        return ""
    return (
        f"has the key ({key}), and {source.id} the key ({', '.join(source.key)}): rows of "
        f"{source.id} that differ only in {', '.join(beyond)} become one row there"
    )


def _is_beyond(name: str, plan: Plan) -> bool:
    """Whether a column of the source's key is known not to be in the target's."""
    column = any_case(plan.names, name)
    return column is not None and plan.names[column] not in plan.target.key


def describe_cut_cells(source: TableId, target: TargetTable, columns: Iterable[Column]) -> str:
    """Which of the source's columns, under their target names, surely lose digits: the rest of a
    sentence that begins with the target table; empty without any. Columns of its key are left out:
    their rows are refused."""
    cut: list[str] = []
    for column in columns:
        name = any_case(target.columns, column.name)
        if name is None or name in target.key:
            continue
        own = target.columns[name]
        # PostgreSQL takes no fraction for a whole number.
        is_refused = target.dialect == "postgresql" and own.type in WHOLE
        if holds_less(own, column.least_type) and not is_refused:
            at_most = "up to " if column.is_bound else ""
            cut.append(f"{name} ({at_most}{column.mysql_type})")
    if not cut:
        return ""
    return (
        f"keeps fewer digits, no time of day, or no trailing blanks of cells of {source}: "
        f"{', '.join(cut)}"
    )
