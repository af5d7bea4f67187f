"""The tables of a direct load, and whether each of them can be loaded."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.progress import TableProgress
from cdcbus.tasks.control.source_of import (
    MappedTable,
    mapped_tables,
    unreadable_reason,
    unseen,
    unseen_reason,
)
from cdcbus.tasks.direct.checks import AFTERWARDS, check_alone, check_table
from cdcbus.tasks.direct.opened import Opened, Source, read_from
from cdcbus.tasks.lineage.case_twins import merged_twins

LOG = logging.getLogger(__name__)


def checked_tables(
    opened: Opened, names: Sequence[str], known: Mapping[TableId, TableProgress]
) -> dict[TableId, list[TargetTable]]:
    """Source table -> all its target tables, checked, as a chunk is written to all of them; notes
    in `opened` what is selected from each. `known`: the tables of a load that is continued, which
    replace `names`."""
    load = opened.load
    found: dict[TableId, list[TargetTable]] = {}
    seen: list[TableId] = []
    for source in opened.sources:
        with read_from(opened, source) as reader:
            both = mapped_tables(source.feed, source.connection)
            pairs = []
            unreadable = []
            for table, its in both.unreadable.items():
                seen.append(table)
                if _is_wanted(table, its, names, known):
                    unreadable.append(table)
            if unreadable:
                raise ConfigError(unreadable_reason(unreadable, both.unopened))
            for table, group in groupby(both.tables, lambda mapped: mapped.source.id):
                ways = list(group)
                targets = [mapped.target for mapped in ways]
                seen.append(table)
                if not _is_wanted(table, targets, names, known):
                    source.others[table] = ways[0].topic
                    continue
                _refuse_second(opened, source, table)
                pairs += [(table, target) for target in targets]
                selected = reader.describe(table)
                if selected is None:
                    raise ConfigError(f"table {table} no longer exists, or cannot be read")
                found[table] = [_checked(opened, mapped, selected) for mapped in ways]
                source.tables[table] = selected
                if len(targets) > 1:
                    all_targets = ", ".join(map(str, targets))
                    LOG.info("%s is loaded into all its target tables: %s", table, all_targets)
            for why in merged_twins(pairs, opened.loader.is_one_table).values():
                raise ConfigError(why)
    if not names and not known and (missing := unseen(load, seen)):
        raise ConfigError(unseen_reason(", ".join(missing)))
    chosen: set[TableId] = set()
    for source in opened.sources:
        chosen |= source.tables.keys()
    loaded = {target.id for target in chain.from_iterable(found.values())}
    _refuse_unknown(opened, names, chosen, loaded, is_begun=bool(known))
    if gone := sorted(str(table) for table in known.keys() - chosen):
        raise ConfigError(
            f"table {', '.join(gone)}, whose load was begun, no longer belongs to task "
            f"{load.task_id}: put it back, or start again with --anew"
        )
    return found


def _checked(opened: Opened, mapped: MappedTable, selected: SelectedTable) -> TargetTable:
    """One of a source table's target tables. Raises ConfigError where it cannot be loaded."""
    check_alone(opened.load, mapped.target, opened.further)
    target = opened.loader.table(mapped.target)
    check_table(mapped, selected, target)
    assert target is not None
    return target


def _is_wanted(
    table: TableId,
    targets: Iterable[TableId],
    names: Sequence[str],
    known: Mapping[TableId, TableProgress],
) -> bool:
    """Whether a table is to be loaded. A load that is continued keeps its tables."""
    if known:
        return table in known
    words = {*_words(table), *(str(target).lower() for target in targets)}
    return not names or any(name.lower() in words for name in names)


def _refuse_second(opened: Opened, source: Source, table: TableId) -> None:
    """Raises ConfigError for a table of a name that another source has, too: progress and chunks go
    by the name, so only the rows of one source would be loaded."""
    for other in opened.sources:
        if other is not source and table in other.tables:
            raise ConfigError(
                f"table {table} comes from {other.feed.place} and from {source.feed.place}, and a "
                f"direct load tells tables apart by their names: {AFTERWARDS}"
            )


def _words(table: TableId) -> set[str]:
    """What --table may call a source table."""
    return {str(table).lower(), table.table.lower()}


def _refuse_unknown(
    opened: Opened,
    names: Sequence[str],
    chosen: Iterable[TableId],
    targets: Iterable[TableId],
    *,
    is_begun: bool,
) -> None:
    known = {str(each).lower() for each in targets}
    for table in chosen:
        known |= _words(table)
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        raise ConfigError(
            f"--table {', '.join(unknown)}: task {opened.load.task_id} has no such table"
            + ", or its load was begun without it" * is_begun
        )
