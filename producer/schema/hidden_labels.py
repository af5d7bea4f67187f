"""Labels of ENUM and SET that information_schema cannot show. Pure.

Its texts, and those of SHOW CREATE TABLE, have characters up to U+FFFF, and a `?` in place of any
other. But a server converts a number that it puts into such a column to the label. So numbers are
put into variables of the column's type, or, in MySQL, into a recursive query, whose first part
decides the types of its columns: no table to write to is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cdcbus.producer.ddl.table_schema import TableColumn

_MARK = "?"
_BEYOND = {"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"}
"""Character sets with characters beyond U+FFFF."""
_SIGN = 63


def has_hidden_labels(column: TableColumn) -> bool:
    """Whether a label of the column may be another one than its type says."""
    is_labelled = column.data_type in ("enum", "set")
    return is_labelled and column.charset in _BEYOND and _MARK in column.type


def labels_query(
    table: str, name: str, column: TableColumn, labels: Sequence[str], *, is_mariadb: bool
) -> str:
    """Selects the place, from 0, and the text of each label that may be another one. `table`,
    `name`: quoted; `labels`: those that the column's type says."""
    numbers = {}
    for place, label in enumerate(labels):
        if _MARK in label:
            numbers[place] = _number(column, place)
    if is_mariadb:
        return _in_variables(f"{table}.{name}", numbers)
    selects = [f"SELECT {place} AS place, {number} AS number" for place, number in numbers.items()]
    return (
        f"WITH RECURSIVE found (place, label) AS (SELECT -1, t.{name} FROM (SELECT 1) AS one "
        f"LEFT JOIN {table} AS t ON FALSE UNION ALL SELECT numbers.place, numbers.number FROM "
        f"found JOIN ({' UNION ALL '.join(selects)}) AS numbers WHERE found.place = -1) "
        "SELECT place, label FROM found WHERE place >= 0"
    )


def _in_variables(column: str, numbers: Mapping[int, int]) -> str:
    """For MariaDB, where a SET of a recursive query holds eight labels."""
    declared = []
    selects = []
    for place, number in numbers.items():
        declared.append(f"DECLARE v{place} TYPE OF {column} DEFAULT {number};")
        selects.append(f"SELECT {place} AS place, v{place} AS label")
    return f"BEGIN NOT ATOMIC {' '.join(declared)} {' UNION ALL '.join(selects)}; END"


def shown_labels(
    labels: Sequence[str], found: Iterable[Sequence[object]]
) -> tuple[str, ...] | None:
    """All labels of the column. `found`: places and labels, the answer to `labels_query`; None
    where these are not what `labels` shows, as where a proxy has answered."""
    shown = list(labels)
    places = {str(place): place for place in range(len(labels))}
    for place, label in found:
        at = places.get(str(place))
        if at is None or not isinstance(label, str) or not _is_shown_as(labels[at], label):
            return None
        shown[at] = label
    return tuple(shown)


def _is_shown_as(shown: str, label: str) -> bool:
    return len(shown) == len(label) and all(
        mark in (_MARK, character) for mark, character in zip(shown, label, strict=True)
    )


def _number(column: TableColumn, place: int) -> int:
    """The number of a label: its place from 1; in a SET its bit, the last of which is a sign."""
    if column.data_type == "enum":
        return place + 1
    if place < _SIGN:
        return 1 << place
    return -1 << place
