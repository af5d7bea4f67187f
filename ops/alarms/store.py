"""The alarms of a task in ZooKeeper, so that the next node that has the task continues with them.

/datas/task/<id>/alarm           alarms, notices that nobody has accepted yet, the last ones that
                                 were accepted, restarts; written by the node that watches the task,
                                 each write naming the version it expects. Members that a newer
                                 cdcbus has written stay
/datas/task/<id>/alarm/silence   until when no alarm of it is sent, and who said so; written by
                                 `alarm silence`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from cdcbus.ops.alarms.state import Alarm, Kind, Notice
from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.znode import answer, drop_node, get_node, put_node, reported

SENT_KEPT = 20
WAITING_KEPT = 20
NOBODY = "nobody yet"
LATEST = 2**36  # epoch seconds: the year 4147


@dataclass(frozen=True, slots=True)
class Sent:
    """A notice that was accepted. `by`: the channels."""

    notice: Notice
    by: str


@dataclass(frozen=True, slots=True)
class TaskAlarms:
    """The alarms of a task. `alarms`: by rule. `waiting`: notices that nobody has accepted yet,
    oldest first; `sent`: the last ones that were accepted. `restarts`: when the task was restarted
    because it was stuck, in epoch seconds."""

    alarms: Mapping[str, Alarm] = field(default_factory=dict)
    waiting: tuple[Notice, ...] = ()
    sent: tuple[Sent, ...] = ()
    restarts: tuple[float, ...] = ()

    @property
    def raised(self) -> dict[str, Alarm]:
        """The alarms that people know of."""
        return {rule: alarm for rule, alarm in self.alarms.items() if alarm.raised_at}

    def reported_by(self, rule: str) -> str:
        """The channel that accepted the last notice of an alarm; NOBODY while none has, empty where
        no notice was sent lately."""
        if any(notice.rule == rule for notice in self.waiting):
            return NOBODY
        for sent in reversed(self.sent):
            if sent.notice.rule == rule:
                return sent.by
        return ""


@dataclass(frozen=True, slots=True)
class Silence:
    """No alarm is sent until then, in epoch seconds."""

    until: float = 0.0
    by: str = ""

    def is_on(self, now: float) -> bool:
        return self.until > now


class AlarmNodes:
    """Lives as long as its client. All calls raise PositionUnavailable and PositionError."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def get(self, task_id: str) -> tuple[TaskAlarms, int]:
        """The alarms, and the version of their znode, -1 where there is none yet. Damaged ones
        count as none."""
        node = get_node(self._client, _path(task_id))
        if node is None:
            return TaskAlarms(), -1
        return _read(node.fields), node.version

    def put(self, task_id: str, alarms: TaskAlarms, version: int) -> int | None:
        """Writes the alarms if their znode still has this version. Returns its new version, or None
        where another node has written it."""
        stored = None if version < 0 else get_node(self._client, _path(task_id))
        data = orjson.dumps(_with_unknown(asdict(alarms), stored.fields if stored else {}))
        with reported(_path(task_id)):
            try:
                if version < 0:
                    answer(self._client.create_async(_path(task_id), data))
                    return 0
                return int(answer(self._client.set_async(_path(task_id), data, version)).version)
            # NoNodeError: the task was removed
            except (BadVersionError, NodeExistsError, NoNodeError):
                return None

    def silence(self, task_id: str) -> Silence:
        node = get_node(self._client, f"{_path(task_id)}/silence")
        if node is None:
            return Silence()
        until = node.real("until")
        if until is None or not _is_time(until):
            return Silence()
        return Silence(until, node.text("by"))

    def put_silence(self, task_id: str, silence: Silence | None) -> None:
        if silence is None:
            drop_node(self._client, f"{_path(task_id)}/silence")
        else:
            put_node(self._client, f"{_path(task_id)}/silence", asdict(silence))


def _path(task_id: str) -> str:
    return f"{ROOT}/task/{task_id}/alarm"


def _read(stored: Mapping[str, Any]) -> TaskAlarms:
    try:
        alarms = {rule: _alarm(alarm) for rule, alarm in stored.get("alarms", {}).items()}
        waiting = map(_notice, stored.get("waiting", ()))
        sent = map(_sent, stored.get("sent", ()))
        restarts = map(float, stored.get("restarts", ()))
        return TaskAlarms(alarms, tuple(waiting), tuple(sent), tuple(restarts))
    except (AttributeError, KeyError, TypeError, ValueError):
        # Junk must not end the watch over the task: it is replaced at the next change.
        return TaskAlarms()


def _alarm(stored: Mapping[str, Any]) -> Alarm:
    alarm = Alarm(**_known(stored, Alarm))
    times = (alarm.since, alarm.raised_at, alarm.told_at, alarm.gone_at)
    _check((alarm.sentence,), (*times, alarm.times, alarm.event_at))
    return alarm


def _sent(stored: Mapping[str, Any]) -> Sent:
    return Sent(_notice(stored["notice"]), str(stored["by"]))


def _notice(stored: Mapping[str, Any]) -> Notice:
    accepted_by = tuple(map(str, stored.get("told", ())))
    # A kind that only a newer cdcbus knows: people are told all the same.
    kind = Kind(stored["kind"]) if stored["kind"] in [*Kind] else Kind.RAISED
    notice = Notice(**{**_known(stored, Notice), "kind": kind, "told": accepted_by})
    _check((notice.rule, notice.sentence), (notice.since, notice.at, notice.times))
    return notice


def _known(stored: Mapping[str, Any], kind: type[Alarm | Notice]) -> dict[str, Any]:
    """The members that this cdcbus knows."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in stored.items() if name in names}


def _with_unknown(written: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """What is written, with the members that another cdcbus has stored of it."""
    if _read(stored) == TaskAlarms():  # also where they are damaged
        return {**stored, **written}
    alarms = stored.get("alarms", {})
    for rule, alarm in written["alarms"].items():
        written["alarms"][rule] = {**alarms.get(rule, {}), **alarm}
    notices = {}
    for notice in (
        *stored.get("waiting", ()),
        *(each["notice"] for each in stored.get("sent", ())),
    ):
        notices[_identity(notice)] = notice
    written["waiting"] = [
        {**notices.get(_identity(each), {}), **each} for each in written["waiting"]
    ]
    for sent in written["sent"]:
        sent["notice"] = {**notices.get(_identity(sent["notice"]), {}), **sent["notice"]}
    return {**stored, **written}


def _identity(notice: Mapping[str, Any]) -> tuple[object, ...]:
    return notice["rule"], notice["kind"], notice["at"]


def _check(texts: Iterable[object], numbers: Iterable[object]) -> None:
    """Raises ValueError unless all texts are texts, and all numbers can be times or counts."""
    if not all(isinstance(text, str) for text in texts) or not all(map(_is_time, numbers)):
        raise ValueError


def _is_time(number: object) -> bool:
    return isinstance(number, int | float) and 0 <= number < LATEST
