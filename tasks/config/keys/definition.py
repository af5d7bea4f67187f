"""What is known of one key of a task file: a row of the table of keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Flag, auto
from functools import cache
from typing import Any

from cdcbus.tasks.config.keys.types import ValueType


class Route(Flag):
    """The ways rows can go. FETCH: CanalFetch -> KAFKA_SYNC. LOAD: KafkaFetch -> Jdbc*. FORWARD:
    KafkaFetch -> KAFKA_SYNC. SOURCE: a source of another package -> KAFKA_SYNC."""

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

    `default` is what holds when it is absent, as it would be written. `porter` says what porter
    does where that differs. `answer` is the note given where the key is accepted without effect: on
    every route if `route` is ANY, else on the other ones; a key without one gets a warning there. A
    `dead` key gets its warning everywhere.
    """

    name: str
    value_type: ValueType[Any]
    default: str
    meaning: str
    porter: str = ""
    route: Route = Route.ANY
    answer: str = ""
    dead: str = ""

    def is_for(self, route: Route) -> bool:
        """Whether it has an effect on a route."""
        return route in self.route

    @property
    def is_idle(self) -> bool:
        """Whether it has no effect on any route."""
        return bool(self.dead) or (bool(self.answer) and self.route == Route.ANY)

    def matches(self, written: str) -> bool:
        return _pattern(self.name).fullmatch(written) is not None


@cache
def _pattern(name: str) -> re.Pattern[str]:
    text = re.escape(name).replace(r"\[i\]", r"\[[0-9]{1,6}\]").replace(r"\*", ".+")
    return re.compile(re.sub(r"<[A-Z]+>", ".+", text), re.DOTALL)
