"""How far the target of a consumer task says that it is, for commands that set positions: asked once, and nothing is changed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.consumer.offsets import Lane
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.kafka.publish_config import PublishConfig
from cdcbus.tasks.check_forward import check_forward
from cdcbus.tasks.check_load import check_target
from cdcbus.tasks.observations import Outcome


@dataclass(frozen=True, slots=True)
class TargetOffsets:
    """The next offset of each lane that the target knows. `unknown`: why it does not tell."""

    offsets: Mapping[Lane, int] = field(default_factory=dict)
    unknown: str = ""

    def says(self, lane: Lane) -> str:
        """In words; empty where the target was not asked."""
        if self.unknown:
            return f"what the target has is not known: {self.unknown}"
        offset = self.offsets.get(lane)
        return "the target has none of it" if offset is None else f"the target is at offset {offset}"


def target_offsets(task: LoadTask) -> TargetOffsets:
    """Never raises for a target that is away."""
    try:
        seen, table = check_forward(task, task.target) if isinstance(task.target, PublishConfig) else check_target(task)
    except CdcError as error:
        return TargetOffsets(unknown=str(error))
    failed = next((each for each in seen if each.outcome is Outcome.ERROR), None)
    if failed:
        return TargetOffsets(unknown=failed.found)
    if not table.is_there:
        return TargetOffsets(unknown="it keeps no offsets, or none yet")
    return TargetOffsets({(offset.topic, offset.partition): offset.next_offset for offset in table.applied})
