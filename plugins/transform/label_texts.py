"""Texts for ENUM and SET columns of MySQL and MariaDB. Pure.

They take a number that is none of their labels for the number of a label, in strict mode too: `4`
would silently become the fourth one.

Such a text is marked, so that the target refuses it. Cells of an integer column stay as they are,
and those without a type, as ENUM and SET are numbers in some formats (canal, porter).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.rowchange import Table

MARK: Final = "\0"
"""Before a text it makes one that is neither a number nor a label."""
NUMBER: Final = re.compile(r"\s*[-+]?[0-9]+\s*")
TEXTS: Final = re.compile(r"(?:var)?char|(?:tiny|medium|long)?text", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LabelText:
    """The conversion of a source column's cells for a column with these labels."""

    # Only a text that the target refuses then.
    changes_valid: ClassVar = False

    labels: frozenset[str]

    def cell(self, text: str) -> str:
        """The text, marked if it is a number and no label."""
        if NUMBER.fullmatch(text) and text.rstrip(" ") not in self.labels:
            return MARK + text
        return text


def label_texts(
    source: Table, target: TargetTable, names: Mapping[str, str | None]
) -> dict[str, LabelText]:
    """Source column -> its conversion, for those that may hold such a text. `names`: source column
    -> target column, for columns that are copied unchanged."""
    found: dict[str, LabelText] = {}
    if target.dialect != "mysql":
        return found
    # Imported here, as it brings SQLAlchemy, which a fetch task does not need.
    from cdcbus.plugins.loaders.schema_evolution import labels_of

    for column in source.columns:
        name = names.get(column.name)
        if name is None or target.columns[name].type not in ("enum", "set"):
            continue
        made = LabelText(frozenset(labels_of(target.columns[name].declared)))
        labels = labels_of(column.mysql_type)
        is_text = TEXTS.match(column.mysql_type) is not None
        if is_text or any(made.cell(label) != label for label in labels):
            found[column.name] = made
    return found
