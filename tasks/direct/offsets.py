"""The offsets of a direct load: the target and the task's position before it, what fences other
processes off while it runs, and the position from which the task follows afterwards."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cdcbus.consumer.batch.progress import shown
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.start_offsets import Starts, kind_of_target
from cdcbus.consumer.offsets.topic_identity import topic_ids
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.spark.settings import is_cluster
from cdcbus.consumer.take_over import take_over
from cdcbus.plugins.contracts import AppliedOffset, Details
from cdcbus.plugins.errors import ConfigError, PositionLost, TargetError
from cdcbus.tasks.direct.counts import committed, forget_counts
from cdcbus.tasks.direct.given import check_kept
from cdcbus.tasks.direct.opened import Opened
from cdcbus.tasks.snapshots.direct import DirectLoad, put_direct_load
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions

LOG = logging.getLogger(__name__)


def stored_positions(
    opened: Opened, *, is_fresh: bool, applied: Sequence[AppliedOffset]
) -> StoredPositions:
    """The stored positions. Raises ConfigError if the task has run before: it has a position then,
    and records before that do not come again."""
    stores = {}
    # Offsets of a load that ZooKeeper no longer knows show no run. Whether its tables are empty
    # again is checked for the new one.
    has_run = not all(each.is_loading for each in applied)
    for topic in opened.load.source.topics:
        stores[topic] = ZooKeeperPositions(
            opened.client, opened.load.task_id, topic, is_lost=lambda: opened.stop.is_lost
        )
        has_run |= stores[topic].load() is not None
    if is_fresh and has_run:
        raise ConfigError(
            f"task {opened.load.task_id} has run already, and has a position: a direct load must "
            "come before a task's first start. Take the snapshot of single tables through Kafka "
            "(docs/snapshot.md), or give the task another id"
        )
    return StoredPositions(stores)


def check_held(load: LoadTask, found: DirectLoad) -> None:
    """Raises PositionLost if Kafka no longer holds the offsets from which the task follows."""
    with TopicLogs(load) as logs:
        for partition, offset in found.offsets.items():
            first, end = logs.bounds(partition)
            if not first <= offset <= end:
                raise PositionLost(
                    f"{partition} has the offsets {first} to {end}, and the direct load of task "
                    f"{load.task_id} was begun at {offset}: what was written meanwhile is lost. "
                    "Have Kafka keep records for longer (retention.ms), empty the target tables, "
                    "and start again with --anew"
                )
        ids = topic_ids(load.source)
        # Kafka may leave out one that it does not know at the moment.
        if any(ids.get(topic, known) != known for topic, known in found.topic_ids.items()):
            raise PositionLost(
                f"the topics of task {load.task_id} were recreated while it was loaded: empty the "
                "target tables, and start again with --anew"
            )


def check_fence(opened: Opened) -> None:
    """Raises ConfigError where only a fence would stop executors, and the target keeps no offsets,
    by which it would. Call it once the applied offsets were asked for."""
    master = opened.load.spark_master
    if is_cluster(master) and not opened.applier.keeps_offsets:
        raise ConfigError(
            f"task {opened.load.task_id}: the target keeps no offsets, so an executor of "
            f"spark.master={master} that was wrongly thought to be lost could write its rows after "
            "newer ones: let the task create table cdcbus_position there, or load with "
            "spark.master=local[*]"
        )


def fence(opened: Opened, found: DirectLoad) -> AppliedOffset | None:
    """Takes the target over, and notes there that the load is not finished. Returns an offset in it
    that fences off processes that were replaced; None where the target keeps no offsets."""
    offsets = []
    for partition, offset in found.offsets.items():
        # ZooKeeper, which has the load, can be lost or be another one: the target tells of it too.
        details = Details(found.topic_ids.get(partition.topic, ""), loading_from=offset)
        offsets.append(AppliedOffset(*partition, offset, 0, details=details))
    opened.applier.take_over(offsets)
    if not opened.applier.keeps_offsets:
        return None
    # One is enough, as a take-over changes all of them.
    return min(opened.applier.seen.values(), key=lambda each: each.topic_partition)


def finish(
    opened: Opened, found: DirectLoad, positions: StoredPositions, counts: Mapping[int, int]
) -> None:
    """Sets the task's position to the offsets, and releases the task. `counts`: how much each
    reader has committed. Raises PositionLost if Kafka no longer holds the offsets, ConfigError if
    the target lacks commits."""
    check_held(opened.load, found)
    # Fences any process that still writes chunks.
    opened.applier.applied_offsets()
    check_kept(opened.load.task_id, counts, committed(opened))
    starts = Starts(
        dict(found.offsets),
        topic_ids=dict(found.topic_ids),
        target_kind=kind_of_target(opened.load),
    )
    # Target first, then ZooKeeper; only after both the load is done, and the task may start.
    take_over(opened.load, opened.applier, positions, starts)
    put_direct_load(opened.client, opened.load.task_id, replace(found, is_done=True))
    try:
        forget_counts(opened)
    # They are never read again, and the load is done.
    except TargetError as error:
        LOG.warning("task %s: counts of its direct load stay: %s", opened.load.task_id, error)
    LOG.info(
        "task %s: everything is loaded; it follows from %s",
        opened.load.task_id,
        shown(found.offsets),
    )
