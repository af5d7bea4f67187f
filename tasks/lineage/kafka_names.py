"""The names under which tasks commit to Kafka in transactions: those of two tasks can be equal, as
their parts are joined by hyphens. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.producer.config import FetchTask


@dataclass(frozen=True, slots=True)
class _Names:
    """`transactions`: whole names; `numbered`: those to which the number of a partition is added;
    `offsets`: the groups of committed offsets, with the topic of each."""

    servers: frozenset[str] = frozenset()
    transactions: frozenset[str] = frozenset()
    numbered: frozenset[str] = frozenset()
    offsets: frozenset[tuple[str, str]] = frozenset()


def has_names(task: FetchTask | LoadTask) -> bool:
    """Whether the task commits to Kafka in transactions."""
    return _names(task) != _Names()


def may_share_names(one: str, other: str) -> bool:
    """Whether tasks of these ids can have a name in common: each name is `cdcbus-` and the task's
    id, alone or with a hyphen and more."""
    return f"{one}-".startswith(f"{other}-") or f"{other}-".startswith(f"{one}-")


def refuse_same_names(own: FetchTask | LoadTask, tasks: Iterable[FetchTask | LoadTask]) -> None:
    """Raises ConfigError if another task would commit under a name of this one at the same
    brokers. A cluster that two tasks reach by different addresses counts as two."""
    names = _names(own)
    for other in tasks:
        if other.task_id == own.task_id:
            continue
        if same := _same(names, _names(other)):
            raise ConfigError(
                f"tasks {own.task_id} and {other.task_id} would both be {same} to Kafka at "
                f"{', '.join(sorted(names.servers))}, as the parts of that name are joined by "
                "hyphens: each would end the transactions of the other, or take its offsets for "
                "its own. Give one of the two another taskId, or remove it if it is not needed; "
                "loader.source.transaction=false sends without transactions"
            )


def _names(task: FetchTask | LoadTask) -> _Names:
    """The names of a task; none without transactions."""
    config = task.publish if isinstance(task, FetchTask) else task.target
    if not isinstance(config, PublishConfig) or not config.transactional_id:
        return _Names()
    name = config.transactional_id
    servers = frozenset(map(str.strip, config.servers.split(",")))
    if isinstance(task, FetchTask):
        return _Names(servers, frozenset({name}), offsets=frozenset({(name, config.topic)}))
    topics = task.source.topics
    return _Names(
        servers,
        numbered=frozenset(f"{name}-{topic}" for topic in topics),
        offsets=frozenset((name, topic) for topic in topics),
    )


def _same(one: _Names, other: _Names) -> str:
    """A name that both have; empty if there is none."""
    if not one.servers & other.servers:
        return ""
    found = one.transactions & other.transactions
    found |= {f"{name}-PARTITION" for name in one.numbered & other.numbered}
    for whole, numbered in ((one, other), (other, one)):
        found |= {name for name in whole.transactions if _stem(name) in numbered.numbered}
    found |= {group for group, _ in one.offsets & other.offsets}
    return min(found, default="")


def _stem(name: str) -> str:
    stem, _, number = name.rpartition("-")
    return stem if number.isdecimal() else ""
