"""The rules of a task file, `mapper[i]`: how source names become target names, and cells change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.plugins.transform.cells.expression import Expression
from cdcbus.plugins.transform.cells.mask import Mask


@dataclass(frozen=True, slots=True)
class MapperRule:
    """One `mapper[i]`. `schema` and `table` are (source, target) and select the tables of the rule,
    in any case; None = any. A source name that contains characters of a regular expression is one,
    and must match whole names.

    `columns`: source column -> target column, in any case. `included`: only these source columns,
    empty: all. `ignored`: not these; both in lower case. `computed`: target column -> its
    expression. `masks`: source column, in lower case -> the mask for its cells. `force_matched`:
    the task waits for a source column that the target lacks; otherwise it leaves the column out.
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
        """Whether rows stay unchanged where the target is not looked at, as with porter's entry of
        only `forceMatched`."""
        pairs = (self.schema, self.table)
        return all(pair is None or pair[0] == pair[1] for pair in pairs) and not (
            self.columns or self.included or self.ignored or self.computed or self.masks
        )
