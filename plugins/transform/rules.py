"""The rules of a task file, `mapper[i]`: how source names become target names, and cells change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.plugins.transform.cells.expression import Expression
from cdcbus.plugins.transform.cells.mask import Mask


@dataclass(frozen=True, slots=True)
class MapperRule:
    """One `mapper[i]`. Schema and table select the tables of the rule, in any case. A source name
    that contains characters of a regular expression is one, and must match whole names."""

    # (source, target); None: any.
    schema: tuple[str, str] | None = None
    table: tuple[str, str] | None = None
    # Source column -> target column, in any case.
    columns: Mapping[str, str] = field(default_factory=dict)
    # Only these source columns, in lower case; empty: all.
    included: frozenset[str] = frozenset()
    # Not these, in lower case.
    ignored: frozenset[str] = frozenset()
    # Target column -> its expression.
    computed: Mapping[str, Expression] = field(default_factory=dict)
    # Source column, in lower case -> the mask for its cells.
    masks: Mapping[str, Mask] = field(default_factory=dict)
    # The task waits for a source column that the target lacks; else it leaves the column out.
    force_matched: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether rows stay unchanged where the target is not looked at, as with porter's entry of
        only `forceMatched`."""
        for pair in (self.schema, self.table):
            if pair is not None and pair[0] != pair[1]:
                return False
        is_choosing = self.columns or self.included or self.ignored
        return not (is_choosing or self.computed or self.masks)
