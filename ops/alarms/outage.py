"""The alarm of a node that ZooKeeper does not serve, or without the tasks that the node ran. Alarms
of tasks are stored there before they are sent, so none of them can tell of that: each node sends
this one itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdcbus.ops.alarms.channels import Channel, Message
from cdcbus.ops.alarms.grouping import Severity, utc
from cdcbus.ops.alarms.limits import Limits
from cdcbus.ops.alarms.rules import Condition
from cdcbus.ops.alarms.state import Alarm, Kind, Notice, step

RULE = "zookeeper"
# Of each channel: where nobody accepts them, the oldest are dropped.
WAITING_KEPT = 10
# Between attempts to send a message that a channel does not accept.
AGAIN_SECONDS = 60.0


@dataclass(slots=True)
class Outage:
    """What a node knows of it, until the node ends. Used on one thread."""

    node_id: str
    channels: Sequence[Channel]
    _alarms: dict[str, Alarm] = field(default_factory=dict)
    # By channel, the oldest first.
    _waiting: dict[str, list[Message]] = field(default_factory=dict)
    _again_at: dict[str, float] = field(default_factory=dict)

    def look(self, sentence: str, limits: Limits, event_at: float = 0.0) -> list[Message]:
        """Returns the messages that another look makes, and keeps them for `send`. `sentence`: why
        ZooKeeper does not serve the node, and what that means, empty while it does. `limits`: of no
        task. `event_at`: with another one, a raised alarm is told of at once, as something else
        is wrong by now."""
        found = []
        if sentence:
            hold, repeat = limits.hold_seconds, limits.repeat_seconds
            found = [Condition(RULE, sentence, hold, repeat, event_at)]
        now = time.time()
        is_quiet = not limits.is_in_window(now)
        self._alarms, notices = step(self._alarms, found, now, limits.hold_seconds, is_quiet)
        made = [self._message(each) for each in notices]
        for channel in self.channels:
            waiting = [*self._waiting.get(channel.name, ()), *made]
            self._waiting[channel.name] = waiting[-WAITING_KEPT:]
        return made

    def send(self, is_accepted: Callable[[Channel, Message], bool], limits: Limits) -> None:
        """Sends what waits, in order, to each channel whose turn it is, at times when notices are
        sent."""
        if not limits.is_in_window(time.time()):
            return
        for channel in self.channels:
            waiting = self._waiting.get(channel.name, [])
            while waiting and time.monotonic() >= self._again_at.get(channel.name, 0.0):
                if is_accepted(channel, waiting[0]):
                    waiting.pop(0)
                else:
                    self._again_at[channel.name] = time.monotonic() + AGAIN_SECONDS

    def _message(self, notice: Notice) -> Message:
        if notice.kind is Kind.CLEARED:
            words = f"{RULE} is over"
        else:
            again = f" ({notice.times} times)" if notice.times > 1 else ""
            words = f"{RULE}{again}: {notice.sentence}"
        fields: dict[str, Any] = {
            "task": "",
            "kind": notice.kind.value,
            "rule": RULE,
            "sentence": notice.sentence,
            "state": "",
            "since": utc(notice.since),
            "at": utc(notice.at),
            "times": notice.times,
            "node": self.node_id,
            "severity": Severity.CRITICAL,
            "cause": "ZooKeeper",
            "tasks": [],
        }
        return Message(f"node {self.node_id}: {words}", fields)
