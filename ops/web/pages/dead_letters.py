"""The pages of dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letters import OpenDeadLetter
from cdcbus.ops.services.dead_letter_fields import original_of
from cdcbus.ops.services.dead_letters import NO_REPLAY, FetchLetter
from cdcbus.ops.services.topics import access_of
from cdcbus.ops.web import actions
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.auth import is_logged_in, operator_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.cells import FoundCell, cells_side_by_side
from cdcbus.ops.web.overview.stored_tasks import keeps_letters, route_of
from cdcbus.ops.web.pages.rendering import page
from cdcbus.ops.web.pages.shared import DONE, shared
from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.errors import CdcError, ConversionError
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import printable
from cdcbus.tasks.control.dead_letters import digest_of

SHOWN = 200  # the newest letters of a task
VALUE_CHARACTERS = 4000  # of a record's part
# Of a fetch task's letter, without its key, which holds cells.
PLACES = ("table", "position", "row", "bytes")


router = APIRouter()


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A letter. `parts`: of its record, by name; `changes`: the row changes that it holds, as
    operation, table and cells; both with cells only for those who may see them. `unreadable`: why
    there are none."""

    record: str
    time: str
    reason: str
    parts: Sequence[tuple[str, str]]
    changes: Sequence[tuple[str, str, Sequence[FoundCell]]] = ()
    unreadable: str = ""


def letter_row(
    each: OpenDeadLetter | FetchLetter, shows_cells: bool, reader: Converter | None = None
) -> LetterRow:
    """`reader`: decodes the task's records; without it the row changes are not shown."""
    parts = {}
    if shows_cells:
        parts = original_of(each)
    elif isinstance(each, FetchLetter):
        original = original_of(each)
        for name in PLACES:
            if name in original:
                parts[name] = original[name]
    time = each.time[:19].replace("T", " ")
    changes: list[tuple[str, str, Sequence[FoundCell]]] = []
    unreadable = ""
    if shows_cells and reader is not None and isinstance(each, OpenDeadLetter):
        try:
            for change in reader.from_bytes(each.value):
                table = printable(str(change.table.id))
                changes.append((change.op.value, table, cells_side_by_side(change)))
        except ConversionError as error:
            unreadable = printable(str(error))
    return LetterRow(
        each.dead_letter.record,
        time,
        each.dead_letter.reason,
        [(name, _shown(part)) for name, part in parts.items() if part],
        changes,
        unreadable,
    )


def _shown(part: object) -> str:
    text = str(part)
    if isinstance(part, dict):
        text = ", ".join(f"{name}={value}" for name, value in part.items())
    text = printable(text)
    if len(text) <= VALUE_CHARACTERS:
        return text
    return f"{text[:VALUE_CHARACTERS]}… ({len(text):,} characters)"


@router.get("/letters")
def letters_page(request: Request) -> Response:
    bus = bus_of(request)
    away: dict[str, str] = {}
    rows = []
    for task in shared(request).tasks.all():
        if keeps_letters(task):
            count = _letter_count(bus, task, away)
            rows.append({"task_id": task.task_id, "route": route_of(task), **count})
    return page(request, "letters.html", {"rows": rows}, section="/letters")


def _letter_count(
    bus: WebBus, task: FetchTask | LoadTask, away: dict[str, str]
) -> Mapping[str, Any]:
    """`away`: why Kafka clusters do not answer, by their servers. Each is asked only once, as
    waiting for it takes long."""
    servers = access_of(task).servers
    if servers in away:
        return {"open": None, "newest": "", "away": away[servers]}
    try:
        dead_letters = actions.dead_letters(bus, task.task_id)
    except CdcError as error:
        away[servers] = str(error)
        return {"open": None, "newest": "", "away": away[servers]}
    newest = max((dead_letter.time for dead_letter in dead_letters), default="")
    return {"open": len(dead_letters), "newest": newest, "away": ""}


@router.get("/letters/{task_id}")
def task_letters_page(request: Request, task_id: str, done: str = "") -> Response:
    """The dead letters of a task, with the records themselves for those who may see rows."""
    bus = bus_of(request)
    dead_letters = sorted(
        actions.dead_letters(bus, task_id), key=lambda each: each.time, reverse=True
    )
    shows_cells = not bus.has_way_in or is_logged_in(request)
    task = actions.stored_task(bus, task_id)
    reader, no_replay = None, ""
    if isinstance(task, LoadTask):
        reader = task.reader
    else:
        no_replay = NO_REPLAY
    values = {
        "task_id": task_id,
        "open": len(dead_letters),
        "seen": digest_of(dead_letters),
        "letters": [letter_row(each, shows_cells, reader) for each in dead_letters[:SHOWN]],
        "no_replay": no_replay,
        "done": DONE.get(done, ""),
    }
    return page(request, "task_letters.html", values, section="/letters")


Records = Annotated[Sequence[str], Form(alias="record", default_factory=tuple)]
TakesAll = Annotated[bool, Form(alias="all")]
IsForced = Annotated[bool, Form(alias="force")]
# Of all letters that were open when the page was made.
Digest = Annotated[str, Form(alias="seen")]


@router.post("/letters/{task_id}/replay")
def replay(
    request: Request,
    task_id: str,
    records: Records,
    takes_all: TakesAll = False,
    force: IsForced = False,
    seen: Digest = "",
) -> Response:
    actions.dlq_replay(
        bus_of(request), task_id, _chosen(records, takes_all), operator_of(request), force, seen
    )
    return RedirectResponse(f"/letters/{quote(task_id, safe='')}?done=replay", 303)


@router.post("/letters/{task_id}/drop")
def drop(
    request: Request,
    task_id: str,
    records: Records,
    takes_all: TakesAll = False,
    seen: Digest = "",
) -> Response:
    actions.dlq_drop(
        bus_of(request), task_id, _chosen(records, takes_all), operator_of(request), seen
    )
    return RedirectResponse(f"/letters/{quote(task_id, safe='')}?done=drop", 303)


def _chosen(records: Sequence[str], takes_all: bool) -> Sequence[str] | None:
    # An empty form must not stand for all of them.
    if not records and not takes_all:
        raise Refused(422, "no dead letter was chosen; go back and tick some")
    if takes_all:
        return None
    return records
