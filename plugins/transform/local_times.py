"""Converts TIMESTAMP cells, which are in UTC, to local times of a zone, for target columns without
a zone of their own. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar, Final

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import ConfigError, DataError
from cdcbus.plugins.rowchange import Table, TableId
from cdcbus.plugins.time_zone import comes_twice, in_zone

KEY: Final = "loader.source.timeZone"
WITH_ZONE: Final = re.compile(r".* with (local )?time zone", re.IGNORECASE)
TIMES: Final = re.compile(r"date|time", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LocalTime:
    """The conversion of a source column's cells. `is_key`: the column is part of the target's
    key."""

    changes_valid: ClassVar = True

    zone: tzinfo
    source: TableId
    column: str
    target: TableId
    is_key: bool

    def cell(self, text: str) -> str:
        """A cell as local time. Raises DataError for text that is not a time, and for a key in the
        hour that clocks show twice, where two rows could become one, so that a later change could
        be of either."""
        try:
            local = in_zone(self.zone, text)
        except ValueError:
            raise DataError(
                f"column {self.column} of {self.source} is a TIMESTAMP and holds no date and time, "
                f"so it cannot be converted to {KEY}"
            ) from None
        if self.is_key and comes_twice(self.zone, local):
            raise DataError(
                f"column {self.column} of {self.source} is of the key of target table "
                f"{self.target}, and holds a time that clocks of {self.zone} show twice, when they "
                "are put back: two rows could become one; give that column of the target a type "
                f"with a zone, which keeps moments, or name a fixed offset in {KEY}"
            )
        return local


def has_zone(column: TargetColumn, dialect: str) -> bool:
    """Whether a target column holds times with a zone. MySQL's TIMESTAMP does, Oracle's does
    not."""
    if WITH_ZONE.fullmatch(column.type):
        return True
    return dialect != "oracle" and column.type == "timestamp"


def local_times(
    zone: tzinfo | None, source: Table, target: TargetTable, names: Mapping[str, str | None]
) -> dict[str, LocalTime]:
    """Source column -> its conversion to local time. `names`: source column -> target column, for
    columns that are copied unchanged. Raises ConfigError where types are unknown."""
    if zone is None:
        return {}
    found: dict[str, LocalTime] = {}
    is_untyped = not any(column.mysql_type for column in source.columns)
    for column in source.columns:
        name = names.get(column.name)
        if name is None or has_zone(own := target.columns[name], target.dialect):
            continue
        if not column.mysql_type and (is_untyped or TIMES.match(own.type)):
            raise ConfigError(
                f"column {column.name} of {source.id} comes without its type, so it is not known "
                f"whether it is a TIMESTAMP, which {KEY} is for: let the records carry types, "
                "leave it out with mapper[i].ignore, or remove that line"
            )
        if column.mysql_type.lower().startswith("timestamp"):
            found[column.name] = LocalTime(
                zone, source.id, column.name, target.id, name in target.key
            )
    return found
