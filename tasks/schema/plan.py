"""`cdcbus schema`: the target tables of a consumer task, as they should be and as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import JdbcTarget, ZeroDate
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders import open_target
from cdcbus.plugins.loaders.catalog import folds_names, reflect
from cdcbus.plugins.loaders.dialect import run_plain
from cdcbus.plugins.loaders.engine import Database, open_database
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.tasks.control.source_of import Feed, MappedTable, mapped_tables, source_connection
from cdcbus.tasks.control.source_of import unseen as unseen_of
from cdcbus.tasks.lineage.case_twins import merged_twins
from cdcbus.tasks.schema.collations import charset_of, pads
from cdcbus.tasks.schema.compare import Difference, differences, other_indexes
from cdcbus.tasks.schema.create_table import (
    PLAIN_BACKSLASHES,
    ExistingIndex,
    create_schema,
    create_table,
    missing_indexes,
)
from cdcbus.tasks.schema.definition import (
    TableDefinition,
    Target,
    define,
    with_own_index_names,
)
from cdcbus.tasks.schema.merged import merged
from cdcbus.tasks.schema.source_details import TableDetails, read_details

READ_SECONDS: Final = 60.0
SCHEMA_EXISTS: Final = text("SELECT 1 FROM information_schema.schemata WHERE schema_name = :name")
COLLATIONS: Final = text(
    "SELECT column_name, collation_name FROM information_schema.columns WHERE table_schema = "
    ":schema AND table_name = :table AND collation_name IS NOT NULL"
)
# Separates names of columns, which hardly ever hold it.
BETWEEN: Final = "\x01"
# The name of each index, whether it is unique, and its columns, empty for an expression, and in
# an index with a condition. Without those that PostgreSQL only INCLUDEs.
INDEXES: Final = {
    "mysql": text(
        f"""
        SELECT index_name, MIN(non_unique) = 0,
            GROUP_CONCAT(COALESCE(column_name, '') ORDER BY seq_in_index SEPARATOR '{BETWEEN}')
        FROM information_schema.statistics
        WHERE table_schema = :schema AND table_name = :table GROUP BY index_name"""
    ),
    "postgresql": text(
        f"""
        SELECT i.relname, x.indisunique,
            string_agg(
                coalesce(CASE WHEN x.indpred IS NULL THEN a.attname::text END, ''),
                '{BETWEEN}' ORDER BY k.at
            )
        FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
            JOIN pg_class c ON c.oid = x.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
            CROSS JOIN LATERAL unnest(x.indkey::int2[]) WITH ORDINALITY AS k(number, at)
            LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
        WHERE n.nspname = :schema AND c.relname = :table AND k.at <= x.indnkeyatts
        GROUP BY i.relname, x.indisunique"""
    ),
}
# The unique keys on prefixes, as `Index.shown`.
ON_PREFIXES: Final = text(
    """
    SELECT GROUP_CONCAT(CONCAT(LOWER(COALESCE(column_name, '')),
        COALESCE(CONCAT('(', sub_part, ')'), '')) ORDER BY seq_in_index)
    FROM information_schema.statistics
    WHERE table_schema = :schema AND table_name = :table AND non_unique = 0
    GROUP BY index_name HAVING SUM(sub_part IS NOT NULL)"""
)
MYSQLS_BINARY: Final = "utf8mb4_0900_bin"
# A collation of one of the two servers, and the other server's that compares texts alike.
ALIKE: Final = (
    ("_0900_ai_ci", "_uca1400_nopad_ai_ci"),
    ("_0900_as_ci", "_uca1400_nopad_as_ci"),
    ("_0900_as_cs", "_uca1400_nopad_as_cs"),
    ("_0900_bin", "_nopad_bin"),
    ("_uca1400_ai_ci", "_0900_ai_ci"),
    ("_uca1400_as_ci", "_0900_as_ci"),
    ("_uca1400_as_cs", "_0900_as_cs"),
    ("_uca1400_nopad_ai_ci", "_0900_ai_ci"),
    ("_uca1400_nopad_as_ci", "_0900_as_ci"),
    ("_uca1400_nopad_as_cs", "_0900_as_cs"),
    ("_nopad_bin", "_0900_bin"),
)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One target table. `is_there` None: unknown, as this kind of server is not asked.
    `statements`: create the table, or the indexes, that are missing."""

    definition: TableDefinition
    is_there: bool | None
    statements: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def loses(self) -> bool:
        """Whether the table is missing, or would lose values or rows, as far as that was looked
        at."""
        return self.is_there is False or any(each.is_lost for each in self.differences)


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """All target tables of a task, and their missing schemas. `schemas`: the statements that create
    these, if asked for. `unseen`: tables that the task names, and the source does not show; and
    those that the source shows, but that cannot be read. `unopened`: those of them that the source
    cannot open -> a sentence that says why."""

    dialect: str
    tables: tuple[TablePlan, ...]
    missing_schemas: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    unopened: Mapping[str, str] = field(default_factory=dict)

    @property
    def head(self) -> list[str]:
        """The statements before those of the tables."""
        head = list(self.schemas)
        # Only where it matters, as people read these statements and run them by hand.
        if self.dialect == "mysql" and any("\\" in sql for sql in self._of_tables):
            head.append(PLAIN_BACKSLASHES)
        return head

    @property
    def _of_tables(self) -> list[str]:
        statements: list[str] = []
        for table in self.tables:
            statements += table.statements
        return statements

    @property
    def statements(self) -> list[str]:
        """All statements, in order."""
        return self.head + self._of_tables


@contextmanager
def target_database(load: LoadTask) -> Iterator[Database]:
    """The task's target, with one connection; for MySQL without the database in its address, which
    may not exist yet. Raises ConfigError for a target from another package."""
    assert isinstance(load.target, JdbcTarget)
    target = replace(load.target, pool_size=1, min_connections=1, connect_retries=0)
    database = open_target(target)
    if database.url.dialect == "mysql":
        # A login that names a missing database fails, and the plan may be to create it.
        nowhere = replace(database.url, arguments={**database.url.arguments, "database": None})
        database = open_database(target, nowhere, database.dialect)
    try:
        yield database
    finally:
        database.engine.dispose()


def make_plan(
    load: LoadTask, feeds: Sequence[Feed], *, with_indexes: bool, with_schemas: bool
) -> SchemaPlan:
    """The plan from the source's tables and the target's; changes nothing. Raises CdcError."""
    assert isinstance(load.target, JdbcTarget)
    found, unreadable, unopened, by_feed = _described(feeds)
    names = unseen_of(load, [*(each.source.id for each, _ in found), *unreadable])
    unseen = (*names, *map(str, unreadable))
    url = read_url(load.target)
    dialect = url.dialect
    tables = []
    if dialect == "oracle":
        target = Target(dialect, zero_date=load.target.zero_date)
        for table in _defined(load, found, target):
            tables.append(TablePlan(table, None, _statements(table, dialect, with_indexes)))
        return SchemaPlan(dialect, tuple(tables), unseen=unseen, unopened=unopened)
    schemas = set()
    # For cdcbus_position, which is stored there.
    if named := url.arguments.get("database"):
        schemas.add(str(named))
    with (
        target_database(load) as database,
        database.reported("tables"),
        database.engine.connect() as at_target,
    ):
        target = _target(at_target, dialect, load.target.zero_date)
        defined = _defined(load, found, target)
        # Here both can be created, unless the server takes their names for one.
        is_one = folds_names(at_target, database.dialect.catalog)
        for pairs in by_feed:
            for why in merged_twins(pairs, lambda _: is_one).values():
                raise ConfigError(why)
        for table in defined:
            tables.append(_plan(at_target, database, table, defined, with_indexes))
            at_target.rollback()  # lets go of the table, which others may be waiting to alter
            if table.id.schema:
                schemas.add(table.id.schema)
        missing = [each for each in sorted(schemas) if not _has_schema(at_target, each)]
    made = []
    if with_schemas:
        made = [create_schema(each, dialect) for each in missing]
    return SchemaPlan(dialect, tuple(tables), tuple(missing), tuple(made), unseen, unopened)


def _described(
    feeds: Sequence[Feed],
) -> tuple[
    list[tuple[MappedTable, TableDetails]],
    list[TableId],
    dict[str, str],
    list[list[tuple[TableId, TableId]]],
]:
    """The tables, those that cannot be read, why the source cannot open some of these, and the
    names of source and target by feed."""
    found = []
    unreadable: list[TableId] = []
    unopened: dict[str, str] = {}
    by_feed = []
    for feed in feeds:
        with source_connection(feed.fetch.source, READ_SECONDS) as connection:
            both = mapped_tables(feed, connection)
            mapped = both.tables
            by_feed.append([(each.source.id, each.target) for each in mapped])
            unreadable += both.unreadable
            unopened |= {str(table): why for table, why in both.unopened.items()}
            reader = SchemaReader(connection)
            with reader.held({each.source.id for each in mapped}) as there:
                for table in there:
                    reader.need_columns(table)
                details = read_details(connection, there) if there else {}
        for each in mapped:
            if each.source.id not in details:
                raise ConfigError(
                    f"source table {each.source.id} was there a moment ago and is gone: if it is "
                    "being replaced by another, do this again when that is done"
                )
            found.append((each, details[each.source.id]))
    return found, unreadable, unopened, by_feed


def _defined(
    load: LoadTask, found: Sequence[tuple[MappedTable, TableDetails]], target: Target
) -> list[TableDefinition]:
    by_target: dict[TableId, list[TableDefinition]] = {}
    for mapped, details in found:
        by_target.setdefault(mapped.target, []).append(define(mapped, details, target))
    merged_tables = [merged(each, target) for each in by_target.values()]
    tables = with_own_index_names(merged_tables, target.dialect)
    if not load.processor:
        return tables
    note = f"event processor {load.processor} may give rows other columns and values"
    return [replace(table, notes=(*table.notes, note)) for table in tables]


def _plan(
    connection: Connection,
    database: Database,
    wanted: TableDefinition,
    all_wanted: Sequence[TableDefinition],
    with_indexes: bool,
) -> TablePlan:
    dialect = database.dialect.name
    table = reflect(connection, database.dialect.catalog, dialect, wanted.id)
    # A name that differs in case will do, unless it is another wanted table's.
    if table is None or (table.id != wanted.id and table.id in {each.id for each in all_wanted}):
        return TablePlan(wanted, False, _statements(wanted, dialect, with_indexes))
    collations: dict[str, str] = {}
    on_prefixes: list[str] = []
    if dialect == "mysql":
        for column, collation in connection.execute(COLLATIONS, table.id._asdict()).all():
            collations[column] = _by_effect(connection, collation)
        on_prefixes += connection.execute(ON_PREFIXES, table.id._asdict()).scalars()
    others = differences(wanted, table, collations, on_prefixes)
    if not with_indexes:
        return TablePlan(wanted, True, (), tuple(others))
    there = []
    for row in connection.execute(INDEXES[dialect], table.id._asdict()):
        name, is_unique, columns = row
        there.append(ExistingIndex(name, bool(is_unique), tuple(columns.split(BETWEEN))))
    others += other_indexes(wanted, there, dialect)
    return TablePlan(wanted, True, tuple(missing_indexes(wanted, there, dialect)), tuple(others))


def _by_effect(connection: Connection, collation: str) -> str:
    """The collation of an existing column, or the one as which it compares texts: MariaDB's
    utf8mb4_0900_bin is its utf8mb4_bin."""
    if collation != MYSQLS_BINARY or _has_collation(connection, collation, may_pad=False):
        return collation
    return "utf8mb4_bin"


def _statements(wanted: TableDefinition, dialect: str, with_indexes: bool) -> tuple[str, ...]:
    # A table that cannot be created has no statements; `refuse_impossible` says why.
    if wanted.problems:
        return ()
    return tuple(create_table(wanted, dialect, with_indexes=with_indexes))


def _has_schema(connection: Connection, schema: str) -> bool:
    return connection.execute(SCHEMA_EXISTS, {"name": schema}).first() is not None


def _target(connection: Connection, dialect: str, zero_date: ZeroDate) -> Target:
    if dialect != "mysql":
        return Target(dialect, zero_date=zero_date)
    [version, is_explicit] = connection.exec_driver_sql(
        "SELECT VERSION(), @@explicit_defaults_for_timestamp"
    ).one()

    @cache
    def collation_of(name: str) -> tuple[str, str]:
        """The same collation, else one that compares alike, else a stricter one."""
        charset = charset_of(name)
        others = []
        for one, other in ALIKE:
            if name == f"{charset}{one}":
                others.append(f"{charset}{other}")
        # One character set under two names; which one a server knows depends on its version.
        if charset in ("utf8", "utf8mb3"):
            spelled = {"utf8": "utf8mb3", "utf8mb3": "utf8"}[charset]
            others.append(name.replace(charset, spelled, 1))
        # From the same to the stricter one, which treats fewer texts as equal and merges no rows.
        if not pads(name):
            others += [f"{charset}_0900_bin", f"{charset}_nopad_bin"]
        for each in (name, *others):
            if _has_collation(connection, each, may_pad=pads(name)):
                return charset_of(each), each
        if _has_collation(connection, f"{charset}_bin"):
            return charset, f"{charset}_bin"
        return "utf8mb4", "utf8mb4_bin"

    is_mariadb = "mariadb" in str(version).lower()
    return Target(dialect, is_mariadb, zero_date, not is_explicit, collation_of)


def _has_collation(connection: Connection, collation: str, *, may_pad: bool = True) -> bool:
    """Tests a collation by using it, because servers list some of them under other names, and
    MariaDB's utf8mb4_0900_bin ignores trailing blanks, unlike MySQL's. `may_pad`: it may do so."""
    one, other = (f"CONVERT('{text}' USING {charset_of(collation)})" for text in ("a", "a "))
    try:
        does_pad = run_plain(connection, f"SELECT {one} COLLATE {collation} = {other}").scalar_one()
    except DBAPIError as error:
        # A lost connection says nothing about the collation.
        if error.connection_invalidated:
            raise
        return False
    return may_pad or not does_pad


def refuse_impossible(plan: SchemaPlan) -> None:
    """Raises ConfigError for a plan that cannot be run."""
    if plan.dialect == "oracle":
        raise ConfigError(
            "tables in Oracle are not created from here: run what `cdcbus schema plan` prints"
        )
    for table in plan.tables:
        if not table.is_there and table.definition.problems:
            problems = "; ".join(table.definition.problems)
            raise ConfigError(f"target table {table.definition.id} cannot be created: {problems}")
    if plan.missing_schemas and not plan.schemas:
        raise ConfigError(
            f"the target has no schema {', '.join(plan.missing_schemas)}: create it, or add "
            "--schemas"
        )


def apply_plan(load: LoadTask, plan: SchemaPlan) -> Iterator[str]:
    """Runs the plan's statements, each in a transaction of its own, and yields each when it is
    done. Raises CdcError at the first that fails; the effects of those before it stay."""
    with target_database(load) as database:
        for sql in plan.statements:
            with (
                database.reported(f"statement {sql.partition('(')[0].strip()}"),
                # DDL cannot be undone in MySQL anyway, so what is done stays done.
                database.engine.begin() as connection,
            ):
                run_plain(connection, sql)
            yield sql
