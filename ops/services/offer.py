"""What a node must know of a task before it takes it: where it may run, how it is restarted, its
swimlanes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from cdcbus.plugins.error_policy import growing_pause
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.keys.task import ISOLATED, KEYS
from cdcbus.tasks.config.keys.types import FLAG, NUMBER, ValueType, split_list
from cdcbus.tasks.porter.dist_json import properties_lines
from cdcbus.tasks.zookeeper.task_configs import Dist

Value = TypeVar("Value")
_SPARK_KEY = re.compile(r"((consumer|loader)\.source\.)?spark\.")


def consumer_name(dist: Mapping[str, Any]) -> str:
    """The consumer that a task's text names; empty where it names none."""
    consumer = dist.get("consumer")
    if not isinstance(consumer, dict):
        return ""
    return str(consumer.get("consumerName") or "")


@dataclass(frozen=True, slots=True)
class Offer:
    """`node_ids`: the nodes that may run it; empty: any. `swimlanes`: what counts against a
    node's work limit. `is_shared`: it can be a query of the node's Spark application;
    `spark_keys`: its own settings that prevent that."""

    swimlanes: tuple[str, ...]
    node_ids: tuple[str, ...] = ()
    restart_retries: int = 20
    restart_increase_seconds: int = 300
    is_shared: bool = False
    spark_keys: tuple[str, ...] = ()
    environment: str = ""

    def is_for(self, node_id: str, environment: str = "") -> bool:
        """Whether a node of an environment may run it."""
        return environment == self.environment and (not self.node_ids or node_id in self.node_ids)

    def pause_seconds(self, restarts: int, *, is_crash: bool) -> float:
        """How long to wait before restart number `restarts`, counted from 1: an error that the
        task itself reports needs an operator, or time; a process that was killed, or whose JVM
        was, need not wait."""
        if is_crash:
            return growing_pause(restarts - 1)
        return float(self.restart_increase_seconds * restarts)


def read_offer(dist: Dist, swimlanes: list[str]) -> Offer:
    """The offer in a task's text. Raises ConfigError for a field with a wrong value."""
    return Offer(
        tuple(swimlanes),
        _node_ids(dist.get("nodeId")),
        _natural(dist, "restartRetries"),
        _natural(dist, "restartIncreaseBySecond"),
        *_sharing(dist),
        str(dist.get("environment") or ""),
    )


def _sharing(dist: Dist) -> tuple[bool, tuple[str, ...]]:
    """Whether a task can share an application, and its keys that prevent it: all tasks of an
    application have the Spark settings of the bus."""
    spark_keys = []
    for line in properties_lines(dist):
        name, _, _ = line.partition("=")
        if _SPARK_KEY.match(name) and name != ISOLATED:
            spark_keys.append(name)
    if consumer_name(dist) != "KafkaFetch" or _read(dist, ISOLATED, FLAG):
        return False, ()
    return not spark_keys, tuple(spark_keys)


def _node_ids(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, list):
        return tuple(map(str, value))
    return split_list(str(value))


def _natural(dist: Dist, name: str) -> int:
    return max(0, _read(dist, name, NUMBER))


def _read(dist: Dist, name: str, value_type: ValueType[Value]) -> Value:
    written = dist.get(name)
    if written in (None, ""):
        written = KEYS[name].default
    text = str(written)
    try:
        return value_type.read(text)
    except ValueError as error:
        raise ConfigError(
            f"{name}: wrong value; expected {value_type.expected}; example: "
            f"{name}={KEYS[name].default}"
        ) from error
