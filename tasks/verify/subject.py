"""The subject of a comparison: a target table and the source tables whose rows go there, column by
column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from cdcbus.consumer.config import LoadTask, SchemaChange
from cdcbus.plugins.contracts import TargetColumn, TargetTable, ZeroDate
from cdcbus.plugins.converters.auto import Auto
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders.cells.canonical import FILLED_UP, WHOLE
from cdcbus.plugins.loaders.cells.numbers import DECIMAL
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Cell, Op, Row, RowChange, TableId
from cdcbus.plugins.transform.plan import Conversion, Plan
from cdcbus.plugins.transform.processor import KEY as PROCESSOR_KEY
from cdcbus.plugins.transform.processor import Processor
from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.tasks.control.source_of import Feed, MappedTable
from cdcbus.tasks.verify.cells import VARYING, Form, Forms, as_it_is, forms_of
from cdcbus.tasks.verify.sql.pairs import INTEGERS, TEXTS, Pair, pair_of, target_terms
from cdcbus.tasks.verify.sql.text import is_comparable, quoted

Cells = tuple[Cell, ...]
LOSSLESS: Final = frozenset(("canalRow", "oggJson"))
"""Formats that return each cell unchanged, also to a task that finds out the format by itself."""


BYTE_KEYS: Final = frozenset(("bytea", "varbinary", "binary"))
"""Target types that are ordered by bytes."""


ROW_TIME: Final = "timestamp(6)"
"""The type of the times of row versions in MariaDB."""


class Way(StrEnum):
    """How a table is cut into chunks. RANGES: of the key, where both sides order it alike. BUCKETS:
    by a hash of the key's text, in SQL. STREAM: all rows of both sides."""

    RANGES = "ranges"
    BUCKETS = "buckets"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A source table whose rows go to the target. `expect`: returns the target rows that one of its
    rows becomes, in the form that is compared. `pairs`: of the compared columns, None where one of
    them has no SQL text that is the same on both sides."""

    feed: Feed
    mapped: MappedTable
    plan: Plan
    expect: Callable[[Cells], list[Cells]]
    pairs: tuple[Pair, ...] | None
    key_pairs: tuple[Pair, ...] | None
    key_columns: tuple[TableColumn, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A target table and its source tables. `columns`: the compared columns, by their target names,
    in order. `key`: the places in them of the key columns, empty where rows are only counted.
    `is_found_by_key`: a row can be looked up on both sides by its key as it is compared.
    `left_out`: target columns that the mapper has but that are not compared: not all sources write
    them, the text that the target shows for them is unknown, the target lacks them, or fills them
    in itself."""

    target: TargetTable
    sources: tuple[SourceTable, ...]
    columns: tuple[str, ...]
    forms: tuple[Forms, ...]
    key: tuple[int, ...]
    way: Way
    is_found_by_key: bool
    left_out: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.target.id)

    @property
    def key_names(self) -> tuple[str, ...]:
        return _picked(self.columns, self.key)

    @property
    def actual(self) -> Callable[[Sequence[Cell]], Cells]:
        """A function from a row as the target shows it to the form that is compared."""
        return _forming([forms.actual for forms in self.forms])

    @property
    def shown(self) -> Callable[[Sequence[Cell]], Cells]:
        """A function from a row in the form that is compared to what people see of it."""
        return _forming([forms.shown for forms in self.forms])


def _picked(columns: Sequence[str], places: Sequence[int]) -> tuple[str, ...]:
    return tuple([columns[place] for place in places])


def _forming(forms: Sequence[Form]) -> Callable[[Sequence[Cell]], Cells]:
    """A function that forms the cells of a row. Cells that need no change cost no call."""
    steps = []
    for place, form in enumerate(forms):
        if form is not as_it_is:
            steps.append((place, form))

    def formed(row: Sequence[Cell]) -> Cells:
        cells = list(row)
        for place, form in steps:
            cells[place] = form(cells[place])
        return tuple(cells)

    return formed


def subject_of(
    task: LoadTask,
    target: TargetTable,
    mapped: Sequence[tuple[Feed, MappedTable]],
    charsets: dict[str, str],
    process: Processor | None,
    zero_date: ZeroDate,
) -> Subject:
    """The subject for a target table. `charsets`: of the target's columns, for MySQL and MariaDB.
    Raises ConfigError and ConversionError as the task would."""
    is_dropping = task.schema_change is SchemaChange.IGNORE
    plans = []
    for _, each in mapped:
        plans.append(each.route.plan(each.source, _shown_by(target, each), is_dropping))
    columns, left_out = _columns(target, mapped, plans)
    if not columns:
        raise ConfigError(f"target table {target.id} has no column that can be compared")
    if target.dialect == "mysql":
        # Such a target stores zero dates as they are, whatever the key says.
        zero_date = ZeroDate.REJECT
    json_columns = _json_columns(mapped, plans)
    forms = []
    for name in columns:
        is_json = name in json_columns
        forms.append(forms_of(target.columns[name], zero_date, is_json=is_json))
    key = _key(target, mapped, plans, columns)
    names = _picked(columns, key)
    sources = []
    for (feed, each), plan in zip(mapped, plans, strict=True):
        # Only then does a cell arrive unchanged; otherwise rows go through a record here, too.
        is_plain = (
            process is None
            and feed.fetch.publish.converter in LOSSLESS
            and task.converter in LOSSLESS | {Auto.NAME}
        )
        expect = _expecting(task, feed, each, plan, columns, forms, process, is_plain=is_plain)
        # SQL sees the source's own cells, so checksums need cells that arrive unchanged.
        copied = _copied(each, plan) if is_plain else {}
        pairs = _pairs(copied, target, columns, charsets)
        key_pairs = _pairs(copied, target, names, charsets)
        key_columns = tuple(copied[name] for name in names if name in copied)
        sources.append(SourceTable(feed, each, plan, expect, pairs, key_pairs, key_columns))
    is_found = bool(key) and all(_is_found(source, target, names) for source in sources)
    can_hash = _can_hash(sources)
    # From the slowest way, which always works, to the fastest that both sides allow.
    way = Way.STREAM
    # Keys that are not found on both sides need not have the same columns.
    if is_found and all(_is_ordered_alike(source, target, names) for source in sources):
        way = Way.RANGES
    elif is_found and can_hash:
        way = Way.BUCKETS
    # All or none: the target has one sum for the rows of all sources.
    if not can_hash:
        sources = [replace(source, pairs=None) for source in sources]
    return Subject(target, tuple(sources), columns, tuple(forms), key, way, is_found, left_out)


def _shown_by(target: TargetTable, mapped: MappedTable) -> TargetTable:
    """The target, whose columns that it computes count as written: what they show is compared. Not
    the times of its own row versions, where the source has such times, too."""
    columns = {}
    for name, column in target.columns.items():
        is_time = bool(mapped.schema.times) and column.declared.startswith(ROW_TIME)
        columns[name] = replace(column, is_generated=column.is_generated and is_time)
    return replace(target, columns=columns)


def _columns(
    target: TargetTable, mapped: Sequence[tuple[Feed, MappedTable]], plans: Sequence[Plan]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The target's columns that are compared, in its order, and those that are not, although the
    mapper has them."""
    written = []
    left_out = set[str]()
    for (_, each), plan in zip(mapped, plans, strict=True):
        names = {column.name for column in plan.table.columns}
        known = {name.lower() for name in names}
        for wanted in each.route.columns(each.source):
            if wanted.name.lower() not in known:
                left_out.add(wanted.name)
        written.append(names)
    # A column that one source does not write has no expected cell for its rows.
    common = set.intersection(*written)
    columns = []
    for name, column in target.columns.items():
        if name in common and is_comparable(target.dialect, column):
            columns.append(name)
    left_out |= set.union(*written) - set(columns)
    return tuple(columns), tuple(sorted(left_out))


def _json_columns(
    mapped: Sequence[tuple[Feed, MappedTable]], plans: Sequence[Plan]
) -> set[str | None]:
    found = set()
    for (_, each), plan in zip(mapped, plans, strict=True):
        for column in each.schema.columns:
            if column.data_type == "json":
                found.add(plan.names[column.name])
    return found


def _key(
    target: TargetTable,
    mapped: Sequence[tuple[Feed, MappedTable]],
    plans: Sequence[Plan],
    columns: Sequence[str],
) -> tuple[int, ...]:
    """The target's key if all of it is written, else the source's key if it is copied."""
    if target.key and set(target.key) <= set(columns):
        return tuple(map(columns.index, target.key))
    # Several sources may have equal keys, which then identify no row of the target.
    if len(plans) > 1:
        return ()
    places = []
    for column in mapped[0][1].schema.key:
        name = plans[0].names.get(column)
        # Without one of its columns it identifies no row.
        if name is None or name not in columns:
            return ()
        places.append(columns.index(name))
    return tuple(places)


def _copied(mapped: MappedTable, plan: Plan) -> dict[str, TableColumn]:
    """Target column -> the source column that is copied into it unchanged."""
    found = {}
    changed = plan.changed
    for column in mapped.schema.columns:
        name = plan.names.get(column.name)
        if name is not None and column.name not in changed:
            found[name] = column
    return found


def _pairs(
    copied: dict[str, TableColumn],
    target: TargetTable,
    names: Sequence[str],
    charsets: dict[str, str],
) -> tuple[Pair, ...] | None:
    found = []
    for name in names:
        column = copied.get(name)
        pair = column and pair_of(
            column,
            quoted("mysql", column.name),
            target.columns[name],
            quoted(target.dialect, name),
            target.dialect,
            charsets.get(name, ""),
        )
        if not pair:
            return None
        found.append(pair)
    return tuple(found)


def _can_hash(sources: Sequence[SourceTable]) -> bool:
    """Whether one text of each target column serves for all sources."""
    texts = set()
    for source in sources:
        if not source.pairs:
            return False
        texts.add(tuple(target_terms(source.pairs)))
    return len(texts) == 1


def _is_found(source: SourceTable, target: TargetTable, names: Sequence[str]) -> bool:
    """Whether the target finds rows by the source's keys. Not if it drops blanks that the source's
    key has. In Oracle, where an empty text is NULL, only whole numbers."""
    if target.dialect == "oracle":
        # Without a source column for each, a part of the key is not copied unchanged.
        return len(source.key_columns) == len(names) and all(
            map(_is_whole_in_oracle, source.key_columns, [target.columns[name] for name in names])
        )
    if source.key_pairs is None:
        return False
    theirs = [target.columns[name] for name in names]
    return not any(map(_drops_blanks, source.key_columns, theirs))


def _drops_blanks(source: TableColumn, column: TargetColumn) -> bool:
    """Whether the target's column drops blanks at the end of a text that the source's has: it fills
    all texts up with blanks, or cuts those for which it has no room."""
    # Which has none.
    if source.data_type == "char":
        return False
    if column.type in FILLED_UP:
        return True
    if source.data_type not in TEXTS or column.type not in VARYING or column.length is None:
        return False
    # A TEXT has no size.
    return not source.size or source.size > column.length


def _is_whole_in_oracle(source: TableColumn, column: TargetColumn) -> bool:
    return source.data_type in INTEGERS and column.type == "NUMBER" and not column.scale


def _is_ordered_alike(source: SourceTable, target: TargetTable, names: Sequence[str]) -> bool:
    """Whether the key is the source's own, in its order, and of types that all servers order
    alike."""
    own = tuple(column.name for column in source.key_columns)
    if own != source.mapped.schema.key:
        return False
    for name, column in zip(names, source.key_columns, strict=True):
        kind = target.columns[name].type
        # A row with NULL there is in no range.
        if name not in target.key and target.columns[name].is_nullable:
            return False
        is_number = column.data_type in INTEGERS | {"decimal"} and kind in WHOLE | DECIMAL
        is_bytes = column.data_type in ("binary", "varbinary") and kind in BYTE_KEYS
        if not (is_number or is_bytes):
            return False
    return True


def _expecting(
    task: LoadTask,
    feed: Feed,
    mapped: MappedTable,
    plan: Plan,
    columns: Sequence[str],
    forms: Sequence[Forms],
    process: Processor | None,
    *,
    is_plain: bool,
) -> Callable[[Cells], list[Cells]]:
    names = [column.name for column in mapped.schema.columns]
    if is_plain and not plan.masks and not plan.computed:
        return _picking(names, plan, columns, forms)
    known = {name.upper(): name for name in names}
    formed = _forming([each.expected for each in forms])

    def mapped_rows(row: Cells) -> Iterator[Cells]:
        change = RowChange(mapped.source, Op.INSERT, None, dict(zip(names, row, strict=True)))
        for each in through(change):
            for made in [each] if process is None else process(each):
                if made.table.id != each.table.id:
                    raise ConfigError(
                        f"{PROCESSOR_KEY} sends rows of {mapped.source.id} to other tables, "
                        "which a comparison of tables cannot follow: leave this table out with "
                        "--table"
                    )
                if not plan.describes(each.after):
                    made = _renamed(made, known)
                after = _seen_as(plan, each.table.id).map(made).after
                # The task turns the insert into a delete.
                if after is None:
                    continue
                yield formed(list(map(after.get, columns)))

    def through(change: RowChange) -> Sequence[RowChange]:
        """The change as it arrives through a record."""
        if is_plain:
            return [change]
        value = make_converter(feed.fetch.publish.converter).to_bytes(change)
        return task.reader.from_bytes(value)

    return lambda row: list(mapped_rows(row))


def _picking(
    names: Sequence[str], plan: Plan, columns: Sequence[str], forms: Sequence[Forms]
) -> Callable[[Cells], list[Cells]]:
    """The fast way: cells are picked by place, without a row change for each row."""
    place_of = {plan.names[name]: place for place, name in enumerate(names)}
    places = [place_of[name] for name in columns]
    own = [each.expected for each in forms]
    # The conversion comes first, as the loader receives its result.
    for source, conversion in plan.converted.items():
        if plan.names[source] in columns:
            place = columns.index(plan.names[source])
            own[place] = _converted(conversion, own[place])
    formed = _forming(own)
    return lambda row: [formed([row[place] for place in places])]


def _converted(conversion: Conversion, form: Form) -> Form:
    """The form of what a cell becomes, as a moment its local time."""
    return lambda cell: form(cell if cell is None else conversion.cell(cell))


def _seen_as(plan: Plan, table: TableId) -> Plan:
    """The consumer task's plan for the name that the source table has in its records: porterCompat
    writes it in upper case, which computed columns show."""
    if plan.source.id == table:
        return plan
    return replace(plan, source=replace(plan.source, id=table))


def _renamed(change: RowChange, known: Mapping[str, str]) -> RowChange:
    """The change under the source's column names, which porterCompat writes in upper case. `known`:
    the source's columns by their names in upper case."""

    def renamed(row: Row | None) -> Row | None:
        return row and {known.get(name.upper(), name): cell for name, cell in row.items()}

    return replace(change, before=renamed(change.before), after=renamed(change.after))
