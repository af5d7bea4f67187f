"""Records that ZooKeeper holds as JSON objects, with members that only another version of cdcbus
knows: these are kept when the record is written again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRecord:
    """The base of such a record. `others`: the members that this version does not know."""

    others: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def to_fields(self) -> dict[str, Any]:
        """The record as JSON fields."""
        known = asdict(self)
        return {**known.pop("others"), **known}

    @classmethod
    def from_fields(cls, stored: Mapping[str, Any]) -> Self:
        """Reads the output of `to_fields`. Raises AttributeError, TypeError."""
        names = {each.name for each in fields(cls)} - {"others"}
        known = {name: stored[name] for name in names & stored.keys()}
        return cls(**known, others={name: stored[name] for name in stored.keys() - names})
