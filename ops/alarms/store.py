"""The alarms of a task in ZooKeeper, so that whichever node has the task next goes on with them.

/datas/task/<id>/alarm           alarms, notices that nobody has accepted yet, the last ones that
                                 were, restarts; written by the node that
                                 watches the task, each write naming the version it expects
/datas/task/<id>/alarm/silence   until when nothing is told of it, and who said so; written by
                                 `alarm silence`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from cdcbus.ops.alarms.state import Alarm, Kind, Notice
from cdcbus.tasks.zookeeper.positions import ROOT
from cdcbus.tasks.zookeeper.znode import answer, drop_node, get_node, put_node, reported

SENT_KEPT = 20
WAITING_KEPT = 20
NOBODY = "nobody yet"
LATEST = 2**36  # epoch seconds: the year 4147


@dataclass(frozen=True, slots=True)
class Sent:
    """A notice that was accepted, by which channel."""

    notice: Notice
    by: str


@dataclass(frozen=True, slots=True)
class TaskAlarms:
    """What is known of a task's alarms. `alarms`: by rule. `waiting`: notices that nobody has
    accepted yet, oldest first; `sent`: the last ones that somebody has. `restarts`: when the
    task was started again as it was stuck, epoch seconds."""

    alarms: Mapping[str, Alarm] = field(default_factory=dict)
    waiting: tuple[Notice, ...] = ()
    sent: tuple[Sent, ...] = ()
    restarts: tuple[float, ...] = ()

    @property
    def raised(self) -> dict[str, Alarm]:
        """Those that people know of."""
        return {rule: alarm for rule, alarm in self.alarms.items() if alarm.raised_at}

    def told_by(self, rule: str) -> str:
        """Which channel has accepted the last notice of an alarm; empty where none was told
        lately, NOBODY while nobody has."""
        if any(notice.rule == rule for notice in self.waiting):
            return NOBODY
        return next((sent.by for sent in reversed(self.sent) if sent.notice.rule == rule), "")


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing is told until then, epoch seconds."""

    until: float = 0.0
    by: str = ""

    def is_on(self, now: float) -> bool:
        return self.until > now


class AlarmNodes:
    """Lives as long as its client. All calls raise PositionUnavailable and PositionError."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def get(self, task_id: str) -> tuple[TaskAlarms, int]:
        """The alarms, and the version of their node, -1 where there is none yet. What is damaged
        counts as nothing."""
        node = get_node(self._client, _path(task_id))
        return (TaskAlarms(), -1) if node is None else (_read(node.fields), node.version)

    def put(self, task_id: str, alarms: TaskAlarms, version: int) -> int | None:
        """Writes them if the node still has this version; its new version, or None where
        somebody else has written."""
        data = orjson.dumps(asdict(alarms))
        with reported(_path(task_id)):
            try:
                if version < 0:
                    answer(self._client.create_async(_path(task_id), data))
                    return 0
                return int(answer(self._client.set_async(_path(task_id), data, version)).version)
            # the last: the task was removed
            except (BadVersionError, NodeExistsError, NoNodeError):
                return None

    def silence(self, task_id: str) -> Silence:
        node = get_node(self._client, f"{_path(task_id)}/silence")
        until = None if node is None else node.real("until")
        return (
            Silence()
            if node is None or not _is_time(until)
            else Silence(until or 0.0, node.text("by"))
        )

    def put_silence(self, task_id: str, silence: Silence | None) -> None:
        if silence is None:
            drop_node(self._client, f"{_path(task_id)}/silence")
        else:
            put_node(self._client, f"{_path(task_id)}/silence", asdict(silence))


def _path(task_id: str) -> str:
    return f"{ROOT}/task/{task_id}/alarm"


def _read(fields: Mapping[str, Any]) -> TaskAlarms:
    try:
        return TaskAlarms(
            {rule: _alarm(alarm) for rule, alarm in fields.get("alarms", {}).items()},
            tuple(_notice(notice) for notice in fields.get("waiting", ())),
            tuple(
                Sent(_notice(sent["notice"]), str(sent["by"])) for sent in fields.get("sent", ())
            ),
            tuple(map(float, fields.get("restarts", ()))),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return TaskAlarms()


def _alarm(fields: Mapping[str, Any]) -> Alarm:
    alarm = Alarm(**fields)
    _check(
        (alarm.sentence,), (alarm.since, alarm.raised_at, alarm.told_at, alarm.gone_at, alarm.times)
    )
    return alarm


def _notice(fields: Mapping[str, Any]) -> Notice:
    notice = Notice(**{**fields, "kind": Kind(fields["kind"])})
    _check((notice.rule, notice.sentence), (notice.since, notice.at, notice.times))
    return notice


def _check(texts: Iterable[object], numbers: Iterable[object]) -> None:
    """Raises ValueError for what is no text, no time and no count."""
    if not all(isinstance(text, str) for text in texts) or not all(map(_is_time, numbers)):
        raise ValueError


def _is_time(number: object) -> bool:
    return isinstance(number, int | float) and 0 <= number < LATEST
