"""Whether a target table has the columns that rows bring, and whether rows bring those that it
needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdcbus.consumer.transform.mapper import Route
from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.loaders.add_column import add_columns
from cdcbus.plugins.loaders.cells.canonical import holds_less
from cdcbus.plugins.loaders.schema_evolution import too_narrow
from cdcbus.plugins.rowchange import Column
from cdcbus.tasks.preflight.records import Sample, Seen
from cdcbus.tasks.preflight.result import CheckResult, error, ok, warning


def describe_columns(
    route: Route, sample: Sample | None, table: TargetTable
) -> Iterator[CheckResult]:
    """`sample`: the source table in the newest records; None where they hold none of its rows:
    then the mapper's columns are looked for."""
    subject, source, rule = f"target table {table.id}", route.source, route.rule
    there = {name.lower() for name in table.columns}
    # a rule for any table may name columns that only others have
    renamed = rule.columns if rule.table else {}
    if made := [name for name in rule.computed if name.lower() not in there]:
        remedy = (
            f"{add_columns(table, [Column(name) for name in made])}; or remove the line{_s(made)}."
        )
        yield error(
            subject, f"has no column{_s(made)} {', '.join(made)}, which mapper[i] computes", remedy
        )
    if sample is None:
        yield from _lacking(
            subject,
            route,
            [Seen(Column(c), "", True) for c, name in renamed.items() if name.lower() not in there],
            table,
        )
        return
    known = {name.lower() for name in sample.columns}
    for column in renamed:
        if column.lower() not in known:
            found = f"mapper[i].column.{column}: the newest rows of {source} have no such column"
            yield warning(
                subject, found, "Correct the column's name in the task file, or remove the line."
            )
    lacking = [
        seen
        for name, seen in sample.columns.items()
        if (wanted := route.wanted(name)) and wanted.lower() not in there
    ]
    for is_ahead in (True, False):
        yield from _lacking(
            subject, route, [seen for seen in lacking if seen.is_ahead is is_ahead], table
        )
    if not lacking:
        yield ok(subject, f"has all {len(sample.columns)} columns of the newest rows of {source}")
    yield from _keys(subject, route, sample, table)


def _keys(subject: str, route: Route, sample: Sample, table: TargetTable) -> Iterator[CheckResult]:
    """Updates need not bring all columns, so what is not part of the key is looked for only
    where a row was inserted."""
    source, computed = route.source, {name.lower() for name in route.rule.computed}
    brought = {
        wanted.lower() for name in sample.columns if (wanted := route.wanted(name))
    } | computed
    for name in table.key:
        if name.lower() not in brought:
            found = f"the newest rows of {source} bring no {name}, which is part of its key"
            yield error(subject, found, f"Map a column to it: mapper[i].column.X={name}.")
    for name, column in table.columns.items():
        if (
            column.is_required
            and sample.has_insert
            and name not in table.key
            and name.lower() not in brought
        ):
            found = (
                f"column {name} is NOT NULL without a default, and the newest rows of "
                f"{source} bring none: inserts would be refused"
            )
            yield warning(
                subject,
                found,
                f"Give column {name} a default, or map a column to it: mapper[i].column.X={name}.",
            )
    columns = [seen.column for seen in sample.columns.values()]
    mapped = [
        Column(wanted, column.mysql_type, column.sql_type)
        for column in columns
        if (wanted := route.wanted(column.name))
    ]
    types = {column.name.lower(): column.mysql_type for column in mapped}
    for name, type_ in too_narrow(table, mapped).items():
        # others refuse what does not fit
        if name in table.key and holds_less(table.columns[name], types.get(name.lower(), "")):
            found = (
                f"column {name} of its key has fewer digits than that of {source}: the second "
                "of two rows that are one there is refused"
            )
            yield warning(subject, found, f"Make column {name} {type_}.")
    if folding := [name for name in table.key if table.columns[name].is_folding]:
        found = (
            f"column{_s(folding)} {', '.join(folding)} of its key may take different texts "
            "for equal, as a and A"
        )
        yield ok(subject, f"{found}: where {source} does not, the second such row is refused")
    key = {(route.wanted(name) or name).lower() for name in sample.key} | computed
    if sample.key and table.key and key != {name.lower() for name in table.key} | computed:
        found = (
            f"its key is {', '.join(table.key)}, that of {source} is {', '.join(sample.key)}; "
            "two rows may become one"
        )
        remedy = (
            "Give both the same key, or let the fetch task's loader.source.partitionKey name "
            "the target's key columns."
        )
        yield warning(subject, found, remedy)


def _lacking(
    subject: str, route: Route, lacking: Sequence[Seen], table: TargetTable
) -> Iterator[CheckResult]:
    """One for all of them, which are ahead alike, with the one statement that adds them."""
    if not lacking:
        return
    columns, is_one = [seen.column for seen in lacking], len(lacking) == 1
    wanted = [
        Column(route.wanted(column.name) or column.name, column.mysql_type, column.sql_type)
        for column in columns
    ]
    it, s = ("it", "") if is_one else ("them", "s")
    alter = add_columns(table, list({column.name: column for column in wanted}.values())) + ";"
    if untyped := [column.name for column in columns if not column.mysql_type]:
        alter += (
            " with the type that it has at the source;"
            if is_one
            else f" with the source's types for {', '.join(untyped)};"
        )
    records = sorted({seen.record for seen in lacking if seen.record})
    names, sources = (", ".join(column.name for column in each) for each in (wanted, columns))
    found = f"has no column{s} {names} for column{s} {sources} of {route.source}"
    if records:
        found += (
            f", which record{_s(records)} {', '.join(records)} "
            f"{'has' if len(records) == 1 else 'have'}"
        )
    if not route.rule.force_matched:
        yield warning(subject, f"{found}; mapper[i].forceMatched=false leaves {it} out", alter)
    elif not lacking[0].is_ahead:
        yield warning(
            subject,
            f"{found}; {'that record is' if len(records) == 1 else 'those records are'} before "
            "the start",
            alter,
        )
    else:
        name = columns[0].name if is_one else "X"
        yield error(
            subject,
            found,
            f"{alter} or rename {it} with mapper[i].column.{name}, or drop {it} with "
            "mapper[i].forceMatched=false.",
        )


def _s(names: Sequence[str]) -> str:
    return "" if len(names) == 1 else "s"
