"""Plans how rows of a source table become rows of its target tables, as those are defined now."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from time import monotonic

from cdcbus.consumer.config import LoadTask, SchemaChange
from cdcbus.consumer.transform.cascades import REMEDY, describe_cascades
from cdcbus.consumer.transform.lossy_tables import (
    CELLS_REMEDY,
    KEY_REMEDY,
    describe_cut_cells,
    describe_merged_rows,
)
from cdcbus.plugins.contracts import CascadingKey, Loader, TargetTable
from cdcbus.plugins.errors import CdcError, TargetMisconfigured, UnmappedColumn
from cdcbus.plugins.loaders.add_column import too_long
from cdcbus.plugins.loaders.schema_evolution import lacking, too_narrow
from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.plugins.transform.plan import Plan
from cdcbus.plugins.transform.route import Route

LOG = logging.getLogger(__name__)
# The sentences kept until they are taken; the oldest are dropped.
ALTERED_KEPT = 50
# Between two looks at the definitions of target tables, and of one look, as no row may be applied
# meanwhile.
LOOK_EACH_SECONDS, LOOK_SECONDS = 30.0, 0.05
# What was looked at so lately is looked at for no other source table's first row.
FRESH_SECONDS = 1.0


class TargetPlans:
    """The plans of one task. Thread-safe."""

    def __init__(self, task: LoadTask, loader: Loader) -> None:
        self._task = task
        self._loader = loader
        self._mapper = task.mapper
        self._warned: dict[TableId, tuple[CascadingKey, ...]] = {}
        # The target tables that rows have come for, in the order in which they are looked at.
        self._targets: dict[TableId, TargetTable] = {}
        # All that have been read, and when they were looked at for a source's first row.
        self._read: dict[TableId, float] = {}
        self._looked = monotonic()
        # The columns and keys that each source table has had, by it and its target.
        self._had: dict[tuple[TableId, TableId], set[object]] = {}
        # The source and target tables whose rows had a key at the source.
        self._keyed: set[tuple[TableId, TableId]] = set()
        # Target tables, and what was said of them.
        self._said: set[tuple[TableId, str]] = set()
        self._altered: deque[str] = deque(maxlen=ALTERED_KEPT)

    def routes(self, source: TableId) -> tuple[Route, ...]:
        """Where rows of a source table go."""
        return self._mapper.routes(source)

    def of(self, table: Table) -> list[Plan]:
        """A plan for each target of a source table. Raises UnmappedColumn, TargetMisconfigured."""
        return [self._plan(route, table) for route in self.routes(table.id)]

    def check(self) -> None:
        """Raises UnmappedColumn when a table that the task file includes by name has no target."""
        for name in sorted(self._task.includes):
            schema, _, table = name.partition(".")
            for route in self._mapper.routes(TableId(schema, table)):
                self.target(route)

    def _plan(self, route: Route, table: Table) -> Plan:
        target = self._target(route)
        known = route.known_plan(table, target)
        if known:
            return known
        self._look_if_new(table, target)
        # Anew, also where another thread has just looked.
        target = self._target(route)
        columns = route.columns(table)
        wish = self._task.schema_change
        is_dropping = wish is SchemaChange.IGNORE
        # A rule without forceMatched may drop columns, so nothing is added for it.
        is_evolving = wish is SchemaChange.EVOLVE and route.rule.force_matched
        try:
            if is_evolving and self._is_to_evolve(target, columns):
                target = self._evolved(target, columns)
                # A dry run has only logged what it would add.
                is_dropping = self._loader.is_dry_run
            plan = route.plan(table, target, is_dropping)
        except UnmappedColumn:
            # An operator may add the column, so the next attempt looks again.
            self._loader.refresh(route.target)
            raise
        if plan.dropped:
            LOG.warning(
                "task %s: %s lacks columns of %s: %s are dropped",
                self._task.task_id,
                target.id,
                table.id,
                ", ".join(plan.dropped),
            )
        self._warn_of_losses(plan)
        self._targets[plan.target.id] = plan.target
        self._read.setdefault(plan.target.id, -inf)
        return plan

    def _look_if_new(self, table: Table, target: TargetTable) -> None:
        """Looks at the target where a source table has a column, a type or a key that it did not
        have before: then the target was often altered first, and what is known of it is too old.
        Also with its first row, unless the target has been read for it, or a moment ago for that of
        another source table."""
        had = self._had.setdefault((table.id, target.id), set())
        has: set[object] = {table.key, *table.columns}
        now = monotonic()
        is_old = now - self._read.get(target.id, now) >= FRESH_SECONDS
        if (had or is_old) and not has <= had:
            self._loader.is_altered(target)
            self._read[target.id] = now
        # Not before: the target may not answer, and other threads meet the same columns.
        had |= has

    def look_again(self) -> None:
        """Looks, once in LOOK_EACH_SECONDS, whether target tables were altered, in turn, for
        LOOK_SECONDS. Rows of a wrong definition need not be refused: a wider column would get cut
        cells, a longer key other rows. Raises nothing where the target does not answer."""
        began = monotonic()
        if began - self._looked < LOOK_EACH_SECONDS:
            return
        self._looked = began
        for name, table in list(self._targets.items()):
            # To the end; it comes back with its next plan if it was altered.
            self._targets.pop(name, None)
            try:
                if self._loader.is_altered(table):
                    LOG.info(
                        "task %s: target table %s has been altered, and is looked at again",
                        self._task.task_id,
                        name,
                    )
                else:
                    self._targets.setdefault(name, table)
            except CdcError as error:
                self._targets.setdefault(name, table)
                # The batch that needs it reports it.
                LOG.info("task %s: target table %s: %s", self._task.task_id, name, error)
            if monotonic() - began > LOOK_SECONDS:
                break

    def take_altered(self) -> list[str]:
        """Returns how target tables were altered since the last call, as sentences."""
        taken = []
        # Pops until the queue is empty, as other partitions' threads take some, too.
        with suppress(IndexError):
            while True:
                taken.append(self._altered.popleft())
        return taken

    def _is_to_evolve(self, target: TargetTable, columns: Sequence[Column]) -> bool:
        """Whether the target can be given what it lacks; the plan says what it cannot be given."""
        new = lacking(target, columns)
        if too_long([column.name for column in new], target.dialect):
            return False
        return bool(new or too_narrow(target, columns))

    def _evolved(self, target: TargetTable, columns: Sequence[Column]) -> TargetTable:
        after = self._loader.evolve(target, columns)
        if new := [name for name in after.columns if name not in target.columns]:
            self._altered.append(f"ALTER of {target.id}: new columns {', '.join(new)}")
        if any(after.columns.get(name, was) != was for name, was in target.columns.items()):
            self._altered.append(f"ALTER of {target.id}: wider columns")
        return after

    def target_id(self, route: Route) -> TableId:
        """The route's target table as the target spells its name; as the route does where it lacks
        the table."""
        table = self._loader.table(route.target)
        if table is None:
            return route.target
        self._read.setdefault(table.id, -inf)
        return table.id

    def target(self, route: Route) -> TargetTable:
        """The target table of a route. Raises UnmappedColumn, TargetMisconfigured."""
        table = self._target(route)
        self._read.setdefault(table.id, -inf)
        return table

    def _target(self, route: Route) -> TargetTable:
        table = self._loader.table(route.target)
        if table is None:
            raise UnmappedColumn(
                f"the target has no table {route.target} for {route.source}: create it, or map it "
                "with mapper[i].schema and mapper[i].table"
            )
        if table.unsafe:
            # The next attempt looks again.
            self._loader.refresh(route.target)
            raise TargetMisconfigured(table.unsafe)
        if table.cascades:
            self._warn_of_cascades(table)
        return table

    def _warn_of_cascades(self, table: TargetTable) -> None:
        """Warns once of each table, and again once its keys have changed."""
        if self._warned.get(table.id) == table.cascades:
            return
        self._warned[table.id] = table.cascades
        LOG.warning(
            "task %s: target table %s %s. %s",
            self._task.task_id,
            table.id,
            describe_cascades(table),
            REMEDY,
        )

    def _warn_of_losses(self, plan: Plan) -> None:
        """Warns where the target cannot hold all rows or cells of the source, each case once."""
        source, target = plan.source, plan.target
        # A record of a TRUNCATE has neither columns nor a key.
        if not source.columns:
            return
        had_key = (source.id, target.id) in self._keyed
        if source.key:
            self._keyed.add((source.id, target.id))
        merged = describe_merged_rows(plan, had_key=had_key)
        cut = describe_cut_cells(source.id, target, plan.table.columns)
        for found, remedy in ((merged, KEY_REMEDY), (cut, CELLS_REMEDY)):
            if found and (target.id, found) not in self._said:
                self._said.add((target.id, found))
                LOG.warning(
                    "task %s: target table %s %s. %s", self._task.task_id, target.id, found, remedy
                )
