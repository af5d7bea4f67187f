"""How far the target of a consumer task says that it is, for commands that set positions: asked
once, and nothing is changed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.start_offsets import Lane
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.tasks.preflight.forward import check_forward
from cdcbus.tasks.preflight.load import check_target
from cdcbus.tasks.preflight.result import Outcome

UNKNOWN = "what the target has is not known: "


@dataclass(frozen=True, slots=True)
class TargetOffsets:
    """The next offset of each lane that the target knows. `unknown`: that and why it does not
    tell."""

    offsets: Mapping[Lane, int] = field(default_factory=dict)
    unknown: str = ""

    def says(self, lane: Lane) -> str:
        """In words."""
        offset = self.offsets.get(lane)
        return (
            "the target has none of it" if offset is None else f"the target is at offset {offset}"
        )

    def beside(self, lane: Lane) -> str:
        """The same, to be put behind another sentence; nothing where the target does not tell."""
        return "" if self.unknown else f"; {self.says(lane)}"


def target_offsets(task: LoadTask) -> TargetOffsets:
    """Never raises for a target that is away."""
    try:
        seen, table = (
            check_forward(task, task.target)
            if isinstance(task.target, PublishConfig)
            else check_target(task)
        )
    except CdcError as error:
        return TargetOffsets(unknown=f"{UNKNOWN}{error}")
    failed = next((each for each in seen if each.outcome is Outcome.ERROR), None)
    if failed:
        return TargetOffsets(unknown=f"{UNKNOWN}{failed.found}")
    if not table.is_there:
        return TargetOffsets(unknown=f"{UNKNOWN}it keeps no offsets, or none yet")
    return TargetOffsets(
        {(offset.topic, offset.partition): offset.next_offset for offset in table.applied}
    )
