"""Finds whether all changes of a row are in one Kafka partition. They are where a record's key is
the text of columns of the target's key, and these columns hold the text without loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from threading import Lock

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.plugins.kafka.key_form import KeyForm, key_form, rekeyed
from cdcbus.plugins.loaders.cells.canonical import holds_less, is_spelled_freely
from cdcbus.plugins.rowchange import Row, RowChange, TableId
from cdcbus.plugins.transform.plan import Plan
from cdcbus.plugins.transform.route import MAX_PLANS

# Parts of a key with more columns are not tried, as each column doubles the number of choices.
MOST_COLUMNS = 6
NO_BYTES = pa.scalar("", pa.string())
LINE = pa.scalar("_", pa.string())
NULL = "null"
# The names in Maxwell's keys that are not columns.
OTHER_NAMES = {"database", "table"}

_Choice = tuple[str, ...]
OnRekeyed = Callable[[Plan, KeyForm, KeyForm], None]
"""Gets a plan, and two forms of the key of its source table."""


class Placing:
    """Tracks the columns of which each table's record keys have been made, as far as
    known. If even one record of a table is not placed by its key, its rows do not stay in
    their partitions, and that is never taken back. Thread-safe.

    `on_rekeyed` is called for a table whose records come with two forms of their key, as after an
    ALTER of the key at the source: each record has its own key's text, but one row can be in two
    partitions. `is_shared`: whether the records' topic is known to have several."""

    def __init__(self, on_rekeyed: OnRekeyed = lambda _plan, _before, _after: None) -> None:
        self._on_rekeyed = on_rekeyed
        # The last plan of each source table whose key was looked at.
        self._last: dict[tuple[TableId, TableId], Plan] = {}
        # Two forms of its records' key, until that is told.
        self._rekeyed: dict[tuple[TableId, TableId], tuple[KeyForm, KeyForm]] = {}
        self._last_lock = Lock()
        self._choices: dict[tuple[TableId, TableId, _Choice], list[_Choice]] = {}
        # By the plan's identity, see Route.known_plan.
        self._columns: dict[int, tuple[Plan, _Choice, bool]] = {}
        # The plans whose forms were compared, by that and by whether the topic is shared.
        self._compared: dict[tuple[int, bool], Plan] = {}

    def is_by_key(
        self, plan: Plan, keys: pa.Array, image: Mapping[str, pa.Array], *, is_shared: bool = True
    ) -> bool:
        """Whether records of one source table are placed by their rows' keys. `image`: the rows, as
        columns under the source's names."""
        if keys.null_count or self._is_one_of_many(plan):
            return False
        choices = self._known(plan)
        fitting = [choice for choice in choices if _are_equal(keys, image, choice, plan)]
        return self._keep(plan, fitting, is_shared)

    def is_row_by_key(
        self, plan: Plan, key: bytes | None, change: RowChange, *, is_shared: bool = True
    ) -> bool:
        """Whether one record, not yet mapped, is placed by its row's key. Where it changes that
        key, earlier changes of the row are in the partition of the old key."""
        if key is None or self._is_one_of_many(plan):
            return False
        before, after = change.before or {}, change.after or {}
        row: Row = {**before, **after}
        old: Row = {**after, **before} if before and after else row
        choices = self._known(plan)
        fitting = [choice for choice in choices if _text(row, choice) == _text(old, choice) == key]
        if _is_table_key(key, plan):
            fitting.append(())
        if not fitting and key.startswith(b"{"):
            names, columns = _names_of(key), self._columns_of(plan)
            is_same = all(row.get(name) == old.get(name) for name in names)
            choice, known = tuple(name for name in columns if name in names), self._fitting(plan)
            if is_same and names and names <= {*columns} and (not known or choice in known):
                fitting.append(choice)
        return self._keep(plan, fitting, is_shared)

    def _known(self, plan: Plan) -> list[_Choice]:
        return self._fitting(plan) or choices_of(self._columns_of(plan))

    def _fitting(self, plan: Plan) -> list[_Choice]:
        return self._choices.get((plan.source.id, plan.target.id, self._columns_of(plan)), [])

    def _keep(self, plan: Plan, choices: list[_Choice], is_shared: bool) -> bool:
        """Keeps the choices that fit a plan's records; returns whether there are any."""
        if not choices:
            self._report_other_key(plan, is_shared)
            return False
        self._choices[plan.source.id, plan.target.id, self._columns_of(plan)] = choices
        self._look_at_form(plan, is_shared)
        return True

    def _columns_of(self, plan: Plan) -> _Choice:
        _, columns, _ = self._known_of(plan)
        return columns

    def _is_one_of_many(self, plan: Plan) -> bool:
        _, _, is_one = self._known_of(plan)
        return is_one

    def _known_of(self, plan: Plan) -> tuple[Plan, _Choice, bool]:
        known = self._columns.get(id(plan))
        if known is None or known[0] is not plan:
            known = plan, key_columns_of(plan), is_one_of_many(plan)
            if len(self._columns) >= MAX_PLANS:
                self._columns.clear()
            self._columns[id(plan)] = known
        return known

    def _look_at_form(self, plan: Plan, is_shared: bool) -> None:
        """Compares the form of a table's key with that of the records before, once for a plan, and
        as long as two forms are to be told."""
        is_known = self._compared.get((id(plan), is_shared)) is plan
        # Looks each record's table up only while there are such forms.
        is_due = is_shared and self._rekeyed and (plan.source.id, plan.target.id) in self._rekeyed
        if is_known and not is_due:
            return
        self._compare(plan, is_shared)
        if len(self._compared) >= MAX_PLANS:
            self._compared.clear()
        # Not before: the target may not answer what is told of it.
        self._compared[id(plan), is_shared] = plan

    def _compare(self, plan: Plan, is_shared: bool) -> None:
        where = plan.source.id, plan.target.id
        with self._last_lock:
            former = self._last.get(where, plan)
            self._last[where] = plan
        changed = [forms for forms in self._forms_of(former, plan) if rekeyed(*forms)]
        if changed:
            self._rekeyed[where] = changed[0]
        if is_shared and where in self._rekeyed:
            self._on_rekeyed(plan, *self._rekeyed[where])
            self._rekeyed.pop(where, None)

    def _report_other_key(self, plan: Plan, is_shared: bool) -> None:
        """Tells of a table whose key has changed where its records no longer fit the columns that
        they were made of."""
        where = plan.source.id, plan.target.id
        with self._last_lock:
            former = self._last.get(where, plan)
        before, after = self._whole_form(former), self._whole_form(plan)
        if is_shared and rekeyed(before, after):
            self._on_rekeyed(plan, before, after)
            # Not before: the target may not answer what is told of it.
            with self._last_lock:
                self._last[where] = plan

    def _forms_of(self, former: Plan, plan: Plan) -> list[tuple[KeyForm, KeyForm]]:
        """The forms that the records' key can have had, and has now: of the columns that it can be
        made of in both; else of the whole key."""
        fitting = self._fitting(former)
        common = [choice for choice in self._fitting(plan) if choice in fitting]
        if common:
            source = plan.source
            return [(key_form(former.source, each), key_form(source, each)) for each in common]
        before, after = self._whole_form(former), self._whole_form(plan)
        if not plan.source.key:
            # Records without a key of their own can lack columns of the target's.
            names = {name for name, _ in before} & {name for name, _ in after}
            before = tuple(each for each in before if each[0] in names)
            after = tuple(each for each in after if each[0] in names)
        return [(before, after)]

    def _whole_form(self, plan: Plan) -> KeyForm:
        source = plan.source
        return key_form(source, sorted(source.key, key=str.upper) or self._columns_of(plan))


def key_columns_of(plan: Plan) -> _Choice:
    """The source's columns that become columns of the target's key unchanged, in their order in a
    record's key."""
    columns: list[str] = []
    for column, name in plan.names.items():
        if name in plan.target.key and column not in plan.masks:
            columns.append(column)
    return tuple(sorted(columns, key=str.upper))


def is_one_of_many(plan: Plan) -> bool:
    """Whether the target's key treats different texts of the source as equal, as its columns hold
    less of them, or only the value that they spell."""
    for column in plan.source.columns:
        name = plan.names.get(column.name)
        if name not in plan.target.key:
            continue
        own = plan.target.columns[name]
        # By the types: the first record seen may be the newer of two that spell one key.
        if holds_less(own, column.own_type) or is_spelled_freely(own, column.own_type):
            return True
    return False


def choices_of(columns: _Choice) -> list[_Choice]:
    """The column sets that a partition key can be made of, given these columns. With the empty set
    all rows are in one partition."""
    if len(columns) > MOST_COLUMNS:
        return [columns, ()]
    choices: list[_Choice] = []
    for size in range(len(columns), -1, -1):
        choices += combinations(columns, size)
    return choices


def _text(row: Row, columns: _Choice) -> bytes | None:
    """A record's key as porter writes it; None for a row that lacks one of the columns."""
    text = ""
    for name in columns:
        if name not in row:
            return None
        cell = row[name]
        text += f"{NULL if cell is None else cell}_"
    return text.encode()


def _is_table_key(key: bytes, plan: Plan) -> bool:
    """Whether it is the key of all rows of a table whose name places it in one partition. In
    records for porter's readers the table's name is in upper case, and the key is not."""
    name = key.decode(errors="replace")
    return plan.source.id.table in (name, name.upper())


def _are_equal(keys: pa.Array, image: Mapping[str, pa.Array], columns: _Choice, plan: Plan) -> bool:
    """Whether each key is the text of these columns of its row."""
    if not image.keys() >= set(columns):
        return False
    if not columns:
        is_empty = (pc.max(pc.binary_length(keys)).as_py() or 0) == 0
        # The first first: keys of rows are many.
        if is_empty or not _is_table_key(keys[0].as_py(), plan):
            return is_empty
        return len(keys.unique()) == 1
    parts: list[pa.Array | pa.Scalar] = []
    for name in columns:
        parts += (image[name], LINE)
    texts = pc.binary_join_element_wise(
        *parts, NO_BYTES, null_handling="replace", null_replacement=NULL
    )
    return bool(pc.all(pc.equal(keys, texts.cast(pa.binary()))).as_py())


def _names_of(key: bytes) -> set[str]:
    """The columns that a key in Debezium's or Maxwell's JSON names; none for any other key."""
    try:
        found = orjson.loads(key)
        found = found.get("payload", found)
        return {name.removeprefix("pk.") for name in found} - OTHER_NAMES
    except (ValueError, AttributeError, TypeError):
        return set()
