"""The offsets that a consumer task's target reports, for commands that set positions. The target is
asked once, and not changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition
from cdcbus.tasks.preflight.forward import check_forward
from cdcbus.tasks.preflight.load import check_target
from cdcbus.tasks.preflight.result import Outcome

UNKNOWN = "the target's offsets are unknown: "


@dataclass(frozen=True, slots=True)
class TargetOffsets:
    """The next offset of each partition that the target knows. `unknown`: a sentence that says why
    it reports none; else empty."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    unknown: str = ""

    def says(self, partition: TopicPartition) -> str:
        """The target's offset of a partition, in words."""
        offset = self.offsets.get(partition)
        if offset is None:
            return "the target has no offset of it"
        return f"the target is at offset {offset}"

    def beside(self, partition: TopicPartition) -> str:
        """The same as a suffix for another sentence; empty where the target reports nothing."""
        if self.unknown:
            return ""
        return f"; {self.says(partition)}"


def target_offsets(task: LoadTask, lacks: str = "") -> TargetOffsets:
    """The target's offsets; unknown, without an error, if the target is unavailable. `lacks`: what
    is missing here to log in to the target, in words; it is not asked then."""
    if lacks:
        return TargetOffsets(unknown=f"{UNKNOWN}{lacks}")
    try:
        if isinstance(task.target, PublishConfig):
            seen, table = check_forward(task, task.target)
        else:
            seen, table = check_target(task)
    # A command that sets positions must work while the target is down, too.
    except CdcError as error:
        return TargetOffsets(unknown=f"{UNKNOWN}{error}")
    for result in seen:
        if result.outcome is Outcome.ERROR:
            return TargetOffsets(unknown=f"{UNKNOWN}{result.found}")
    if not table.is_there:
        return TargetOffsets(unknown=f"{UNKNOWN}it keeps no offsets, or none yet")
    return TargetOffsets({offset.topic_partition: offset.next_offset for offset in table.applied})
