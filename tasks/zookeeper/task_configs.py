"""A task in the form that ZooKeeper stores: one dist object per swimlane, as in porter, without
readable secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Diagnostic, Severity
from cdcbus.tasks.config.keys.task import find_key
from cdcbus.tasks.config.keys.types import split_list
from cdcbus.tasks.config.parser import Entry, for_zookeeper, is_inline_secret
from cdcbus.tasks.porter.dist_json import dist_object, properties_lines

Dist = dict[str, Any]
TOPICS = "topics"


def has_inline_secret(entries: Mapping[str, Entry]) -> bool:
    """Whether one of the texts contains an inline secret."""
    for key, entry in entries.items():
        if is_inline_secret(key, find_key(key), entry.written):
            return True
    return False


def texts_of(
    entries: Mapping[str, Entry], place: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """The texts by key as ZooKeeper may keep them, with inline secrets encrypted. Raises
    ConfigError that lists all secrets that cannot be encrypted, each with its line."""
    texts: dict[str, str] = {}
    refused: list[str] = []
    for key, entry in entries.items():
        try:
            texts[key] = for_zookeeper(key, find_key(key), entry.written, environ)
        except ValueError as error:
            refused.append(Diagnostic(Severity.ERROR, entry.line, key, str(error)).located(place))
    if refused:
        raise ConfigError("\n".join(refused))
    return texts


def dists_of(task: FetchTask | LoadTask, texts: Mapping[str, str]) -> dict[str, Dist]:
    """The dist object of each swimlane. With several topics, each has an object that names only
    this topic."""
    config = dist_object(texts)
    # A fetch task has one swimlane, its database; a consumer task has one for each topic.
    if isinstance(task, FetchTask):
        return {task.swimlane: config}
    if len(task.source.topics) == 1:
        return {task.source.topics[0]: config}
    return {topic: _with_topics(config, topic) for topic in task.source.topics}


def merged(dists: Sequence[Dist]) -> Dist:
    """One task from all its dist objects. Raises ConfigError when they differ in more than their
    topics."""
    first = dists[0]
    if len(dists) == 1:
        return first
    for other in dists[1:]:
        # Compared as lines of a task file, so that the order and the form of values do not matter.
        differing = _lines(_with_topics(first, "")) ^ _lines(_with_topics(other, ""))
        if differing:
            keys = sorted({line.partition("=")[0] for line in differing})
            raise ConfigError(
                f"its znodes differ in {', '.join(keys)}; expected the same in each; import the "
                "task again with --force"
            )
    # Each topic once, as an object may name several.
    topics: list[str] = []
    for dist in dists:
        topics += _topics(dist)
    return _with_topics(first, ",".join(dict.fromkeys(topics)))


def _lines(dist: Dist) -> set[str]:
    lines = set()
    for line in properties_lines(dist):
        if "=" in line and not line.startswith("#"):
            lines.add(line)
    return lines


def _topics(dist: Dist) -> tuple[str, ...]:
    topics = _source(dist).get(TOPICS) or ""
    if isinstance(topics, list):
        return tuple(map(str, topics))
    return split_list(str(topics))


def _with_topics(dist: Dist, topics: str) -> Dist:
    """The object with these topics in place of its own; without topics if the text is empty."""
    source = dict(_source(dist))
    if topics:
        source[TOPICS] = topics
    else:
        source.pop(TOPICS, None)
    return {**dist, "consumer": {**_object(dist, "consumer"), "source": source}}


def _source(dist: Dist) -> Dist:
    return _object(_object(dist, "consumer"), "source")


def _object(parent: Dist, field: str) -> Dist:
    value = parent.get(field)
    return value if isinstance(value, dict) else {}
