"""Source tables whose names differ in case only, as `Orders` and `orders`: filters, lists and
mappers take both, and a target may have one table for them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from cdcbus.plugins.rowchange import TableId


def merged_twins(
    pairs: Iterable[tuple[TableId, TableId]], is_one_table: Callable[[Collection[TableId]], bool]
) -> dict[TableId, str]:
    """The target tables in which rows of such tables would become one table's -> a sentence.
    `pairs`: the tables of one source with their targets. `is_one_table`: whether target names that
    differ in case only are one table there; raises what it raises."""
    by_name = defaultdict[tuple[str, str], list[tuple[TableId, TableId]]](list)
    for source, target in pairs:
        by_name[str(source).lower(), str(target).lower()].append((source, target))
    found = {}
    for each in by_name.values():
        sources = {source for source, _ in each}
        targets = {target for _, target in each}
        if len(sources) < 2 or (len(targets) > 1 and not is_one_table(targets)):
            continue
        for target in targets:
            found[target] = (
                f"source tables {' and '.join(sorted(map(str, sources)))} differ in case only, and "
                f"rows of both go to one table, {target}, where equal keys replace each other: "
                "rename one at the source, or create target tables of both names where the target "
                "distinguishes them (cdcbus schema plan)"
            )
    return found
