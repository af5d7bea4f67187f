"""The definition of one key of a task file: a row of the table of keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Flag, auto
from functools import cache
from typing import Any

from cdcbus.tasks.config.keys.types import ValueType

INDEX = "[0-9]{1,6}"
"""What `[i]` stands for in a key's name, as a regular expression."""


class Route(Flag):
    """The routes of rows. FETCH: CanalFetch -> KAFKA_SYNC. LOAD: KafkaFetch -> Jdbc*. FORWARD:
    KafkaFetch -> KAFKA_SYNC. SOURCE: a source from another package -> KAFKA_SYNC."""

    FETCH = auto()
    LOAD = auto()
    FORWARD = auto()
    SOURCE = auto()
    FROM_KAFKA = LOAD | FORWARD
    TO_KAFKA = FETCH | FORWARD | SOURCE
    INTO_KAFKA = FETCH | SOURCE
    BUILT_IN = FETCH | LOAD | FORWARD
    ANY = FETCH | LOAD | FORWARD | SOURCE


@dataclass(frozen=True, slots=True)
class Key:
    """One key, or one pattern of keys.

    `default` is the value of an absent key, as a file would have it. `porter` says what porter
    does where that differs. `answer` is the note for a key that is accepted without effect: on
    every route if `route` is ANY, else on the routes outside it, where a key without an answer gets
    a warning. `dead` is a warning that the key gets on every route. `is_free_text`: a # in the
    value opens no remark.
    """

    name: str
    value_type: ValueType[Any]
    default: str
    meaning: str
    porter: str = ""
    route: Route = Route.ANY
    answer: str = ""
    dead: str = ""
    is_free_text: bool = False

    def is_for(self, route: Route) -> bool:
        """Whether the key has an effect on a route."""
        return route in self.route

    @property
    def is_idle(self) -> bool:
        """Whether the key has no effect on any route."""
        return bool(self.dead) or (bool(self.answer) and self.route == Route.ANY)

    def matches(self, written: str) -> bool:
        return _pattern(self.name).fullmatch(written) is not None


def by_name(keys: Iterable[Key]) -> dict[str, Key]:
    """The keys as a table, in their order."""
    return {key.name: key for key in keys}


# Each name that is no exact one is compared with all patterns.
@cache
def _pattern(name: str) -> re.Pattern[str]:
    text = re.escape(name).replace(r"\[i\]", rf"\[{INDEX}\]").replace(r"\*", ".+")
    return re.compile(re.sub(r"<[A-Z]+>", ".+", text), re.DOTALL)
