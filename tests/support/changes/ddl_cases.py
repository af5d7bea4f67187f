"""Golden DDL cases: the format of `tests/golden/ddl/*.sql`, which its README explains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cdcbus.producer.ddl.table_schema import TableSchema

FOLDER = Path(__file__).parents[2] / "golden" / "ddl"
CASES = sorted(FOLDER.glob("*.sql"))


@dataclass(slots=True)
class DdlStep:
    """A statement and, where the case says it, the table after it."""

    sql: str
    expected: str = ""


def steps(path: Path) -> tuple[str, list[DdlStep]]:
    """The server (empty: both) and the statements of a case. Raises ValueError."""
    only, lines, found = "", list[str](), list[DdlStep]()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("-- only: "):
            only = line.removeprefix("-- only: ")
        elif line.startswith("-> "):
            found[-1].expected = line.removeprefix("-> ")
        elif not line.startswith("-- "):
            lines.append(line)
            if line.endswith(";"):
                found.append(DdlStep("\n".join(lines).removesuffix(";")))
                lines = []
    if lines:
        raise ValueError(f"{path}: the last statement has no ; at its end")
    return only, found


def shown(table: TableSchema | None) -> str:
    """The table as a case writes it."""
    if table is None:
        return "unknown"
    if not table.key:
        return str(table)
    return f"{table} key {','.join(table.key)}"


def essence(table: TableSchema) -> object:
    """What rows show of a table: a type's display width is not in it."""

    def type_(text: str, data_type: str) -> str:
        if data_type in ("enum", "set", "decimal"):
            return text
        return data_type + " unsigned" * ("unsigned" in text)

    columns = [
        (c.name, type_(c.type, c.data_type), c.charset.replace("utf8mb3", "utf8"), c.is_nullable)
        for c in table.columns
    ]
    return columns, shown(table).partition(" key ")[2], table.charset
