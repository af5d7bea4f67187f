"""Stores the progress of snapshots on a thread beside the stream, and brings operators' wishes."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.saved_aside import SavedAside
from cdcbus.producer.snapshot.courses import Course, Courses
from cdcbus.producer.snapshot.progress import SnapshotStore, TableProgress, TableState, Wish

LOG = logging.getLogger(__name__)


class ProgressSaver:
    """Saves what is `unsaved` of the courses. For one thread at a time."""

    def __init__(self, store: SnapshotStore, courses: Courses) -> None:
        self._store = store
        self._courses = courses
        self._aside = SavedAside("the progress of snapshots")
        # Set by the thread that saves, until `saved` takes it up.
        self._saved: dict[TableId, TableProgress] = {}
        self._found: list[Wish] = []

    def save(self) -> bool:
        """Begins to save, if there is something to save, no save in progress, and no found wish
        that is yet to be taken up. Returns whether it did. Raises PositionError."""
        if not self._aside.is_free():
            return False
        # Found after the last `take_up`: this save would remove them before anybody heeds them.
        if self._found:
            return False
        if not self._courses.unsaved and not self._store.has_wishes():
            return False
        # Wishes are heeded once they are done, or part of the progress saved before.
        is_heeded = not self._courses.to_find
        self._aside.save(partial(self._write, dict(self._courses.unsaved), is_heeded=is_heeded))
        return True

    def _write(self, tables: dict[TableId, TableProgress], *, is_heeded: bool) -> None:
        """Saves on a thread of its own, in parallel with the stream."""
        if tables:
            self._store.save(tables)
            self._saved = tables
        if is_heeded:
            self._store.heeded()
        self._found = self._store.wishes()

    def take_up(self) -> list[Wish]:
        """Takes note of what has been saved, and returns the wishes that were found."""
        if not (self._saved or self._found) or not self._aside.is_free():
            return []
        saved, self._saved = self._saved, {}
        unsaved = self._courses.unsaved
        for table, progress in saved.items():
            # Progress that was made during the save is another object, and still to be saved.
            if unsaved.get(table) is progress:
                del unsaved[table]
        found, self._found = self._found, []
        return found

    def save_now(self, course: Course, progress: TableProgress) -> None:
        """Stores a table's progress before it returns, after every earlier save. Raises
        PositionError, PositionUnavailable."""
        self.settle()
        self._store.save({course.table: progress})
        self._courses.unsaved.pop(course.table, None)

    def save_sending(self, course: Course) -> None:
        """Stores that a table without a key is being sent, before it is. Raises PositionError,
        PositionUnavailable."""
        self.settle()
        # First what began it: a restart would obey that again, and send the rows a second time.
        self._store.save(dict(self._courses.unsaved))
        self._courses.unsaved.clear()
        waiting = [wish for wish in self._courses.to_find if isinstance(wish, Wish)]
        self._store.heeded(but_last=len(waiting) + len(self._found))
        course.progress = replace(course.progress, state=TableState.SENDING)
        self._store.save({course.table: course.progress})

    def settle(self) -> None:
        """Waits until nothing is being saved. A save that failed is left to the next attempt."""
        try:
            self._aside.settle()
        except PositionUnavailable as error:
            LOG.warning("the progress of snapshots is stored later: %s", error)

    def rest(self) -> None:
        """Returns once nothing is being saved, at the end."""
        self._aside.rest()
