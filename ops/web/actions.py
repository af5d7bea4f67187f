"""The changes that pages and API can make, each in one call: the same as those of the commands, and
recorded in the audit like them.

`who` is `auth.operator_of(request)`. All raise Refused (404) for an unknown task or node, and
CdcError for what is not possible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from cdcbus.ops.alarms import silence as alarm_silence
from cdcbus.ops.services.scheduling import explained
from cdcbus.ops.services.snapshots import Ordered, order_snapshot
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.bus import WebBus
from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.producer.snapshot.progress import Wish
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.keys.types import is_path_name
from cdcbus.tasks.control import uses as uses_of
from cdcbus.tasks.control.commands import (
    check_position,
    order_limit,
    order_start,
    order_taking,
    refuse_running,
)
from cdcbus.tasks.control.named_task import inspect_stored
from cdcbus.tasks.control.reset import Target, find_targets, set_numbers
from cdcbus.tasks.control.uses import Uses, kafka_of, lacking, source_of, target_of, task_of
from cdcbus.tasks.zookeeper.node_registry import BusNodes, NodeInfo
from cdcbus.tasks.zookeeper.position.history import (
    histories,
    merged,
    positions_of,
    set_positions,
    undone,
)
from cdcbus.tasks.zookeeper.status import Status, status_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes

if TYPE_CHECKING:
    from cdcbus.consumer.config import LoadTask
    from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
    from cdcbus.consumer.records.dead_letters import OpenDeadLetter
    from cdcbus.ops.services.dead_letters import FetchLetter, FetchLetters
    from cdcbus.producer.config import FetchTask


def known_task(bus: WebBus, task_id: str) -> Status:
    """The status of a task."""
    nodes = TaskNodes(bus.client)
    # Checked first: a name of another form could lead to another znode.
    if not is_path_name(task_id) or task_id not in nodes.ids():
        raise Refused(404, "there is no such task")
    return explained(nodes.client, status_of(nodes, task_id))


def known_node(bus: WebBus, node_id: str) -> NodeInfo:
    """What is known about a node."""
    info = None
    if is_path_name(node_id):
        info = BusNodes(bus.client).seen(node_id)
    if info is None:
        raise Refused(404, "there is no such node")
    return info


def stored_task(
    bus: WebBus, task_id: str, uses: Callable[[FetchTask | LoadTask], Uses] = kafka_of
) -> FetchTask | LoadTask:
    """The task of a text in ZooKeeper. `uses`: what is used of it here, by default its topics.
    Raises ConfigError for a text with errors."""
    known_task(bus, task_id)
    return uses_of.stored_task(task_id, bus.settings, uses)


def start(bus: WebBus, task_id: str, who: str) -> Status:
    """Orders the start of a task, without waiting for it. Returns its current status."""
    order_start(TaskNodes(bus.client), _startable(bus, task_id), who)
    return known_task(bus, task_id)


def restart(bus: WebBus, task_id: str, who: str) -> Status:
    """Orders the restart of a task with its current text; one that is stopped is started."""
    order_start(TaskNodes(bus.client), _startable(bus, task_id), who, is_restart=True)
    return known_task(bus, task_id)


def stop(bus: WebBus, task_id: str, who: str) -> Status:
    """Orders the stop of a task, without waiting for it."""
    known_task(bus, task_id)
    TaskNodes(bus.client).want(task_id, is_working=False, by=who)
    return known_task(bus, task_id)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a reset would do. `targets`: the positions that a word such as `earliest` stands for, by
    swimlane, and what each repeats or skips, compared with the stored ones, `before`."""

    targets: Mapping[str, Target]
    before: Mapping[str, str | None]

    def to_json(self) -> str:
        """`{SWIMLANE:{"position":TEXT,"before":TEXT,"numbers":[NUMBER]}}`, for
        `reset_as_shown`."""
        shown = {}
        for swimlane, target in self.targets.items():
            shown[swimlane] = {
                "position": target.text,
                "before": self.before.get(swimlane),
                "numbers": sorted(target.numbers),
            }
        return orjson.dumps(shown).decode()


def reset_preview(
    bus: WebBus, task_id: str, place: str, topic: str | None = None, partition: int | None = None
) -> Preview:
    """What a reset to a place would do. Changes nothing. Asks Kafka or the source, which takes up
    to 10 s when they are unreachable."""
    known_task(bus, task_id)
    inspection = inspect_stored(task_id, bus.settings, Severity.NOTE)
    task = task_of(inspection, f"task {task_id}", source_of)
    # Without its secrets the target is not asked: failed logins can lock a user.
    target_lacks = lacking(inspection, f"task {task_id}", target_of)
    before = positions_of(bus.client, task_id)
    return Preview(find_targets(task, place, before, topic, partition, target_lacks), before)


def reset(
    bus: WebBus,
    task_id: str,
    place: str,
    who: str,
    topic: str | None = None,
    partition: int | None = None,
    live: bool = False,
) -> Mapping[str, Target]:
    """Sets the positions that `reset_preview` finds now. A running task is refused unless
    `live`."""
    preview = reset_preview(bus, task_id, place, topic, partition)
    refuse_running(bus.client, task_id, live)
    texts = {swimlane: target.text for swimlane, target in preview.targets.items()}
    # Refused where a position is no longer the one that the targets were compared with.
    numbers = set_numbers(target.numbers for target in preview.targets.values())
    _set(bus, task_id, texts, preview.before, place, who, numbers)
    return preview.targets


def reset_as_shown(
    bus: WebBus,
    task_id: str,
    shown: str,
    place: str,
    who: str,
    live: bool = False,
) -> None:
    """Sets the positions of a preview, `shown`, as its `to_json` gave them: a place such as
    `latest` stands for another one by now. A running task is refused unless `live`, and one that
    does not run if its position is no longer the one of the preview."""
    known_task(bus, task_id)
    swimlanes = TaskNodes(bus.client).swimlanes(task_id)
    texts = {}
    before = {}
    numbers: dict[str, frozenset[int]] = {}
    try:
        for swimlane, each in orjson.loads(shown).items():
            texts[swimlane], before[swimlane] = str(each["position"]), each["before"]
            numbers[swimlane] = frozenset(map(int, each["numbers"]))
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(422, "the form does not hold the positions that were shown") from error
    for swimlane, text in texts.items():
        if swimlane not in swimlanes:
            raise Refused(422, f"task {task_id} has no swimlane {swimlane}")
        check_position(text, swimlane)
    refuse_running(bus.client, task_id, live)
    # Of a running task it moves all the time.
    if TaskNodes(bus.client).locks(task_id):
        before = positions_of(bus.client, task_id)
        for swimlane, text in texts.items():
            # The other partitions stay where they are by now.
            texts[swimlane] = merged(before.get(swimlane), text, numbers[swimlane])
    _set(bus, task_id, texts, before, place, who, set_numbers(numbers.values()))


def _set(
    bus: WebBus,
    task_id: str,
    texts: Mapping[str, str],
    before: Mapping[str, str | None],
    place: str,
    who: str,
    numbers: frozenset[int] | None,
) -> None:
    how = f"offset reset --to {place}"
    set_positions(bus.client, task_id, dict(texts), dict(before), who, how, numbers)


def undo(
    bus: WebBus,
    task_id: str,
    swimlane: str,
    who: str,
    live: bool = False,
    at: str | None = None,
    after: str | None = None,
) -> str:
    """Restores a position to the one before its last change, and returns it. `at` and `after`: of
    the change that is to be undone; refused if it is not the last one, as an undo is a change that
    could be undone itself."""
    known_task(bus, task_id)
    changes = histories(bus.client, task_id).get(swimlane)
    if not changes:
        raise ConfigError(
            f"nobody has set a position of this swimlane of task {task_id}; there is nothing to "
            "undo"
        )
    last = changes[-1]
    if at not in (None, last.at) or (after is not None and after.split() != last.after.split()):
        raise PositionConflict(
            f"the position of task {task_id} was set again meanwhile ({last.how}, by {last.by} at "
            f"{last.at} UTC), so nothing was undone; look at it again"
        )
    refuse_running(bus.client, task_id, live)
    before = positions_of(bus.client, task_id)
    text, partitions = undone(last, before.get(swimlane))
    set_positions(bus.client, task_id, {swimlane: text}, before, who, "offset undo", partitions)
    return text


def snapshot(bus: WebBus, task_id: str, what: Wish, who: str) -> Ordered:
    """Orders `what` for the snapshots of a fetch task, or gives up a direct load, without
    waiting. Unless it is confirmed, refuses what would make rows come twice, or lose the progress
    of a load."""
    known_task(bus, task_id)
    return order_snapshot(bus.client, task_id, what, who)


def drain(bus: WebBus, node_id: str, who: str) -> NodeInfo:
    """Makes the node give up its tasks and take no more."""
    known_node(bus, node_id)
    order_taking(BusNodes(bus.client), node_id, False, who)
    return known_node(bus, node_id)


def resume(bus: WebBus, node_id: str, who: str) -> NodeInfo:
    """Lets the node take tasks again."""
    known_node(bus, node_id)
    order_taking(BusNodes(bus.client), node_id, True, who)
    return known_node(bus, node_id)


def limit(bus: WebBus, node_id: str, swimlanes: int, who: str) -> NodeInfo:
    """Sets how many swimlanes the node runs at most."""
    known_node(bus, node_id)
    order_limit(BusNodes(bus.client), node_id, swimlanes, who)
    return known_node(bus, node_id)


def silence(bus: WebBus, task_ids: Collection[str], seconds: float, who: str) -> None:
    """Silences the alarms of tasks; 0 ends their silence."""
    # All names first, so that an unknown one changes nothing.
    for task_id in task_ids:
        known_task(bus, task_id)
    for task_id in task_ids:
        alarm_silence.silence(bus.client, task_id, seconds, who)


def dead_letters(bus: WebBus, task_id: str) -> list[OpenDeadLetter | FetchLetter]:
    """The open dead letters of a task. Takes up to 30 s when Kafka is unreachable."""
    with _dead_letters(bus, task_id) as topic:
        return [*topic.dead_letters()]


def dlq_replay(
    bus: WebBus,
    task_id: str,
    records: Collection[str] | None,
    who: str,
    force: bool = False,
    seen: str | None = None,
) -> int:
    """Appends original records (None: all) to their partitions, marks their dead letters resolved,
    and returns how many. Refused for a fetch task, whose dead letters do not hold the records, if
    all are others than those `seen` (`digest_of`), and, unless forced, where a row would go back in
    time."""
    from cdcbus.ops.services.dead_letters import NO_REPLAY, FetchLetters
    from cdcbus.tasks.control.dead_letters import chosen_letters, replay_letters

    with _dead_letters(bus, task_id) as topic:
        if isinstance(topic, FetchLetters):
            raise ConfigError(NO_REPLAY)
        dead_letters = chosen_letters(topic, records, seen)
        replay_letters(bus.client, topic, task_id, dead_letters, who, force)
    return len(dead_letters)


def dlq_drop(
    bus: WebBus, task_id: str, records: Collection[str] | None, who: str, seen: str | None = None
) -> int:
    """Marks dead letters (None: all) resolved without applying them, and returns how many. Refused
    if all are others than those `seen` (`digest_of`)."""
    from cdcbus.tasks.control.dead_letters import chosen_letters, drop_letters

    with _dead_letters(bus, task_id) as topic:
        dead_letters: list[Any] = chosen_letters(topic, records, seen)
        drop_letters(bus.client, topic, task_id, dead_letters, who)
    return len(dead_letters)


def _dead_letters(bus: WebBus, task_id: str) -> DeadLetterTopic | FetchLetters:
    from cdcbus.ops.services.dead_letters import letters_of

    return letters_of(stored_task(bus, task_id))


def _startable(bus: WebBus, task_id: str) -> Status:
    status = known_task(bus, task_id)
    if not TaskNodes(bus.client).swimlanes(task_id):
        raise ConfigError(
            f"task {task_id} has no text in ZooKeeper; import it: cdcbus task import FILE"
        )
    return status
