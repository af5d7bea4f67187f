"""What a task file's `mapper[i]` says: source names to target names, and what cells become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.plugins.transform.cells.expression import Expression
from cdcbus.plugins.transform.cells.mask import Mask


@dataclass(frozen=True, slots=True)
class MapperRule:
    """One `mapper[i]`. `schema` and `table` are (source, target) and select what the rule is for,
    any case; None = any. A source name with characters of a regular expression in it is one, and is
    matched whole.

    `columns`: source column -> target column, any case. `included`: only these source columns,
    empty: all. `ignored`: not these; both in lower case. `computed`: target column -> what it
    holds. `masks`: source column, lower case -> what stands in place of its cells. `force_matched`:
    a source column that the target lacks holds the task up, else it is dropped.
    """

    schema: tuple[str, str] | None = None
    table: tuple[str, str] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    included: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    computed: Mapping[str, Expression] = field(default_factory=dict)
    masks: Mapping[str, Mask] = field(default_factory=dict)
    force_matched: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether rows stay as they are where no target is looked at, as with porter's entry of
        only `forceMatched`."""
        pairs = (self.schema, self.table)
        return all(pair is None or pair[0] == pair[1] for pair in pairs) and not (
            self.columns or self.included or self.ignored or self.computed or self.masks
        )
