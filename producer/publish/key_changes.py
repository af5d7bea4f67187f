"""Warns where a table's record keys change with its columns: rows go to other partitions then."""

from __future__ import annotations

import logging
from collections.abc import Callable

from cdcbus.plugins.errors import BusError
from cdcbus.plugins.kafka.key_form import KeyForm, key_form, rekeyed, shown
from cdcbus.plugins.rowchange import Origin, Table, TableId

LOG = logging.getLogger(__name__)


class KeyChanges:
    """The forms of the record keys that one process has sent. `partitions_of`: the number of a
    topic's partitions; it may raise BusError."""

    def __init__(self, partitions_of: Callable[[str], int]) -> None:
        self._partitions_of = partitions_of
        self._forms: dict[tuple[str, TableId, TableId], KeyForm] = {}

    def look(
        self, topic: str, source: TableId, table: Table, key: tuple[str, ...], origin: Origin
    ) -> None:
        """To be called before the first row of a source table as it is defined now. `table`: as it
        is mapped; `key`: the columns of its record keys; `origin`: the row's."""
        after = key_form(table, key)
        # Several source tables can be mapped to one.
        where = topic, source, table.id
        before = self._forms.get(where, after)
        self._forms[where] = after
        if not rekeyed(before, after) or not self._has_several(topic):
            return
        LOG.warning(
            "%s: the columns of which its record keys are made have changed from %s to %s, before "
            "the rows at %s:%d, so rows may go to other partitions of topic %s from there on. Let "
            "consumer tasks apply everything before that first: one that is behind in a partition, "
            "or starts later, can write older states of rows over newer ones. Compare the table by "
            "cdcbus verify of its consumer task, which can also repair it",
            table.id,
            shown(before),
            shown(after),
            origin.file,
            origin.pos,
            topic,
        )

    def _has_several(self, topic: str) -> bool:
        """Whether a topic has several partitions; True where that is not known."""
        try:
            return self._partitions_of(topic) != 1
        except BusError:
            return True
