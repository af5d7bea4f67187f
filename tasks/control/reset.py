"""Finds the position that a word such as `earliest`, `-500` or `mysql-bin.000501:4` stands for, and
what a task would repeat or leave out from there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaException

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_of
from cdcbus.plugins.errors import (
    ConfigError,
    PositionError,
    PositionLost,
    SourceRefused,
    SourceUnavailable,
)
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG
from cdcbus.plugins.positions import (
    BinlogPosition,
    KafkaPosition,
    TopicPartition,
    kafka_positions_from_json,
    kafka_positions_to_json,
)
from cdcbus.plugins.start import AfterOffset, AtTime, Edge, Replay
from cdcbus.producer.added.source import OpenSource
from cdcbus.producer.binlog.coordinates import FIRST_EVENT, BinlogCoordinates
from cdcbus.producer.config import AddedSource, FetchTask, SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.source.position_resolver import when
from cdcbus.tasks.config.keys.start import BINLOG_START, KAFKA_START
from cdcbus.tasks.control.target_offsets import TargetOffsets, target_offsets

# An operator waits for the answer, so a silent server is an error soon.
ASK_SECONDS = 5.0
BACK = re.compile(r"-[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Target:
    """A swimlane's new position as JSON, and sentences on how it differs from the stored one."""

    text: str
    means: tuple[str, ...]
    # Of a topic: the partitions that are set. The others that the text names only stay in it.
    numbers: frozenset[int] = frozenset()


def set_numbers(numbers: Iterable[frozenset[int]]) -> frozenset[int] | None:
    """The partitions that `set_positions` is to set, from those of each swimlane; None for a task
    that reads no topics. One number is either read in every topic that has it, or in none."""
    return frozenset().union(*numbers) or None


def find_targets(
    task: FetchTask | LoadTask,
    word: str,
    stored: Mapping[str, str | None],
    topic: str | None = None,
    number: int | None = None,
    target_lacks: str = "",
) -> dict[str, Target]:
    """The new positions by swimlane; writes nothing. `topic`, and `number` of a partition: only
    these change. `target_lacks`: what is missing here to log in to the target, in words; the target
    is not asked then. Raises ConfigError for a word that is not a position, PositionLost for a
    position that is no longer held, and what asking Kafka or the source raises."""
    if isinstance(task, FetchTask):
        if topic is not None or number is not None:
            raise _no_topics(task)
        before = (stored.get(task.swimlane) or "").strip()
        return {task.swimlane: _in_source(task, word, before)}
    if topic is not None and topic not in task.source.topics:
        raise ConfigError(
            f"task {task.task_id} does not read topic {topic}; it reads "
            f"{', '.join(task.source.topics)}"
        )
    with TopicLogs(task, ASK_SECONDS) as logs:
        partitions: dict[str, list[TopicPartition]] = {}
        for name in task.source.topics:
            if topic in (None, name):
                partitions[name] = partitions_of(task, logs, name)
        chosen = _chosen(task, chain.from_iterable(partitions.values()), number, word)
        at_target = target_offsets(task, target_lacks)
        targets = {}
        for name, own in partitions.items():
            # Written again, even an equal position would count as set.
            if not set(own).intersection(chosen):
                continue
            text = (stored.get(name) or "").strip()
            targets[name] = _in_topic(task, logs, name, own, chosen, word, text, at_target)
        return targets


def _no_topics(task: FetchTask) -> ConfigError:
    what = "a binlog"
    if task.source.added is not None:
        what = task.source.shown
    return ConfigError(f"task {task.task_id} reads {what}, which has no topics and partitions")


def _chosen(
    task: LoadTask, partitions: Iterable[TopicPartition], number: int | None, word: str
) -> list[TopicPartition]:
    """The partitions that the word is for."""
    chosen: list[TopicPartition] = []
    for partition in partitions:
        if number in (None, partition.partition):
            chosen.append(partition)
    if not chosen:
        raise ConfigError(f"task {task.task_id} reads no partition {number}")
    # Offsets of different partitions have nothing to do with each other.
    if len(chosen) > 1 and re.fullmatch(r"[0-9]+", word):
        raise ConfigError(
            f"one offset cannot apply to {len(chosen)} partitions; choose one with --topic "
            "and --partition"
        )
    return chosen


def _in_topic(
    task: LoadTask,
    logs: TopicLogs,
    topic: str,
    partitions: list[TopicPartition],
    chosen: list[TopicPartition],
    word: str,
    stored: str,
    at_target: TargetOffsets,
) -> Target:
    known, nothing = _known(topic, stored)
    read = {partition.partition for partition in partitions}
    positions: list[KafkaPosition] = []
    means: list[str] = []
    numbers: set[int] = set()
    there = logs.partitions(topic)
    for number, offset in known.items():
        if number not in there:
            # The topic was made anew with fewer.
            means.append(f"{TopicPartition(topic, number)}: is gone, and so is its stored offset")
        elif number not in read:
            # The task does not read it, so it keeps its offset.
            positions.append(KafkaPosition(topic, number, offset - 1))
    for partition in partitions:
        before = known.get(partition.partition)
        if partition in chosen:
            numbers.add(partition.partition)
            after = _offset(task, logs, partition, word, before)
            difference = f"continues at offset {after}; {nothing}"
            if before is not None:
                difference = _difference(task, partition, before, after)
            means.append(f"{partition}: {difference}{at_target.beside(partition)}")
        elif before is None:
            # It continues where the target is.
            continue
        else:
            after = before
        # Stored as porter stores it: the last processed offset, not the next one.
        positions.append(KafkaPosition(topic, partition.partition, after - 1))
    if at_target.unknown:
        means.append(at_target.unknown)
    return Target(kafka_positions_to_json(positions), tuple(means), frozenset(numbers))


def _known(topic: str, stored: str) -> tuple[dict[int, int], str]:
    """The stored next offsets by partition, and why there is none of the others, in words. A task
    that finds an unusable position names this command, which replaces it."""
    if stored in ("", "[]"):
        return {}, "nothing was stored"
    try:
        positions = kafka_positions_from_json(stored)
    except PositionError:
        return {}, "the stored position cannot be read"
    if any(position.topic != topic for position in positions):
        return {}, "the stored position is of another topic"
    known = {position.partition: position.next_offset for position in positions}
    return known, "nothing was stored"


def _offset(
    task: LoadTask, logs: TopicLogs, partition: TopicPartition, word: str, before: int | None
) -> int:
    """The first offset to read from a partition."""
    low, high = logs.bounds(partition)
    if BACK.fullmatch(word):
        if before is None:
            raise ConfigError(
                f"{word} counts back from the stored position, and {partition} has none; "
                "give another place"
            )
        # A partition that never had so many records begins with its first one.
        return _held(partition, max(0, before + int(word)), low, high)
    try:
        start = KAFKA_START.read(word)
    except ValueError as error:
        raise ConfigError(
            f"{word!r} is not a position in a topic; expected {KAFKA_START.expected}, or -N for N "
            "records back"
        ) from error
    match start:
        case Edge.EARLIEST:
            return low
        case Edge.LATEST:
            return high
        case AtTime():
            found = logs.at_time(partition, start.epoch_ms)
            # No record is as new as that time yet, so only what comes from now on is read.
            if found is None:
                return high
            return found
        case AfterOffset():
            # The word names the last processed record, as consumer.offset does.
            return _held(partition, start.offset + 1, low, high)
        case Replay():
            raise ConfigError(
                f"{word} is a replay, not a place; give it to the task as consumer.offset"
            )


def _held(partition: TopicPartition, offset: int, low: int, high: int) -> int:
    if not low <= offset <= high:
        raise PositionLost(
            f"reading {partition} cannot continue at offset {offset}: Kafka holds {low} to {high}; "
            "--to earliest begins with the first of these"
        )
    return offset


def _difference(task: LoadTask, partition: TopicPartition, before: int, after: int) -> str:
    if before == after:
        return f"stays at offset {after}"
    first = min(before, after)
    # The later of the two places is not read or left out itself.
    last = max(before, after) - 1
    first_time = _record_time(task, partition, first)
    last_time = _record_time(task, partition, last)
    times = ""
    if first_time and last_time:
        times = f" of {first_time} to {last_time}"
    count = last - first + 1
    records = "record" if count == 1 else "records"
    verb = _verb(is_back=after < before)
    return f"from offset {before} to {after}: {verb} {count:,} {records}{times}"


def _verb(is_back: bool) -> str:
    """What a move does with everything between the two places."""
    if is_back:
        return "repeats"
    return "leaves out"


def _record_time(task: LoadTask, partition: TopicPartition, offset: int) -> str:
    """When Kafka received the record, or its producer created it; empty where that is unknown."""
    # The only group that the task's user may be allowed to use; nothing is committed.
    group = task.source.group or f"cdcbus-{task.task_id}"
    settings: dict[str, Any] = {
        "bootstrap.servers": task.source.servers,
        "group.id": group,
        "enable.auto.commit": False,
        # Otherwise a deleted record would be replaced by another one, silently.
        "auto.offset.reset": "error",
        "logger": LIBRARY_LOG,
    }
    consumer = Consumer({**task.source.look_up_options, **settings})
    try:
        consumer.assign([confluent_kafka.TopicPartition(*partition, offset)])
        message = consumer.poll(ASK_SECONDS)
    except KafkaException:
        return ""
    finally:
        consumer.close()
    if message is None or message.error() is not None:
        return ""
    return when(message.timestamp()[1])


def _in_source(task: FetchTask, word: str, stored: str) -> Target:
    if task.source.added is not None:
        return _in_added(task.source.added, word, stored)
    return _in_binlog(task, word, stored)


def _in_binlog(task: FetchTask, word: str, stored: str) -> Target:
    try:
        start = BINLOG_START.read(word)
    except ValueError as error:
        raise ConfigError(
            f"{word!r} is not a position in a binlog; expected {BINLOG_START.expected}"
        ) from error
    before: BinlogPosition | None = None
    known = "nothing was stored"
    if stored:
        try:
            before = BinlogPosition.from_json(stored)
        except PositionError:
            known = "the stored position cannot be read"
    config = replace(task.source, connect_timeout_seconds=ASK_SECONDS)
    short = replace(task, source=_answering(config, before))
    with BinlogSource(short) as source:
        after = source.locate(start)
        server = source.server
        is_reset = before is not None and _is_reset(source, before, after)
    if before is None:
        return Target(after.to_json(), (f"continues at {_described(after)}; {known}",))
    # porter's counter of batches continues; it is no part of the place.
    after = replace(after, batch_id=before.batch_id)
    unknown = (
        f"continues at {_described(after)} of {source.where}; what it repeats or leaves out is"
    )
    if is_reset:
        difference = (
            f"{unknown} unknown, as {before} is a place in a binlog that was reset since: what was "
            "committed after that place may be in neither"
        )
    elif server.has_files_of(before) and before.server_uuid in ("", server.identity):
        difference = _bytes_between(short, before, after)
    else:
        difference = f"{unknown} unknown, as {before} is a place in the binlog of another server"
    return Target(after.to_json(), (f"{task.swimlane}: {difference}",))


def _is_reset(source: BinlogSource, before: BinlogPosition, after: BinlogPosition) -> bool:
    """Whether the stored position's file was another one than the server's of that name, or of
    a later name than a file that was created after it."""
    if not before.file_created_ms:
        return False
    try:
        now_ms = source.locate(BinlogPosition(before.file, FIRST_EVENT)).file_created_ms
    except PositionLost:
        is_later = BinlogCoordinates(before.file, 0) > BinlogCoordinates(after.file, 0)
        return is_later and after.file_created_ms > before.file_created_ms
    return now_ms not in (0, before.file_created_ms)


def _answering(source: SourceConfig, stored: BinlogPosition | None) -> SourceConfig:
    """The source with one address: that of the server whose binlog the stored position is in, else
    the first that lets the task in; the first where none does."""
    if len(source.addresses) == 1:
        return source
    found = []
    for address in source.addresses:
        one = replace(source, addresses=(address,))
        try:
            with closing(servers.connect(one, ASK_SECONDS)) as connection, servers.reported(one):
                identity = servers.identity(connection)
        except (SourceUnavailable, SourceRefused):
            continue
        if stored is not None and stored.server_uuid == identity:
            return one
        found.append(one)
    if found:
        return found[0]
    return source


def _in_added(source: AddedSource, word: str, stored: str) -> Target:
    with OpenSource(source) as opened:
        after = opened.start(word)
        opened.check(after)
    if not stored:
        return Target(after.to_json(), (f"continues at {after}; nothing was stored",))
    try:
        before = BinlogPosition.from_json(stored)
    except PositionError:
        return Target(
            after.to_json(), (f"continues at {after}; the stored position cannot be read",)
        )
    after = replace(after, batch_id=before.batch_id)
    return Target(
        after.to_json(), (f"from {before} to {after}; only the source knows what lies between",)
    )


def _bytes_between(task: FetchTask, before: BinlogPosition, after: BinlogPosition) -> str:
    start = BinlogCoordinates(before.file, before.pos)
    end = BinlogCoordinates(after.file, after.pos)
    if start == end:
        return f"stays at {_described(after)}"
    with (
        closing(servers.connect(task.source, ASK_SECONDS)) as connection,
        servers.reported(task.source),
    ):
        files = servers.binlog_files(connection)
    way = f"from {_described(before)} to {_described(after)}"
    first, last = sorted([start, end])
    names = [name for name, _ in files]
    verb = _verb(is_back=end < start)
    # A file that was purged, or that another server wrote: its size is unknown.
    if first.file not in names or last.file not in names:
        return f"{way}: {verb} what lies between"
    # Whole files from the first to before the last; then the two places within them.
    between = files[names.index(first.file) : names.index(last.file)]
    size = sum(size for _, size in between) + last.pos - first.pos
    return f"{way}: {verb} {size:,} bytes of binlog"


def _described(position: BinlogPosition) -> str:
    if position.timestamp_ms:
        return f"{position} (committed {when(position.timestamp_ms)})"
    if position.file_created_ms:
        return f"{position} (the file begins {when(position.file_created_ms)})"
    return str(position)
