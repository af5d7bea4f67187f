"""A stored position that somebody has set by hand."""

from __future__ import annotations

import logging

from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.positions import BinlogPosition

LOG = logging.getLogger(__name__)


def as_set(stored: str, positions: PositionStore) -> str:
    """The stored position; where it is the one that the task itself wrote, and somebody has changed
    only the place in it, without what belongs to the former place: reading by its GTIDs or its time
    would go on there, whatever the place. One that cannot be read is returned as it is."""
    if positions.written is None:
        return stored
    try:
        position = BinlogPosition.from_json(stored)
        was = BinlogPosition.from_json(positions.written.position)
    except PositionError:
        return stored
    found = position.moved_from(was)
    if found == position:
        return stored
    LOG.warning(
        "%s was set to %s with the gtid and timestamp of %s, where the task had been: reading goes "
        "by the file and offset",
        positions.path,
        position,
        was,
    )
    return found.to_json()
