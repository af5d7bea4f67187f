"""The page of one dead letter of a consumer task: its row beside the target's current row, and the
replay of all dead letters of the row in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letters import OpenDeadLetter
from cdcbus.ops.services.target_rows import ComparedCell, TargetRow, target_rows
from cdcbus.ops.web import actions
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.auth import is_logged_in
from cdcbus.ops.web.bus import bus_of
from cdcbus.ops.web.cells import short
from cdcbus.ops.web.pages.rendering import page
from cdcbus.plugins.errors import CdcError
from cdcbus.tasks.config.diagnostics import printable
from cdcbus.tasks.control.uses import kafka_and_target_of

router = APIRouter()


@router.get("/letters/{task_id}/row")
def letter_row_page(request: Request, task_id: str, record: str) -> Response:
    """Only for those who may see rows. Reads the target; if it does not answer, a sentence says
    so."""
    bus = bus_of(request)
    if bus.has_way_in and not is_logged_in(request):
        raise Refused(403, "rows of dead letters are for those who may see cells: log in at /login")
    task = actions.stored_task(bus, task_id)
    if not isinstance(task, LoadTask):
        raise Refused(404, "the letters of a fetch task hold no rows, and it has no target table")
    letters = []
    chosen = None
    for each in actions.dead_letters(bus, task_id):
        if isinstance(each, OpenDeadLetter):
            letters.append(each)
            if each.dead_letter.record == record:
                chosen = each
    if chosen is None:
        raise Refused(404, "there is no such open dead letter; it may have been resolved meanwhile")
    rows: Sequence[TargetRow] = ()
    away = ""
    try:
        # Read again, with the target's login: where that is missing, this says so.
        reader = actions.stored_task(bus, task_id, kafka_and_target_of)
        assert isinstance(reader, LoadTask)
        rows = [_shown(each) for each in target_rows(reader, chosen.value)]
    except CdcError as error:
        away = printable(str(error))
    same_row = of_same_row(letters, chosen)
    values = {
        "task_id": task_id,
        "letter": chosen,
        "time": chosen.time[:19].replace("T", " "),
        "rows": rows,
        "away": away,
        "same_row": same_row,
        "place": same_row.index(chosen) + 1,
    }
    return page(request, "letter_row.html", values, section="/letters")


def of_same_row(letters: Sequence[OpenDeadLetter], one: OpenDeadLetter) -> list[OpenDeadLetter]:
    """The dead letters of the same row, in the order of a replay. Without a key it is unknown which
    others belong to the row."""
    if one.key is None:
        return [one]
    return [each for each in letters if _row(each) == _row(one)]


def _row(letter: OpenDeadLetter) -> tuple[str, int, bytes | None]:
    return letter.dead_letter.topic, letter.dead_letter.partition, letter.key


def _shown(row: TargetRow) -> TargetRow:
    return replace(row, table=printable(row.table), cells=tuple(map(_shown_cell, row.cells)))


def _shown_cell(cell: ComparedCell) -> ComparedCell:
    return replace(
        cell,
        name=printable(cell.name),
        before=short(cell.before),
        after=short(cell.after),
        now=short(cell.now),
    )
