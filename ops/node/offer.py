"""What a node must know of a task before it takes it: where it may run, how it is started again, its swimlanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.policy import growing_pause
from cdcbus.tasks.keys import KEYS
from cdcbus.tasks.kinds import NUMBER, split_list
from cdcbus.tasks.stored_task import Dist


@dataclass(frozen=True, slots=True)
class Offer:
    """`node_ids`: the nodes that may run it; empty: any. `swimlanes`: what counts against a node's work limit."""

    swimlanes: tuple[str, ...]
    node_ids: tuple[str, ...] = ()
    restart_retries: int = 20
    restart_increase_seconds: int = 300

    def is_for(self, node_id: str) -> bool:
        return not self.node_ids or node_id in self.node_ids

    def pause_seconds(self, restarts: int, exit_code: int) -> float:
        """How long to wait before restart number `restarts`, counted from 1: an error that the task has told of needs a person, or time; a
        process that was killed need not wait."""
        return growing_pause(restarts - 1) if exit_code < 0 else float(self.restart_increase_seconds * restarts)


def read_offer(dist: Dist, swimlanes: list[str]) -> Offer:
    """Raises ConfigError for a field that is not of its kind."""
    return Offer(
        tuple(swimlanes),
        _node_ids(dist.get("nodeId")),
        _natural(dist, "restartRetries"),
        _natural(dist, "restartIncreaseBySecond"),
    )


def _node_ids(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else split_list("" if value is None else str(value))


def _natural(dist: Dist, name: str) -> int:
    text = str(KEYS[name].default if dist.get(name) in (None, "") else dist[name])
    try:
        return max(0, NUMBER.read(text))
    except ValueError as error:
        raise ConfigError(f"{name}: wrong value; expected {NUMBER.expected}; example: {name}={KEYS[name].default}") from error
