"""Oracle: MERGE with the rows as array binds, each cell as the driver's own type, so that no
setting of the session changes what it means.

An empty text is NULL there. In a text column that takes no NULL it becomes one blank, as porter has
it: the source's '' is a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from sqlalchemy import Connection

from cdcbus.plugins.contracts import TableBatch, TargetColumn, TargetTable, Writes, ZeroDate
from cdcbus.plugins.errors import (
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)
from cdcbus.plugins.loaders.catalog import Catalog
from cdcbus.plugins.loaders.dialect import (
    QUOTING,
    Cells,
    Diagnosis,
    Statement,
    Upserted,
    assigned,
    unfit,
    without_zero_dates,
)
from cdcbus.plugins.rowchange import Cell

QUOTED: Final = QUOTING["oracle"]
ROWS_PER_CALL: Final = 5_000
"""Array binds of one call: enough that the round trip does not count, few enough for the memory
of both sides."""

CATALOG: Final = Catalog(
    names="""
        SELECT DISTINCT owner, table_name FROM all_tab_cols WHERE UPPER(owner) = UPPER(:schema) AND UPPER(table_name) = UPPER(:table)""",
    columns="""
        SELECT column_name, data_type,
            CASE WHEN data_type IN ('NUMBER', 'FLOAT') THEN data_precision WHEN data_type = 'RAW' THEN data_length
                WHEN char_length > 0 THEN char_length END,
            CASE nullable WHEN 'Y' THEN 1 ELSE 0 END, CASE virtual_column WHEN 'YES' THEN 1 ELSE 0 END,
            CASE WHEN nullable = 'N' AND default_length IS NULL AND virtual_column = 'NO' THEN 1 ELSE 0 END,
            CASE data_type WHEN 'NUMBER' THEN data_scale END, ''
        FROM all_tab_cols WHERE owner = :schema AND table_name = :table AND hidden_column = 'NO' ORDER BY column_id""",
    # The primary key is the constraint's: the index behind it may be one that is not unique.
    unique_keys="""
        SELECT is_primary, key_name, column_name, 0 FROM (
            SELECT 1 AS is_primary, c.constraint_name AS key_name, k.column_name AS column_name, k.position AS place
            FROM all_constraints c JOIN all_cons_columns k ON k.owner = c.owner AND k.constraint_name = c.constraint_name
            WHERE c.owner = :schema AND c.table_name = :table AND c.constraint_type = 'P'
            UNION ALL
            SELECT 0, i.index_name, CASE WHEN e.column_position IS NULL THEN k.column_name END, k.column_position
            FROM all_indexes i JOIN all_ind_columns k ON k.index_owner = i.owner AND k.index_name = i.index_name
                LEFT JOIN all_ind_expressions e
                    ON e.index_owner = i.owner AND e.index_name = i.index_name AND e.column_position = k.column_position
            WHERE i.table_owner = :schema AND i.table_name = :table AND i.uniqueness = 'UNIQUE' AND NOT EXISTS (
                SELECT 1 FROM all_constraints c WHERE c.owner = i.table_owner AND c.table_name = i.table_name
                    AND c.constraint_type = 'P' AND c.index_name = i.index_name)
        ) ORDER BY key_name, place""",
    may_create="SELECT COUNT(*) FROM session_privs WHERE privilege IN ('CREATE TABLE', 'CREATE "
    "ANY TABLE')",
)


class Oracle:
    """Writes to Oracle 12 and later. The session is set up by `engine`."""

    name = "oracle"
    catalog = CATALOG

    def __init__(self, zero_date: ZeroDate = ZeroDate.REJECT) -> None:
        self._zero_date = zero_date

    def truncate(self, connection: Connection, table: TargetTable) -> None:
        """By DELETE: TRUNCATE would commit."""
        connection.exec_driver_sql(truncate_sql(table))

    def delete(self, connection: Connection, table: TargetTable, keys: Sequence[Cells]) -> int:
        return self._execute(connection, delete_sql(table), table, table.key, keys)

    def upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> Upserted:
        """MERGE does not tell what it has inserted, so rows that should all be there are updated
        first."""
        count = len(writes.rows)
        hit = self.update(connection, table, writes) if writes.expected == count else 0
        if hit < count:
            self._execute(
                connection, merge_sql(table, writes.columns), table, writes.columns, writes.rows
            )
        return Upserted(count - hit if writes.expected == count else 0)

    def update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        columns = (*assigned(table, writes.columns), *table.key)
        return self._execute(
            connection, update_sql(table, writes.columns), table, columns, _chosen(writes, columns)
        )

    def insert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        self._execute(
            connection, insert_sql(table, writes.columns), table, writes.columns, writes.rows
        )
        return len(writes.rows)

    def swap(
        self,
        connection: Connection,
        table: TargetTable,
        columns: Sequence[str],
        old: Cells,
        new: Cells | None,
    ) -> int:
        nulls = self._nulls(table, columns, old)
        kept = [(name, cell) for name, cell in zip(columns, old, strict=True) if name not in nulls]
        names = (*(columns if new else ()), *(name for name, _ in kept))
        row = (*(new or ()), *(cell for _, cell in kept))
        return self._execute(
            connection,
            swap_sql(table, columns, nulls, is_update=new is not None),
            table,
            names,
            [row],
        )

    def locked(
        self,
        connection: Connection,
        table: TargetTable,
        keys: Sequence[Cells],
        columns: Sequence[str],
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        sql = (
            f"SELECT {QUOTED.names((*table.key, *columns))} FROM {QUOTED.table(table.id)} WHERE "
            f"{_has(table.key)} FOR UPDATE"
        )
        for number, row in enumerate(self._rows(table, table.key, keys)):
            for found in connection.exec_driver_sql(sql, row):
                yield number, tuple(found)

    def is_coarse(self, connection: Connection, table: TargetTable) -> bool:
        return any(table.columns[name].type in ("CHAR", "NCHAR") for name in table.key)

    def spelled(
        self, connection: Connection, table: TargetTable, keys: Sequence[Cells]
    ) -> list[Cells]:
        """One by one, as such keys are few; its texts are compared by their bytes."""
        sql = (
            f"SELECT {QUOTED.names(table.key)} FROM {QUOTED.table(table.id)} WHERE "
            f"{_has(table.key)}"
        )
        rows = self._rows(table, table.key, keys)
        return [
            tuple(map(str, found)) for row in rows for found in connection.exec_driver_sql(sql, row)
        ]

    def is_any_alike(
        self, connection: Connection, table: TargetTable, keys: Sequence[Cells]
    ) -> bool:
        """Texts are compared by their bytes."""
        return False

    def preview(self, batch: TableBatch) -> Iterator[Statement]:
        table = batch.table
        if batch.truncate:
            yield Statement(truncate_sql(table), 0)
        if batch.deletes:
            yield Statement(delete_sql(table), len(batch.deletes))
        for writes in batch.writes:
            yield Statement(
                (merge_sql if writes.may_insert else update_sql)(table, writes.columns),
                len(writes.rows),
            )
        for swaps in batch.swaps:
            for old, new in swaps.rows:
                if old is not None:
                    nulls = [
                        name for name, cell in zip(swaps.columns, old, strict=True) if not cell
                    ]
                    yield Statement(
                        swap_sql(table, swaps.columns, nulls, is_update=new is not None), 1
                    )
            if count := sum(old is None for old, _ in swaps.rows):
                yield Statement(insert_sql(table, swaps.columns), count)

    def widen(self, connection: Connection, table: TargetTable, column: str, type_: str) -> None:
        connection.exec_driver_sql(widen_sql(table, column, type_))

    def diagnose(self, error: BaseException, columns: Collection[str]) -> Diagnosis:
        return diagnose(error, columns)

    def _nulls(self, table: TargetTable, columns: Sequence[str], row: Cells) -> list[str]:
        """The columns in which the row is NULL at the target."""
        binds = zip(columns, zip(*self._rows(table, columns, [row]), strict=True), strict=True)
        return [name for name, (bind,) in binds if bind is None]

    def _rows(
        self, table: TargetTable, columns: Sequence[str], rows: Sequence[Cells]
    ) -> list[tuple[Any, ...]]:
        cells = zip(columns, zip(*rows, strict=True), strict=True)
        return list(
            zip(
                *(
                    binds(table, table.columns[name], column, self._zero_date)
                    for name, column in cells
                ),
                strict=True,
            )
        )

    def _execute(
        self,
        connection: Connection,
        sql: str,
        table: TargetTable,
        columns: Sequence[str],
        rows: Sequence[Cells],
    ) -> int:
        """How many rows it hit. The types are told beforehand: a column of NULLs has none of its
        own."""
        if not columns:
            return connection.exec_driver_sql(sql).rowcount
        hit = 0
        for start in range(0, len(rows), ROWS_PER_CALL):
            part = rows[start : start + ROWS_PER_CALL]
            names = [
                bind_type(table.columns[name], cells)
                for name, cells in zip(columns, zip(*part, strict=True), strict=True)
            ]
            driver: Any = connection.dialect.dbapi
            options = {"input_sizes": [getattr(driver, name) if name else None for name in names]}
            hit += connection.exec_driver_sql(
                sql, self._rows(table, columns, part), execution_options=options
            ).rowcount
        return hit


def _chosen(writes: Writes, columns: Sequence[str]) -> list[Cells]:
    places = [writes.columns.index(name) for name in columns]
    return [tuple(row[place] for place in places) for row in writes.rows]


# SQL text


def truncate_sql(table: TargetTable) -> str:
    return f"DELETE FROM {QUOTED.table(table.id)}"


def delete_sql(table: TargetTable) -> str:
    return f"DELETE FROM {QUOTED.table(table.id)} WHERE {_has(table.key)}"


def merge_sql(table: TargetTable, columns: Sequence[str]) -> str:
    cells = ", ".join(f":{place} AS {QUOTED.name(name)}" for place, name in enumerate(columns, 1))
    same = " AND ".join(f"t.{QUOTED.name(name)} = s.{QUOTED.name(name)}" for name in table.key)
    changes = ", ".join(
        f"t.{QUOTED.name(name)} = s.{QUOTED.name(name)}"
        for name in columns
        if name not in table.key
    )
    update = f" WHEN MATCHED THEN UPDATE SET {changes}" if changes else ""
    return (
        f"MERGE INTO {QUOTED.table(table.id)} t USING (SELECT {cells} FROM dual) s ON "
        f"({same}){update} "
        f"WHEN NOT MATCHED THEN INSERT ({QUOTED.names(columns)}) VALUES "
        f"({QUOTED.names(columns, 's.')})"
    )


def update_sql(table: TargetTable, columns: Sequence[str]) -> str:
    names = assigned(table, columns)
    changes = ", ".join(f"{QUOTED.name(name)} = :{place}" for place, name in enumerate(names, 1))
    return f"UPDATE {QUOTED.table(table.id)} SET {changes} WHERE {_has(table.key, len(names))}"


def insert_sql(table: TargetTable, columns: Sequence[str]) -> str:
    cells = ", ".join(f":{place}" for place in range(1, len(columns) + 1))
    return f"INSERT INTO {QUOTED.table(table.id)} ({QUOTED.names(columns)}) VALUES ({cells})"


def swap_sql(
    table: TargetTable, columns: Sequence[str], nulls: Collection[str], *, is_update: bool
) -> str:
    """`nulls`: the columns in which the row that goes holds NULL."""
    place = len(columns) if is_update else 0
    same = []
    for name in columns:
        if name in nulls:
            same.append(f"{QUOTED.name(name)} IS NULL")
        else:
            place += 1
            is_long = table.columns[name].type in LONG_TYPES
            same.append(
                f"DBMS_LOB.COMPARE({QUOTED.name(name)}, :{place}) = 0"
                if is_long
                else f"{QUOTED.name(name)} = :{place}"
            )
    where = f"WHERE {' AND '.join(same)} AND ROWNUM = 1"
    if not is_update:
        return f"DELETE FROM {QUOTED.table(table.id)} {where}"
    changes = ", ".join(
        f"{QUOTED.name(name)} = :{number}" for number, name in enumerate(columns, 1)
    )
    return f"UPDATE {QUOTED.table(table.id)} SET {changes} {where}"


def widen_sql(table: TargetTable, column: str, type_: str) -> str:
    return f"ALTER TABLE {QUOTED.table(table.id)} MODIFY ({QUOTED.name(column)} {type_})"


def _has(names: Sequence[str], before: int = 0) -> str:
    """`before`: binds that stand before these."""
    return " AND ".join(
        f"{QUOTED.name(name)} = :{place}" for place, name in enumerate(names, before + 1)
    )


# Cells

LONG_TYPES: Final = frozenset(("CLOB", "NCLOB", "BLOB"))
TEXT_TYPES: Final = frozenset(("VARCHAR2", "NVARCHAR2", "CHAR", "NCHAR", "CLOB", "NCLOB", "LONG"))
SHORT_CHARACTERS, SHORT_BYTES = 1000, 2000
"""What goes into a statement without a LOB of its own: 4000 bytes of text, four per character at
most; 2000 of RAW."""
BIND_TYPES: Final = {
    "NUMBER": "DB_TYPE_NUMBER", "FLOAT": "DB_TYPE_NUMBER", "BOOLEAN": "DB_TYPE_NUMBER",
    "BINARY_FLOAT": "DB_TYPE_BINARY_DOUBLE", "BINARY_DOUBLE": "DB_TYPE_BINARY_DOUBLE",
    "DATE": "DB_TYPE_DATE", "TIMESTAMP": "DB_TYPE_TIMESTAMP", "INTERVAL DAY": "DB_TYPE_INTERVAL_DS",
    "CHAR": "DB_TYPE_CHAR", "NCHAR": "DB_TYPE_NCHAR", "NVARCHAR2": "DB_TYPE_NVARCHAR",
    "CLOB": "DB_TYPE_VARCHAR", "NCLOB": "DB_TYPE_NVARCHAR", "RAW": "DB_TYPE_RAW", "BLOB": "DB_TYPE_RAW", "LONG RAW": "DB_TYPE_LONG_RAW",
}  # fmt: skip
"""The driver's names; text types that are not here are left to it. CHAR is told, as it is
compared with its blanks."""


def family(type_: str) -> str:
    """`TIMESTAMP(6) WITH TIME ZONE` -> `TIMESTAMP`, `INTERVAL DAY(2) TO SECOND(6)` -> `INTERVAL
    DAY`."""
    return re.split(r" WITH | TO |\(", type_, maxsplit=1)[0]


def bind_type(column: TargetColumn, cells: Sequence[Cell]) -> str | None:
    """The name that the driver has for the type of a column's binds; None where it finds it
    itself."""
    longest = max((len(cell) for cell in cells if cell is not None), default=0)
    if column.type in LONG_TYPES and longest > (
        SHORT_BYTES if column.type == "BLOB" else SHORT_CHARACTERS
    ):
        return f"DB_TYPE_{column.type}"
    return BIND_TYPES.get(family(column.type))


def binds(
    table: TargetTable,
    column: TargetColumn,
    cells: Sequence[Cell],
    zero_date: ZeroDate = ZeroDate.REJECT,
) -> Iterable[Any]:
    """A column's cells as the driver takes them. Raises TargetRejected for one that the column
    cannot hold."""
    kind = family(column.type)
    if column.type in TEXT_TYPES:
        empty = None if column.is_nullable else " "
        return [cell or (empty if cell == "" else None) for cell in cells]
    if kind in ("DATE", "TIMESTAMP"):
        cells = without_zero_dates(table, column, cells, zero_date)
    read, what = READERS.get(kind, (str, ""))
    try:
        return [None if cell is None else read(cell) for cell in cells]
    except (ValueError, InvalidOperation, OverflowError):
        raise unfit(table, column, what) from None


def _number(cell: str) -> Decimal:
    if not (number := Decimal(cell)).is_finite():
        raise ValueError
    return number


def _interval(cell: str) -> timedelta:
    match = re.fullmatch(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?", cell)
    if match is None:
        raise ValueError
    sign, hours, minutes, seconds, fraction = match.groups()
    span = timedelta(
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(seconds),
        microseconds=int((fraction or "").ljust(6, "0")),
    )
    return -span if sign else span


READERS: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {
    **dict.fromkeys(("NUMBER", "FLOAT", "BOOLEAN"), (_number, "no number")),
    **dict.fromkeys(("BINARY_FLOAT", "BINARY_DOUBLE"), (float, "no number")),
    **dict.fromkeys(("DATE", "TIMESTAMP"), (datetime.fromisoformat, "no date and time")),
    "INTERVAL DAY": (_interval, "no time of the form HH:MM:SS"),
    **dict.fromkeys(
        ("RAW", "BLOB", "LONG RAW"),
        (lambda cell: cell.encode("latin-1") or None, "a character above U+00FF, which is no byte"),
    ),
}

# Errors

UNAVAILABLE: Final = frozenset(
    (
        *(
            18,
            20,
            28,
            54,
            60,
            1012,
            1013,
            1033,
            1034,
            1089,
            1090,
            1092,
            2391,
            2396,
            3113,
            3114,
            3135,
            3136,
            4020,
            4021,
            4061,
            4068,
        ),
        *(
            8177,
            12170,
            12505,
            12514,
            12516,
            12518,
            12519,
            12520,
            12521,
            12526,
            12528,
            12537,
            12541,
            12543,
            12545,
            12547,
            12560,
            12571,
        ),
        # space, failover, read-only
        *(1652, 1653, 1654, 1688, 1691, 1692, 25408, 25409, 25425, 30006, 30036, 257, 16000, 16456),
    )
)
MISCONFIGURED: Final = frozenset(
    (1004, 1005, 1017, 1031, 1035, 1045, 1536, 1950, 28000, 28001, 28040, 28759, 28860, 29024)
)
UNFIT: Final = frozenset(
    (904, 913, 932, 942, 947, 1732, 1733, 1747, 1776, 1779, 4063, 4098, 32795, 54013, 54017)
)  # columns, types, views, triggers
OF_ROW: Final = frozenset(
    (
        # NULL, checks, lengths, partitions
        *(1400, 1407, 2290, 12899, 12900, 1401, 14400, 14402, 30926),
        # numbers, texts, JSON
        *(
            1426,
            1438,
            1461,
            1476,
            1480,
            1481,
            1489,
            1722,
            1790,
            6502,
            22835,
            22922,
            22923,
            40441,
            40478,
            40479,
        ),
        # moments
        *(1801, 1810, 1821, 1830, *range(1839, 1868), 1870, 1873, 1877, 1878, 1881, 1882, 1891),
    )
)
# Messages whose first line names objects and sizes only. Those of conversions quote the cell, from
# version 23 on.
QUOTABLE: Final = (
    UNAVAILABLE
    | MISCONFIGURED
    | {1, 904, 942, 1400, 1407, 2290, 2291, 2292, 12899, 30926, 32795, 54013}
)
CONFLICTS: Final = frozenset((1, 2291, 2292))  # unique and foreign keys
ROLLED_BACK: Final = 2091  # by the commit; the second line says why
LOST: Final = re.compile(r"DPY-(1001|4011|4024|6000|6001|6003|6005|6010)|DPI-(1010|1067|1080)")
LOGIN: Final = re.compile(
    r"DPY-(3001|3010|3015|4000|4001|4022|4026|4027|6002|6006)|certificate", re.IGNORECASE
)


def diagnose(error: BaseException, columns: Collection[str]) -> Diagnosis:
    """Of a driver's text only one line is ever passed on, and only where its code tells that it
    does not quote the row."""
    cause: BaseException = getattr(error, "orig", None) or error
    detail = cause.args[0] if cause.args else cause
    message, _, more = str(detail).partition("\n")
    code = getattr(detail, "code", 0)
    if code == ROLLED_BACK and (inner := re.match(r"ORA-(\d+).*", more)):
        code, message = int(inner[1]), inner[0]
    if LOST.search(message):
        return Diagnosis(
            TargetMisconfigured if LOGIN.search(str(detail)) else TargetUnavailable, message
        )
    if LOGIN.search(message):
        return Diagnosis(TargetMisconfigured, message)
    if not code:
        name = message[:8] if message.startswith("DPY-") else type(cause).__name__
        return Diagnosis(TargetRejected, f"the driver refuses the cells ({name})")
    return Diagnosis(
        _class_of(code),
        message if code in QUOTABLE else f"ORA-{code:05}: {_safe_text(code, message, columns)}",
    )


def _class_of(code: int) -> type[TargetError]:
    if code in UNAVAILABLE:
        return TargetUnavailable
    if code in MISCONFIGURED:
        return TargetMisconfigured
    if code in UNFIT:
        return TargetTableUnfit
    if code in CONFLICTS:
        return RowConflict
    return TargetRejected if code in OF_ROW else TargetError


def _safe_text(code: int, message: str, columns: Collection[str]) -> str:
    if 20000 <= code < 21000:
        return "a trigger or a procedure of the target's own refuses the statement"
    if code not in OF_ROW:
        return "the server refuses the statement, and not for what a row holds"
    named = [
        word
        for word in re.findall(r"[^\s\"'.,()]+", message.rpartition("column")[2])
        if word in columns
    ]
    return f"a cell does not fit{f' column {named[-1]}' if named else ''}"
