"""How far a Kafka partition has been applied to a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from cdcbus.plugins.contracts.stores import Landmark
from cdcbus.plugins.positions import TopicPartition


@dataclass(frozen=True, slots=True)
class Details:
    """What is kept with an applied offset besides its numbers."""

    # As in Mark.
    topic_id: str = ""
    # Members that another version of cdcbus wrote, as JSON. They are kept beside later offsets,
    # too: a new member that is true of one offset only must carry that offset, as `last` does.
    others: str = ""
    # The last record before the offset, where known.
    last: Landmark | None = None
    # The next offset at which a direct load was begun that is not finished: while it is the next
    # one, the target tables lack rows.
    loading_from: int | None = None

    def to_json(self) -> str:
        # Members of another version are kept, as they count again after an upgrade is rolled back.
        members: dict[str, object] = orjson.loads(self.others or "{}")
        if self.topic_id:
            members["topicId"] = self.topic_id
        if self.last:
            members["last"] = self.last.kept
        if self.loading_from is not None:
            members["loadingFrom"] = self.loading_from
        return orjson.dumps(members).decode()

    @classmethod
    def from_json(cls, text: str | None) -> Details:
        """Reads the output of `to_json`; returns empty details for anything that is not a JSON
        object."""
        try:
            fields = orjson.loads(text or "{}")
        except orjson.JSONDecodeError:
            return cls()
        if not isinstance(fields, dict):
            return cls()
        topic_id = fields.pop("topicId", None)
        if not isinstance(topic_id, str):
            topic_id = ""
        last = Landmark.of(fields.pop("last", None))
        loading_from = fields.pop("loadingFrom", None)
        if not isinstance(loading_from, int):
            loading_from = None
        others = ""
        if fields:
            # Sorted, so that equal members give equal details.
            others = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()
        return cls(topic_id, others, last, loading_from)


@dataclass(frozen=True, slots=True)
class AppliedOffset:
    """How far a Kafka partition has been applied to a target: kept in the target, in the same
    transaction as the rows."""

    topic: str
    partition: int
    # The first offset that is not applied.
    next_offset: int
    # The version of the stored position that the batch started from.
    position_version: int
    # The epoch of the process that last took the partition over.
    epoch: int = 0
    details: Details = Details()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_loading(self) -> bool:
        """Whether a direct load is not finished. It is where anything was applied since, also by a
        version that does not know of the mark."""
        return self.details.loading_from == self.next_offset

    def is_same_commit(self, other: AppliedOffset) -> bool:
        """Whether both are the same commit of a partition: the details follow from it."""
        mine = (self.next_offset, self.position_version, self.epoch)
        return mine == (other.next_offset, other.position_version, other.epoch)


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """A target's table of applied offsets, as found."""

    is_there: bool
    # Whether the task could create the table; None where that is unknown.
    may_create: bool | None
    # The offsets of the loader's task.
    applied: Sequence[AppliedOffset] = ()
